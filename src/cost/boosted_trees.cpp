// The learned model: boosted trees (XGBoost's C interface) on log(measured / predicted).

#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "cost/checked_file.h"
#include "cost/cost_model.h"

namespace fettle {
namespace {

constexpr size_t kLeastRows = 8;     // with fewer, nothing is learned
constexpr size_t kMostRows = 20000;  // the oldest are forgotten
constexpr int kRounds = 80;
constexpr double kLargestResidual = 3;  // e^3 = 20 times off; what failed counts as this

struct BoosterCloser {
  void operator()(void* handle) const { XGBoosterFree(handle); }
};
struct MatrixCloser {
  void operator()(void* handle) const { XGDMatrixFree(handle); }
};
using Booster = std::unique_ptr<void, BoosterCloser>;
using Matrix = std::unique_ptr<void, MatrixCloser>;

void check(int status) { FETTLE_CHECK_MSG(status == 0, XGBGetLastError()); }

class BoostedTrees : public CostModel {
 public:
  explicit BoostedTrees(uint64_t seed) : seed_(seed) {}

  std::string name() const override { return "boosted trees"; }

  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    FETTLE_CHECK(candidates.size() == seconds.size());
    double best = INFINITY;
    for (const double s : seconds)
      if (s > 0) best = std::min(best, s);
    for (size_t i = 0; i < candidates.size(); ++i) {
      const CandidateFeatures& c = candidates[i];
      if (n_features_ == 0) n_features_ = c.values.size();
      FETTLE_CHECK(c.values.size() == n_features_);
      if (c.predicted_seconds <= 0 || !std::isfinite(c.predicted_seconds)) continue;
      const bool measured = seconds[i] > 0 && std::isfinite(seconds[i]);
      const double residual = measured ? std::log(seconds[i] / c.predicted_seconds) : kLargestResidual;
      // What is far from the best need not be known well.
      const double weight = measured && std::isfinite(best) ? std::max(0.05, best / seconds[i]) : 0.05;
      values_.insert(values_.end(), c.values.begin(), c.values.end());
      labels_.push_back(static_cast<float>(std::clamp(residual, -kLargestResidual, kLargestResidual)));
      weights_.push_back(static_cast<float>(weight));
    }
    if (labels_.size() > kMostRows) {
      const auto surplus = static_cast<ptrdiff_t>(labels_.size() - kMostRows);
      labels_.erase(labels_.begin(), labels_.begin() + surplus);
      weights_.erase(weights_.begin(), weights_.begin() + surplus);
      values_.erase(values_.begin(), values_.begin() + surplus * static_cast<ptrdiff_t>(n_features_));
    }
    train();
    return {};
  }

  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    std::vector<double> result;
    result.reserve(candidates.size());
    for (const CandidateFeatures& c : candidates) result.push_back(c.predicted_seconds);
    if (!booster_ || candidates.empty()) return result;
    std::vector<float> values;
    values.reserve(candidates.size() * n_features_);
    for (const CandidateFeatures& c : candidates) {
      FETTLE_CHECK(c.values.size() == n_features_);
      values.insert(values.end(), c.values.begin(), c.values.end());
    }
    const Matrix matrix = make_matrix(values, candidates.size());
    bst_ulong n = 0;
    const float* residuals = nullptr;
    check(XGBoosterPredict(booster_.get(), matrix.get(), 0, 0, 0, &n, &residuals));
    FETTLE_CHECK(n == candidates.size());
    for (size_t i = 0; i < result.size(); ++i) result[i] *= std::exp(static_cast<double>(residuals[i]));
    return result;
  }

  // What was learned from is kept, and learned again: training is deterministic, and goes on from there.
  Result<> save(const std::string& path) const override {
    std::vector<double> numbers = {static_cast<double>(n_features_), static_cast<double>(labels_.size())};
    numbers.insert(numbers.end(), labels_.begin(), labels_.end());
    numbers.insert(numbers.end(), weights_.begin(), weights_.end());
    numbers.insert(numbers.end(), values_.begin(), values_.end());
    return write_checked(path, kTitle, numbers);
  }

  Result<> load(const std::string& path) override {
    FETTLE_TRY(const std::vector<double> numbers, read_checked(path, kTitle));
    bool sane =
        numbers.size() >= 2 && numbers[0] >= 0 && numbers[0] < 1e5 && numbers[1] >= 0 && numbers[1] <= kMostRows;
    const auto n_features = sane ? static_cast<size_t>(numbers[0]) : 0,
               rows = sane ? static_cast<size_t>(numbers[1]) : 0;
    sane = sane && numbers.size() == 2 + rows * (2 + n_features);
    for (const double number : numbers) sane = sane && std::isfinite(number);
    if (!sane) return fail(ErrorCode::E503, path + " is no model of boosted trees");
    const auto part = [&](size_t first, size_t count) {
      const auto begin = numbers.begin() + static_cast<ptrdiff_t>(first);
      return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(count));
    };
    n_features_ = n_features;
    labels_ = part(2, rows);
    weights_ = part(2 + rows, rows);
    values_ = part(2 + 2 * rows, rows * n_features);
    train();
    return {};
  }

 private:
  static constexpr const char* kTitle = "fettle boosted trees 1";

  Matrix make_matrix(const std::vector<float>& values, size_t rows) const {
    DMatrixHandle handle = nullptr;
    check(XGDMatrixCreateFromMat(values.data(), rows, n_features_, NAN, &handle));
    return Matrix(handle);
  }

  void train() {
    booster_.reset();
    if (labels_.size() < kLeastRows) return;
    const Matrix matrix = make_matrix(values_, labels_.size());
    check(XGDMatrixSetFloatInfo(matrix.get(), "label", labels_.data(), labels_.size()));
    check(XGDMatrixSetFloatInfo(matrix.get(), "weight", weights_.data(), weights_.size()));
    double sum = 0, weight = 0;
    for (size_t i = 0; i < labels_.size(); ++i) {
      sum += static_cast<double>(labels_[i]) * static_cast<double>(weights_[i]);
      weight += static_cast<double>(weights_[i]);
    }
    BoosterHandle handle = nullptr;
    const DMatrixHandle cached[] = {matrix.get()};
    check(XGBoosterCreate(cached, 1, &handle));
    booster_.reset(handle);
    const std::pair<const char*, std::string> params[] = {{"objective", "reg:squarederror"},
                                                          {"tree_method", "hist"},
                                                          {"max_depth", "5"},
                                                          {"eta", "0.12"},
                                                          {"lambda", "1"},
                                                          {"min_child_weight", "0.5"},
                                                          {"nthread", "1"},
                                                          {"verbosity", "0"},
                                                          {"seed", fmt::format("{}", seed_ & 0x7fffffff)},
                                                          {"base_score", fmt::format("{}", sum / weight)}};
    for (const auto& [name, value] : params) check(XGBoosterSetParam(booster_.get(), name, value.c_str()));
    for (int round = 0; round < kRounds; ++round) check(XGBoosterUpdateOneIter(booster_.get(), round, matrix.get()));
  }

  const uint64_t seed_;
  size_t n_features_ = 0;
  std::vector<float> values_, labels_, weights_;
  Booster booster_;
};

}  // namespace

std::unique_ptr<CostModel> make_boosted_trees(uint64_t seed) { return std::make_unique<BoostedTrees>(seed); }

}  // namespace fettle
