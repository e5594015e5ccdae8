// Ansor's cost model: a score for each statement, a program's is the sum. By XGBoost's C interface.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "cost/learned/checked_file.h"
#include "cost/learned/xgboost_handles.h"
#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/cost/store_features.h"

namespace fettle {
namespace {

constexpr size_t kLeastPrograms = 8;  // with fewer, nothing is learned
constexpr size_t kMostPrograms = 4096;
constexpr int kRounds = 100;
constexpr double kLeastScore = 0.01;  // 100 times slower than the best
constexpr double kMostPrior = 1.5;    // what is predicted to be faster than anything measured

std::string title() { return fmt::format("fettle statement trees 2, {} features", kStoreFeatures); }

class StatementTrees : public CostModel {
 public:
  StatementTrees(uint64_t seed, ScoreStart start) : seed_(seed), start_(start) {}
  std::string name() const override { return "statement trees"; }

  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    FETTLE_CHECK(candidates.size() == seconds.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      const CandidateFeatures& c = candidates[i];
      if (c.rows.empty()) continue;
      const double time = seconds[i] > 0 ? seconds[i] : std::numeric_limits<double>::infinity();
      const bool predicted = std::isfinite(c.predicted_seconds) && c.predicted_seconds > 0;
      programs_.push_back({c.workload, c.rows, time, predicted ? c.predicted_seconds : 0});
      note_best(programs_.back());
    }
    if (programs_.size() > kMostPrograms)
      programs_.erase(programs_.begin(), programs_.end() - static_cast<ptrdiff_t>(kMostPrograms));
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
    std::vector<double> scores = scores_of(rows);
    for (size_t i = 0; i < result.size(); ++i) {
      if (rows[i]->empty()) continue;
      const auto best = best_s_.find(candidates[i].workload);
      scores[i] += prior(candidates[i].predicted_seconds, candidates[i].workload);
      result[i] = (best == best_s_.end() ? 1.0 : best->second) / std::max(scores[i], kLeastScore);
      // Those that all count as hopeless keep an order.
      if (scores[i] < kLeastScore) result[i] *= 1 + kLeastScore - scores[i];
    }
    return result;
  }

  Result<> save(const std::string& path) const override {
    std::vector<double> numbers = {static_cast<double>(programs_.size())};
    for (const Program& program : programs_) {
      numbers.push_back(static_cast<double>(program.workload >> 32));
      numbers.push_back(static_cast<double>(program.workload & 0xffffffff));
      numbers.push_back(std::isfinite(program.seconds) ? program.seconds : 0);
      numbers.push_back(program.predicted);
      numbers.push_back(static_cast<double>(program.stores.size() / kStoreFeatures));
      numbers.insert(numbers.end(), program.stores.begin(), program.stores.end());
    }
    return write_checked(path, title(), numbers);
  }

  Result<> load(const std::string& path) override {
    FETTLE_TRY(const std::vector<double> numbers, read_checked(path, title()));
    const auto damaged = [&] { return fail(ErrorCode::E503, path + " is no model of " + name()); };
    for (const double number : numbers)
      if (!std::isfinite(number)) return damaged();
    std::vector<Program> programs;
    size_t at = 1;
    while (at + 5 <= numbers.size()) {
      const double high = numbers[at], low = numbers[at + 1], seconds = numbers[at + 2], predicted = numbers[at + 3],
                   rows = numbers[at + 4];
      const bool sane = high >= 0 && high < 0x1p32 && low >= 0 && low < 0x1p32 && seconds >= 0 && predicted >= 0 &&
                        rows > 0 && rows * kStoreFeatures <= static_cast<double>(numbers.size() - at - 5);
      if (!sane) return damaged();
      at += 5;
      const auto count = static_cast<size_t>(rows) * kStoreFeatures;
      Program program{static_cast<uint64_t>(high) << 32 | static_cast<uint64_t>(low),
                      {},
                      seconds > 0 ? seconds : std::numeric_limits<double>::infinity(),
                      predicted};
      program.stores.assign(numbers.begin() + static_cast<ptrdiff_t>(at),
                            numbers.begin() + static_cast<ptrdiff_t>(at + count));
      at += count;
      programs.push_back(std::move(program));
    }
    if (numbers.empty() || at != numbers.size() || numbers[0] != static_cast<double>(programs.size())) return damaged();
    programs_ = std::move(programs);
    best_s_.clear();
    for (const Program& program : programs_) note_best(program);
    train();
    return {};
  }

 private:
  struct Program {
    uint64_t workload = 0;
    std::vector<float> stores;
    double seconds = 0;    // infinity: it failed
    double predicted = 0;  // 0: not known
  };

  void note_best(const Program& program) {
    if (!std::isfinite(program.seconds)) return;
    const auto [best, fresh] = best_s_.emplace(program.workload, program.seconds);
    if (!fresh) best->second = std::min(best->second, program.seconds);
  }

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
    for (const Program& program : programs_) {
      const auto best = best_s_.find(program.workload);
      if (program.predicted <= 0 || !std::isfinite(program.seconds) || best == best_s_.end()) continue;
      const double y = best->second / program.seconds, x = 1 / program.predicted;
      sums[program.workload].first += y * x * y;
      sums[program.workload].second += y * x * x;
    }
    for (const auto& [workload, sum] : sums) scale_[workload] = sum.first / sum.second;
  }

  static Matrix matrix_of(const std::vector<float>& values) {
    return make_matrix(values, values.size() / kStoreFeatures, kStoreFeatures);
  }

  // One a row.
  std::vector<float> margins(const Matrix& matrix) const {
    bst_ulong n = 0;
    const float* scores = nullptr;
    check_xgboost(XGBoosterPredict(booster_.get(), matrix.get(), 1, 0, 0, &n, &scores));
    return {scores, scores + n};
  }

  std::vector<double> scores_of(const std::vector<const std::vector<float>*>& programs) const {
    std::vector<float> values;
    for (const auto* rows : programs) values.insert(values.end(), rows->begin(), rows->end());
    std::vector<double> result(programs.size(), 0.0);
    if (values.empty()) return result;
    const std::vector<float> scores = margins(matrix_of(values));
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
    std::vector<double> targets, rows_of_program;
    for (size_t i = 0; i < programs_.size(); ++i) {
      const Program& program = programs_[i];
      values.insert(values.end(), program.stores.begin(), program.stores.end());
      program_of_row.resize(values.size() / kStoreFeatures, i);
      rows_of_program.push_back(static_cast<double>(program.stores.size() / kStoreFeatures));
      const auto best = best_s_.find(program.workload);
      targets.push_back(std::isfinite(program.seconds) && best != best_s_.end() ? best->second / program.seconds : 0);
    }
    note_scales();
    std::vector<double> priors;
    for (const Program& program : programs_) priors.push_back(prior(program.predicted, program.workload));
    const Matrix matrix = matrix_of(values);
    const std::vector<std::pair<const char*, std::string>> params = {
        {"tree_method", "hist"}, {"max_depth", "6"},        {"eta", "0.2"},
        {"lambda", "1"},         {"min_child_weight", "0"}, {"base_score", "0"},
        {"nthread", "1"},        {"verbosity", "0"},        {"seed", fmt::format("{}", seed_ & 0x7fffffff)}};
    BoosterHandle handle = nullptr;
    const DMatrixHandle cached[] = {matrix.get()};
    check_xgboost(XGBoosterCreate(cached, 1, &handle));
    booster_.reset(handle);
    for (const auto& [name, value] : params) check_xgboost(XGBoosterSetParam(booster_.get(), name, value.c_str()));
    std::vector<float> gradient(program_of_row.size(), 0), curvature(program_of_row.size(), 0);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> sums = priors;
      if (round > 0) {
        const std::vector<float> scores = margins(matrix);
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
  std::vector<Program> programs_;
  std::map<uint64_t, double> best_s_, scale_;  // by workload
  Booster booster_;
};

}  // namespace

std::unique_ptr<CostModel> make_statement_trees(uint64_t seed, ScoreStart start) {
  return std::make_unique<StatementTrees>(seed, start);
}

}  // namespace fettle
