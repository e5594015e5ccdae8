#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <tuple>

#include "base/random.h"
#include "cost/cost_model.h"
#include "cost/test_util.h"
#include "generations/autotvm/cost/autotvm_trees.h"
#include "generations/autotvm/cost/loop_features.h"

namespace fettle {
namespace {

using testing::accuracy;
using testing::Samples;

size_t width_of(FeatureKind kind) {
  return kind == FeatureKind::kKnob ? 6 : kind == FeatureKind::kLoop ? kLoopFeatures : kCurveFeatures;
}

// Candidates of one workload, whose time two columns tell; predicted_seconds says nothing. `other` turns one around.
Samples make_samples(FeatureKind kind, size_t count, uint64_t seed, uint64_t workload = 1, bool other = false) {
  RandomStream stream{seed};
  Samples samples;
  for (size_t i = 0; i < count; ++i) {
    CandidateFeatures c;
    c.workload = workload;
    c.columns = kind == FeatureKind::kKnob ? 77 : 0;
    c.predicted_seconds = 1;
    c.rows.assign(width_of(kind), 0.0f);
    for (const size_t f : {1, 3, 5}) c.rows[f] = static_cast<float>(stream.uniform());
    const double x = static_cast<double>(c.rows[3]);
    const double work = 0.2 + (other ? 1 - x : x) + (c.rows[5] > 0.5f ? 0.5 : 0.0);
    samples.seconds.push_back(work * (workload % 2 ? 1e-3 : 1e-1));
    samples.candidates.push_back(std::move(c));
  }
  return samples;
}

void learn(CostModel& model, const Samples& samples) {
  const auto done = model.update(samples.candidates, samples.seconds);
  ASSERT_TRUE(done.has_value()) << done.error().to_string();
}

struct TempFile {
  TempFile()
      : path((std::filesystem::temp_directory_path() / ("fettle_autotvm_" + std::to_string(::getpid()))).string()) {}
  ~TempFile() { std::filesystem::remove(path); }
  std::string path;
};

class AutotvmTrees : public ::testing::TestWithParam<std::tuple<FeatureKind, Loss>> {
 protected:
  static FeatureKind kind() { return std::get<0>(GetParam()); }
  static std::unique_ptr<CostModel> make() { return make_autotvm_trees(1, kind(), std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, AutotvmTrees,
                         ::testing::Combine(::testing::Values(FeatureKind::kKnob, FeatureKind::kLoop,
                                                              FeatureKind::kCurve),
                                            ::testing::Values(Loss::kRegression, Loss::kRank)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) == Loss::kRank ? "_by_rank" : "");
                         });

TEST_P(AutotvmTrees, LearnWhatIsFaster) {
  const auto model = make();
  const Samples known = make_samples(kind(), 200, 1), others = make_samples(kind(), 100, 2);
  EXPECT_EQ(model->predict(others.candidates), std::vector<double>(100, 1.0));  // nothing is learned yet
  learn(*model, known);
  EXPECT_GT(accuracy(*model, known), 0.95);
  EXPECT_GT(accuracy(*model, others), 0.85);
  // In seconds, roughly.
  const std::vector<double> predicted = model->predict(others.candidates);
  for (size_t i = 0; i < predicted.size(); ++i) {
    EXPECT_GT(predicted[i], others.seconds[i] / 3);
    EXPECT_LT(predicted[i], others.seconds[i] * 3);
  }
  EXPECT_TRUE(model->predict({}).empty());
}

TEST_P(AutotvmTrees, TimesOfDifferentWorkloadsAreNotCompared) {
  const auto model = make();
  for (uint64_t workload : {1, 2}) learn(*model, make_samples(kind(), 120, 1 + workload, workload));
  for (uint64_t workload : {1, 2}) EXPECT_GT(accuracy(*model, make_samples(kind(), 80, 10, workload)), 0.85);
}

TEST_P(AutotvmTrees, WhatFailedIsPredictedSlow) {
  const auto model = make();
  Samples known = make_samples(kind(), 200, 1);
  for (size_t i = 0; i < known.seconds.size(); ++i)
    if (known.candidates[i].rows[1] > 0.7f) known.seconds[i] = std::numeric_limits<double>::infinity();
  learn(*model, known);
  CandidateFeatures fine = known.candidates[0];
  fine.rows[1] = 0.1f;
  CandidateFeatures fails = fine;
  fails.rows[1] = 0.9f;
  const auto predicted = model->predict(std::vector{fine, fails});
  EXPECT_LT(predicted[0], predicted[1]);
  EXPECT_TRUE(std::isfinite(predicted[1]));
}

TEST_P(AutotvmTrees, WithoutARowThePredictionStays) {
  const auto model = make();
  learn(*model, make_samples(kind(), 40, 1));
  CandidateFeatures none;
  none.predicted_seconds = 0.25;
  EXPECT_EQ(model->predict(std::span(&none, 1)).front(), 0.25);
  EXPECT_TRUE(model->update(std::span(&none, 1), std::vector{1.0}));
}

TEST_P(AutotvmTrees, KeptAndGoneOnWith) {
  const TempFile file;
  const auto model = make(), again = make();
  Samples known = make_samples(kind(), 60, 1);
  known.seconds[3] = std::numeric_limits<double>::infinity();
  learn(*model, known);
  ASSERT_TRUE(model->save(file.path));
  ASSERT_TRUE(again->load(file.path));
  EXPECT_EQ(model->predict(known.candidates), again->predict(known.candidates));
  // What is loaded is the global model; a local one is trained on what it misses.
  const Samples unseen = make_samples(kind(), 100, 3);
  const double before = accuracy(*again, unseen);
  learn(*again, make_samples(kind(), 100, 4));
  EXPECT_GT(accuracy(*again, unseen), before);
  // Both are kept.
  const auto third = make();
  ASSERT_TRUE(again->save(file.path));
  ASSERT_TRUE(third->load(file.path));
  EXPECT_GT(accuracy(*third, unseen), before);
}

TEST_P(AutotvmTrees, FilesOfOtherModelsAndDamagedOnesAreRefused) {
  const TempFile file;
  const auto model = make();
  EXPECT_EQ(model->load(file.path).error().code, ErrorCode::E701);
  const FeatureKind other = kind() == FeatureKind::kCurve ? FeatureKind::kKnob : FeatureKind::kCurve;
  ASSERT_TRUE(make_autotvm_trees(1, other)->save(file.path));
  EXPECT_EQ(model->load(file.path).error().code, ErrorCode::E503);
  learn(*model, make_samples(kind(), 40, 1));
  ASSERT_TRUE(model->save(file.path));
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) / 2);
  EXPECT_EQ(make()->load(file.path).error().code, ErrorCode::E503);
}

TEST_P(AutotvmTrees, RowsOfAnotherWidthAreRefused) {
  const auto model = make();
  learn(*model, make_samples(kind(), 40, 1));
  Samples wrong = make_samples(kind(), 1, 2);
  wrong.candidates[0].rows.push_back(1);
  const auto refused = model->update(wrong.candidates, wrong.seconds);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::E709);
  EXPECT_NE(refused.error().to_string().find(std::to_string(width_of(kind()))), std::string::npos);
}

TEST_P(AutotvmTrees, LoadedForAnotherWorkload) {
  const TempFile file;
  const auto first = make(), second = make();
  learn(*first, make_samples(kind(), 200, 1, 1));
  ASSERT_TRUE(first->save(file.path));
  ASSERT_TRUE(second->load(file.path));
  // Knobs of the same names have the same columns, so they carry over, too.
  EXPECT_GT(accuracy(*second, make_samples(kind(), 100, 2, 2)), 0.85);
  // What is different there is learned on top.
  const Samples other = make_samples(kind(), 100, 3, 2, true);
  EXPECT_LT(accuracy(*second, other), 0.6);
  learn(*second, make_samples(kind(), 200, 4, 2, true));
  EXPECT_GT(accuracy(*second, other), 0.8);
}

TEST(AutotvmKnobTrees, EachWorkloadHasItsOwn) {
  const auto knobs = make_autotvm_trees(1, FeatureKind::kKnob);
  learn(*knobs, make_samples(FeatureKind::kKnob, 120, 1, 1));
  learn(*knobs, make_samples(FeatureKind::kKnob, 120, 2, 2, true));
  EXPECT_GT(accuracy(*knobs, make_samples(FeatureKind::kKnob, 80, 3, 1)), 0.85);
  EXPECT_GT(accuracy(*knobs, make_samples(FeatureKind::kKnob, 80, 4, 2, true)), 0.85);
}

TEST(AutotvmKnobTrees, OfAnotherTemplateAreRefusedOnceLoaded) {
  const TempFile file;
  const auto first = make_autotvm_trees(1, FeatureKind::kKnob), second = make_autotvm_trees(1, FeatureKind::kKnob);
  learn(*first, make_samples(FeatureKind::kKnob, 40, 1));
  ASSERT_TRUE(first->save(file.path));
  ASSERT_TRUE(second->load(file.path));
  Samples wider = make_samples(FeatureKind::kKnob, 20, 2, 2);
  for (CandidateFeatures& c : wider.candidates) {
    c.rows.push_back(1);
    c.columns = 78;
  }
  for (const double s : second->predict(wider.candidates)) EXPECT_EQ(s, 1.0);  // nothing is known of them
  const auto refused = second->update(wider.candidates, wider.seconds);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::E709);
  EXPECT_NE(refused.error().to_string().find("6 knob values, and this one has 7"), std::string::npos)
      << refused.error().to_string();
  // Some of another kind do not matter: a search's default is no configuration of a template.
  Samples mixed = make_samples(FeatureKind::kKnob, 20, 3, 4);
  mixed.candidates[0] = wider.candidates[0];
  mixed.candidates[0].workload = 4;
  EXPECT_TRUE(second->update(std::span(mixed.candidates).first(1), std::span(mixed.seconds).first(1)));
  EXPECT_TRUE(second->update(mixed.candidates, mixed.seconds));
  // A model that was not loaded takes both.
  EXPECT_TRUE(first->update(wider.candidates, wider.seconds));
}

}  // namespace
}  // namespace fettle
