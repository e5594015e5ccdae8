// Ansor's cost model: a score for each statement, a program's is the sum. By XGBoost's C interface.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "cost/learned/boosting.h"
#include "cost/learned/measured_rows.h"
#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/cost/store_features.h"
#include "lower/lower.h"

namespace fettle {
namespace {

constexpr size_t kLeastPrograms = 8;  // with fewer, nothing is learned
constexpr size_t kMostPrograms = 4096;
constexpr int kRounds = 100;
constexpr double kMostPrior = 1.5;  // what is predicted to be faster than anything measured

std::string title() { return fmt::format("fettle statement trees 3, {} features", kStoreFeatures); }

class StatementTrees : public CostModel {
 public:
  StatementTrees(uint64_t seed, ScoreStart start) : seed_(seed), start_(start) {}

  std::string name() const override { return "statement trees"; }

  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    append_measured(programs_, candidates, seconds, kMostPrograms);
    best_s_.note(programs_);
    train();
    return {};
  }

  bool asks_prediction() const override { return !booster_ || start_ == ScoreStart::kPrediction; }
  bool can_rank() const override { return static_cast<bool>(booster_); }

  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    std::vector<double> result;
    std::vector<const std::vector<float>*> rows;
    for (const CandidateFeatures& c : candidates) {
      result.push_back(c.predicted_seconds);
      rows.push_back(&c.rows);
    }
    if (!booster_) return result;
    const std::vector<double> scores = sums_of_scores(rows);
    for (size_t i = 0; i < result.size(); ++i) {
      if (rows[i]->empty()) continue;
      const double score = scores[i] + prior(candidates[i].predicted_seconds, candidates[i].workload);
      result[i] = best_s_.of(candidates[i].workload) * slowness_of(score);
    }
    return result;
  }

  Result<> save(const std::string& path) const override { return write_measured(path, title(), programs_); }

  Result<> load(const std::string& path) override {
    const auto fits = [](const std::vector<float>& values) { return values.size() % kStoreFeatures == 0; };
    FETTLE_TRY(programs_, read_measured(path, title(), fits));
    best_s_.clear();
    best_s_.note(programs_);
    train();
    return {};
  }

 private:
  // Where the boosting of a score begins: what the prediction makes of it, on the scale of the workload's measurements.
  double prior(double predicted_s, uint64_t workload) const {
    const auto scale = scale_.find(workload);
    return scale == scale_.end() || predicted_s <= 0 ? 0 : std::min(scale->second / predicted_s, kMostPrior);
  }

  // Of each workload k, for which Σ y (k / predicted - y)² is least; y as in train().
  void note_scales() {
    scale_.clear();
    if (start_ == ScoreStart::kZero) return;
    std::map<uint64_t, std::pair<double, double>> sums;
    for (const MeasuredRows& program : programs_) {
      if (program.predicted_s <= 0 || !std::isfinite(program.seconds)) continue;
      const double y = best_s_.share(program), x = 1 / program.predicted_s;
      sums[program.workload].first += y * x * y;
      sums[program.workload].second += y * x * x;
    }
    for (const auto& [workload, sum] : sums) scale_[workload] = sum.first / sum.second;
  }

  static Matrix matrix_of(const std::vector<float>& values) {
    return make_matrix(values, values.size() / kStoreFeatures, kStoreFeatures);
  }

  std::vector<double> sums_of_scores(const std::vector<const std::vector<float>*>& programs) const {
    std::vector<float> values;
    for (const auto* rows : programs) values.insert(values.end(), rows->begin(), rows->end());
    std::vector<double> result(programs.size(), 0.0);
    if (values.empty()) return result;
    const std::vector<float> scores = scores_of(booster_, matrix_of(values));
    size_t row = 0;
    for (size_t i = 0; i < programs.size(); ++i)
      for (size_t r = 0; r < programs[i]->size() / kStoreFeatures; ++r) result[i] += static_cast<double>(scores[row++]);
    return result;
  }

  // Each round lowers Σ y (Σ f(s) - y)² over the programs; y: throughput relative to the best of the workload. The rows
  // of a program move together, so its curvature counts once for each of them: with that of one row alone, steps go too
  // far where there are more than 2 / eta rows, and scores grow without bound.
  void train() {
    booster_.reset();
    if (programs_.size() < kLeastPrograms) return;
    std::vector<float> values;
    std::vector<size_t> program_of_row;
    note_scales();
    std::vector<double> targets, priors, rows_of_program;
    for (size_t i = 0; i < programs_.size(); ++i) {
      const MeasuredRows& program = programs_[i];
      values.insert(values.end(), program.values.begin(), program.values.end());
      program_of_row.resize(values.size() / kStoreFeatures, i);
      rows_of_program.push_back(static_cast<double>(program.values.size() / kStoreFeatures));
      targets.push_back(best_s_.share(program));
      priors.push_back(prior(program.predicted_s, program.workload));
    }
    const Matrix matrix = matrix_of(values);
    booster_ = make_booster(matrix, seed_,
                            {{"max_depth", "6"}, {"eta", "0.2"}, {"min_child_weight", "0"}, {"base_score", "0"}});
    std::vector<float> gradient(program_of_row.size(), 0), curvature(program_of_row.size(), 0);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> sums = priors;
      if (round > 0) {
        const std::vector<float> scores = scores_of(booster_, matrix);
        for (size_t r = 0; r < scores.size(); ++r) sums[program_of_row[r]] += static_cast<double>(scores[r]);
      }
      for (size_t r = 0; r < program_of_row.size(); ++r) {
        const double y = targets[program_of_row[r]];
        const double weight = std::max(y, 1e-3);  // what failed counts a little
        gradient[r] = static_cast<float>(2 * weight * (sums[program_of_row[r]] - y));
        curvature[r] = static_cast<float>(2 * weight * rows_of_program[program_of_row[r]]);
      }
      check_xgboost(
          XGBoosterBoostOneIter(booster_.get(), matrix.get(), gradient.data(), curvature.data(), gradient.size()));
    }
  }

  const uint64_t seed_;
  const ScoreStart start_;
  std::vector<MeasuredRows> programs_;
  BestTimes best_s_;
  std::map<uint64_t, double> scale_;  // by workload
  Booster booster_;
};

void read_stores(const Schedule&, const LoweredKernel& kernel, CandidateFeatures& features) {
  features.rows = store_features(kernel.whole);
}

}  // namespace

DescribeFn describe_statements(std::shared_ptr<const Target> target, int threads,
                               const MicroKernelTable* micro_kernels) {
  return describe_rows(std::move(target), threads, micro_kernels, true, true, read_stores);
}

DescribeFn describe_only_statements(std::shared_ptr<const Target> target, int threads,
                                    const MicroKernelTable* micro_kernels) {
  return describe_rows(std::move(target), threads, micro_kernels, true, false, read_stores);
}

std::unique_ptr<CostModel> make_statement_trees(uint64_t seed, ScoreStart start) {
  return std::make_unique<StatementTrees>(seed, start);
}

}  // namespace fettle
