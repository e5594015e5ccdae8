#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/random.h"
#include "cost/cost_model.h"
#include "cost/test_util.h"
#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/cost/store_features.h"

namespace fettle {
namespace {

using testing::Samples;

// Programs of one to three statements, each of which takes a time of its own; predicted_seconds says nothing.
Samples make_samples(size_t count, uint64_t seed) {
  RandomStream stream{seed};
  Samples samples;
  for (size_t i = 0; i < count; ++i) {
    CandidateFeatures c;
    c.workload = i % 2;
    c.predicted_seconds = 1;
    double work = 0;
    for (size_t statement = 0; statement < 1 + i % 2; ++statement) {
      std::vector<float> row(kStoreFeatures, 0.0f);
      for (const size_t f : {3, 20, 90}) row[f] = static_cast<float>(stream.uniform());
      work += 0.2 + static_cast<double>(row[3]) + (row[90] > 0.5f ? 0.5 : 0.0);
      c.rows.insert(c.rows.end(), row.begin(), row.end());
    }
    samples.seconds.push_back(work * (i % 2 ? 1e-3 : 1e-1));
    samples.candidates.push_back(std::move(c));
  }
  return samples;
}

// Of pairs of one workload.
double accuracy_by_workload(CostModel& model, const Samples& samples) {
  return testing::accuracy(model, samples, [&](size_t i, size_t j) {
    return samples.candidates[i].workload == samples.candidates[j].workload;
  });
}

TEST(StatementTrees, LearnWhatStatementsTake) {
  const auto model = make_statement_trees(1);
  const Samples known = make_samples(300, 1), others = make_samples(100, 2);
  EXPECT_EQ(model->predict(others.candidates), std::vector<double>(100, 1.0));  // nothing is learned yet
  ASSERT_TRUE(model->update(known.candidates, known.seconds));
  EXPECT_GT(accuracy_by_workload(*model, known), 0.95);
  EXPECT_GT(accuracy_by_workload(*model, others), 0.85);
}

// A program of many statements, each of which takes a share: scores neither overshoot nor grow without bound.
TEST(StatementTrees, LearnProgramsOfManyStatements) {
  constexpr size_t kStatements = 40;
  const auto make = [](size_t count, uint64_t seed) {
    RandomStream stream{seed};
    Samples samples;
    for (size_t i = 0; i < count; ++i) {
      CandidateFeatures c;
      c.predicted_seconds = 1;
      const double slow = stream.uniform();
      double work = 0;
      for (size_t statement = 0; statement < kStatements; ++statement) {
        std::vector<float> row(kStoreFeatures, 0.0f);
        row[3] = stream.uniform() < slow ? 1.0f : 0.0f;
        work += 0.1 + static_cast<double>(row[3]);
        c.rows.insert(c.rows.end(), row.begin(), row.end());
      }
      samples.seconds.push_back(work * 1e-3);
      samples.candidates.push_back(std::move(c));
    }
    return samples;
  };
  const auto model = make_statement_trees(1);
  EXPECT_FALSE(model->can_rank());
  const Samples known = make(200, 1), others = make(60, 2);
  ASSERT_TRUE(model->update(known.candidates, known.seconds));
  EXPECT_TRUE(model->can_rank());
  EXPECT_GT(accuracy_by_workload(*model, others), 0.85);
  const double best = *std::ranges::min_element(known.seconds);
  for (const double seconds : model->predict(others.candidates)) {
    EXPECT_GT(seconds, best / 3);
    EXPECT_LT(seconds, best * 300);
  }
}

TEST(StatementTrees, WhatFailedIsPredictedSlow) {
  const auto model = make_statement_trees(1);
  Samples known = make_samples(200, 1);
  for (size_t i = 0; i < known.seconds.size(); ++i)
    if (known.candidates[i].rows[20] > 0.7f) known.seconds[i] = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(model->update(known.candidates, known.seconds));
  CandidateFeatures fine = known.candidates[0];
  fine.rows[20] = 0.1f;
  CandidateFeatures fails = fine;
  fails.rows[20] = 0.9f;
  const auto predicted = model->predict(std::vector{fine, fails});
  EXPECT_LT(predicted[0], predicted[1]);
}

// What no statement tells apart is ranked by its prediction, if the scores begin there, and in a model that was kept,
// too.
TEST(StatementTrees, ScoresMayBeginAtThePrediction) {
  const auto zero = make_statement_trees(1), ours = make_statement_trees(1, ScoreStart::kPrediction),
             again = make_statement_trees(1, ScoreStart::kPrediction);
  RandomStream stream{5};
  Samples known, others;
  for (int i = 0; i < 120; ++i) {
    CandidateFeatures c;
    c.rows.assign(kStoreFeatures, 0.0f);
    c.rows[3] = i % 2 ? 1.0f : 0.0f;  // twice as slow as it is predicted
    c.predicted_seconds = 1e-3 * (1 + stream.uniform());
    Samples& samples = i < 80 ? known : others;
    samples.seconds.push_back(3 * c.predicted_seconds * (i % 2 ? 2 : 1));
    samples.candidates.push_back(std::move(c));
  }
  ASSERT_TRUE(zero->update(known.candidates, known.seconds));
  ASSERT_TRUE(ours->update(known.candidates, known.seconds));
  EXPECT_FALSE(zero->asks_prediction());
  EXPECT_TRUE(ours->asks_prediction());
  EXPECT_LT(accuracy_by_workload(*zero, others), 0.8);
  EXPECT_GT(accuracy_by_workload(*ours, others), 0.95);
  const std::string path = std::filesystem::temp_directory_path() / ("statements-" + std::to_string(getpid()));
  ASSERT_TRUE(ours->save(path));
  ASSERT_TRUE(again->load(path));
  EXPECT_EQ(again->predict(others.candidates), ours->predict(others.candidates));
  std::filesystem::remove(path);
}

TEST(StatementTrees, WithoutStatementsThePredictionStays) {
  const auto model = make_statement_trees(1);
  const Samples known = make_samples(40, 1);
  ASSERT_TRUE(model->update(known.candidates, known.seconds));
  CandidateFeatures none;
  none.predicted_seconds = 0.25;
  EXPECT_EQ(model->predict(std::span(&none, 1)).front(), 0.25);
}

TEST(StatementTrees, KeptAndGoneOnWith) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fettle_statements_" + std::to_string(::getpid()))).string();
  const auto model = make_statement_trees(1), again = make_statement_trees(1);
  Samples known = make_samples(60, 1);
  known.seconds[3] = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(model->update(known.candidates, known.seconds));
  ASSERT_TRUE(model->save(path));
  ASSERT_TRUE(again->load(path));
  EXPECT_EQ(model->predict(known.candidates), again->predict(known.candidates));
  // A file of another model.
  ASSERT_TRUE(make_boosted_trees(1)->save(path));
  EXPECT_FALSE(again->load(path));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace fettle
