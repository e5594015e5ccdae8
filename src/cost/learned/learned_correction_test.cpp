#include "cost/learned/learned_correction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cost/predict/predict.h"

namespace fettle {
namespace {

TEST(LearnedCorrection, FollowsTheSplitsOfATree) {
  // Feature 1 at 2, then feature 0 at 1 on the left and at 5 on the right; the rest goes left.
  CorrectionTree tree{};
  tree.feature[0] = 1;
  tree.threshold[0] = 2;
  tree.threshold[1] = 1;
  tree.threshold[2] = 5;
  for (int i = 3; i < CorrectionTree::kSplits; ++i) tree.threshold[i] = INFINITY;
  for (int i = 0; i <= CorrectionTree::kSplits; ++i) tree.leaf[i] = static_cast<float>(i);
  const auto of = [&](float first, float second) {
    const float features[] = {first, second};
    return sum_of_trees(std::vector{tree, tree}, features);
  };
  EXPECT_EQ(of(0, 0), 0);
  EXPECT_EQ(of(1, 0), 2 * 4) << "what equals the threshold goes right";
  EXPECT_EQ(of(0, 2), 2 * 8);
  EXPECT_EQ(of(7, 9), 2 * 12);
}

TEST(LearnedCorrection, IsReadAsItIsWritten) {
  const std::string text = to_text(kept_correction());
  const auto read = parse_correction(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->features, kept_correction().features);
  ASSERT_EQ(read->trees.size(), kept_correction().trees.size());
  EXPECT_GT(read->trees.size(), 100u);
  EXPECT_EQ(to_text(*read), text);
  EXPECT_FALSE(parse_correction(text.substr(0, text.size() / 2)));
  EXPECT_FALSE(parse_correction("12\n" + std::string("300 ") + text));
  EXPECT_FALSE(parse_correction(""));
}

TEST(LearnedCorrection, IsOfTheFeaturesThereAre) {
  EXPECT_EQ(kept_correction().features, hash_of_features())
      << "features have changed: train it again (docs/search.md, \"The model that ranks\")";
  std::vector<float> features(feature_names().size(), 0.0f);
  EXPECT_LE(std::abs(learned_correction(features)), 1);
  // It tells programs apart.
  double least = 1, most = -1;
  for (size_t f = 0; f < features.size(); ++f) {
    std::vector<float> changed = features;
    changed[f] = 20;
    least = std::min(least, learned_correction(changed));
    most = std::max(most, learned_correction(changed));
  }
  EXPECT_GT(most, least);
}

}  // namespace
}  // namespace fettle
