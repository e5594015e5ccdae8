#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "base/random.h"
#include "cost/cost_model.h"
#include "cost/test_util.h"

namespace fettle {
namespace {

using testing::Samples;

// The prediction misses a factor that two of the features tell.
Samples make_samples(size_t count, uint64_t seed) {
  RandomStream stream{seed};
  Samples samples;
  for (size_t i = 0; i < count; ++i) {
    CandidateFeatures c;
    for (int f = 0; f < 10; ++f) c.values.push_back(static_cast<float>(stream.uniform()));
    c.predicted_seconds = 1e-3 * (1 + stream.uniform());
    const double missed = 0.4 * static_cast<double>(c.values[3]) + (c.values[7] > 0.5f ? 0.3 : 0.0);
    samples.seconds.push_back(c.predicted_seconds * std::exp(missed));
    samples.candidates.push_back(std::move(c));
  }
  return samples;
}

double error_of(CostModel& model, const Samples& samples) {
  const std::vector<double> predicted = model.predict(samples.candidates);
  double sum = 0;
  for (size_t i = 0; i < predicted.size(); ++i) sum += std::abs(std::log(predicted[i] / samples.seconds[i]));
  return sum / static_cast<double>(predicted.size());
}

struct TempFile {
  TempFile()
      : path((std::filesystem::temp_directory_path() / ("fettle_trees_" + std::to_string(::getpid()))).string()) {}
  ~TempFile() { std::filesystem::remove(path); }
  std::string path;
};

struct Learned {
  const char* name;
  std::unique_ptr<CostModel> (*make)(uint64_t seed);
};
void PrintTo(const Learned& learned, std::ostream* out) { *out << learned.name; }
class LearnedModels : public ::testing::TestWithParam<Learned> {
 protected:
  static std::unique_ptr<CostModel> make(uint64_t seed) { return GetParam().make(seed); }
};
INSTANTIATE_TEST_SUITE_P(All, LearnedModels,
                         ::testing::Values(Learned{"trees", [](uint64_t s) { return make_boosted_trees(s); }},
                                           Learned{"trees_by_rank",
                                                   [](uint64_t s) { return make_boosted_trees(s, Loss::kRank); }},
                                           Learned{"mlp", [](uint64_t s) { return make_mlp(s); }}),
                         [](const auto& info) { return std::string(info.param.name); });

// The share of pairs whose order is predicted right.
double right_pairs(CostModel& model, const Samples& samples) {
  const std::vector<double> predicted = model.predict(samples.candidates);
  double right = 0, pairs = 0;
  for (size_t i = 0; i < predicted.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      right += (predicted[i] < predicted[j]) == (samples.seconds[i] < samples.seconds[j]) ? 1 : 0;
      ++pairs;
    }
  return right / pairs;
}

TEST_P(LearnedModels, WithoutDataThePredictionStands) {
  const auto model = make(1);
  const Samples samples = make_samples(20, 1);
  const std::vector<double> predicted = model->predict(samples.candidates);
  for (size_t i = 0; i < predicted.size(); ++i) EXPECT_EQ(predicted[i], samples.candidates[i].predicted_seconds);
  EXPECT_TRUE(model->predict({}).empty());
}

TEST(BoostedTrees, LearnsWhatThePredictionMisses) {
  const auto model = make_boosted_trees(1);
  const Samples unseen = make_samples(200, 2);
  const double before = error_of(*model, unseen);
  double last = before;
  for (uint64_t batch = 0; batch < 4; ++batch) {
    const Samples samples = make_samples(64, 100 + batch);
    ASSERT_TRUE(model->update(samples.candidates, samples.seconds).has_value());
    last = error_of(*model, unseen);
  }
  EXPECT_LT(last, 0.2 * before);
}

TEST_P(LearnedModels, OrderBetterThanThePrediction) {
  const auto model = make(1);
  const Samples unseen = make_samples(150, 2);
  const double before = right_pairs(*model, unseen);
  for (uint64_t batch = 0; batch < 6; ++batch) {
    const Samples samples = make_samples(64, 100 + batch);
    ASSERT_TRUE(model->update(samples.candidates, samples.seconds).has_value());
  }
  const double after = right_pairs(*model, unseen);
  EXPECT_GT(after, before + 0.5 * (1 - before)) << before;
}

TEST_P(LearnedModels, AFileOfAnotherModelIsRefused) {
  const TempFile file;
  const Samples samples = make_samples(40, 30);
  const auto other = std::string(GetParam().name) == "mlp" ? make_boosted_trees(1) : make_mlp(1);
  ASSERT_TRUE(other->update(samples.candidates, samples.seconds).has_value());
  ASSERT_TRUE(other->save(file.path).has_value());
  EXPECT_EQ(make(1)->load(file.path).error().code, ErrorCode::E503);
}

TEST_P(LearnedModels, WhatFailedIsPredictedSlow) {
  const auto model = make(1);
  Samples samples = make_samples(128, 3);
  for (size_t i = 0; i < samples.seconds.size(); ++i)
    if (samples.candidates[i].values[0] > 0.8f) samples.seconds[i] = INFINITY;
  ASSERT_TRUE(model->update(samples.candidates, samples.seconds).has_value());
  const std::vector<double> predicted = model->predict(samples.candidates);
  std::vector<double> failed, others;  // how much slower than by the prediction
  for (size_t i = 0; i < predicted.size(); ++i) {
    ASSERT_TRUE(std::isfinite(predicted[i]));
    const double factor = predicted[i] / samples.candidates[i].predicted_seconds;
    if (samples.candidates[i].values[0] > 0.85f) failed.push_back(factor);
    if (samples.candidates[i].values[0] < 0.75f) others.push_back(factor);
  }
  std::sort(others.begin(), others.end());
  for (const double factor : failed) EXPECT_GT(factor, others[others.size() * 9 / 10]);
}

TEST_P(LearnedModels, SameDataSameModel) {
  const auto a = make(7), b = make(7);
  const Samples unseen = make_samples(50, 4);
  for (uint64_t batch = 0; batch < 2; ++batch) {
    const Samples samples = make_samples(40, 10 + batch);
    ASSERT_TRUE(a->update(samples.candidates, samples.seconds).has_value());
    ASSERT_TRUE(b->update(samples.candidates, samples.seconds).has_value());
  }
  EXPECT_EQ(a->predict(unseen.candidates), b->predict(unseen.candidates));
}

TEST_P(LearnedModels, KeptAndGoneOnWith) {
  const TempFile file;
  const auto a = make(7), b = make(7);
  const Samples first = make_samples(40, 20), second = make_samples(40, 21), unseen = make_samples(50, 22);
  ASSERT_TRUE(a->update(first.candidates, first.seconds).has_value());
  ASSERT_TRUE(a->save(file.path).has_value());
  ASSERT_TRUE(b->load(file.path).has_value());
  EXPECT_EQ(a->predict(unseen.candidates), b->predict(unseen.candidates));
  ASSERT_TRUE(a->update(second.candidates, second.seconds).has_value());
  ASSERT_TRUE(b->update(second.candidates, second.seconds).has_value());
  EXPECT_EQ(a->predict(unseen.candidates), b->predict(unseen.candidates));
}

TEST_P(LearnedModels, ADamagedFileIsRefused) {
  const TempFile file;
  const auto model = make(7);
  const Samples samples = make_samples(40, 30);
  EXPECT_EQ(model->load(file.path).error().code, ErrorCode::E701);
  ASSERT_TRUE(model->update(samples.candidates, samples.seconds).has_value());
  ASSERT_TRUE(model->save(file.path).has_value());
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) / 2);
  EXPECT_EQ(make(7)->load(file.path).error().code, ErrorCode::E503);
}

TEST(SimpleModels, PredictionAndChance) {
  const Samples samples = make_samples(30, 40);
  const auto plain = make_prediction_only();
  EXPECT_EQ(plain->predict(samples.candidates)[4], samples.candidates[4].predicted_seconds);
  const auto a = make_random_model(5), b = make_random_model(5), c = make_random_model(6);
  const auto first = a->predict(samples.candidates);
  EXPECT_EQ(first, b->predict(samples.candidates));
  EXPECT_NE(first, c->predict(samples.candidates));
  EXPECT_NE(first, a->predict(samples.candidates));
}

}  // namespace
}  // namespace fettle
