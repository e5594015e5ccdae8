#include "cost/learned/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cost/learned/checked_file.h"
#include "cost/predict/predict.h"

namespace fettle {
namespace {

std::string title_of(std::string_view model) {
  return fmt::format("fettle {} 2, {} features", model, feature_names().size());
}

template <class T>
void drop_front(std::vector<T>& values, size_t count) {
  values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
}

}  // namespace

void Residuals::add(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) {
  FETTLE_CHECK(candidates.size() == seconds.size());
  double best = INFINITY;
  for (const double s : seconds)
    if (s > 0) best = std::min(best, s);
  unsigned added = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const CandidateFeatures& c = candidates[i];
    if (n_features_ == 0) n_features_ = c.values.size();
    FETTLE_CHECK(c.values.size() == n_features_);
    if (c.predicted_seconds <= 0 || !std::isfinite(c.predicted_seconds)) continue;
    const bool measured = seconds[i] > 0 && std::isfinite(seconds[i]);
    const double residual = measured ? std::log(seconds[i] / c.predicted_seconds) : kLargest;
    const double weight = measured && std::isfinite(best) ? std::max(0.05, best / seconds[i]) : 0.05;
    values_.insert(values_.end(), c.values.begin(), c.values.end());
    labels_.push_back(std::clamp(static_cast<float>(residual), -kLargest, kLargest));
    weights_.push_back(static_cast<float>(weight));
    predicted_.push_back(static_cast<float>(std::log(c.predicted_seconds)));
    ++added;
  }
  if (added > 0) batches_.push_back(added);
  while (labels_.size() > kMostRows) {
    const size_t oldest = std::min<size_t>(batches_.front(), labels_.size() - kMostRows);
    drop_front(labels_, oldest);
    drop_front(weights_, oldest);
    drop_front(predicted_, oldest);
    drop_front(values_, oldest * n_features_);
    batches_.front() -= static_cast<unsigned>(oldest);
    if (batches_.front() == 0) batches_.erase(batches_.begin());
  }
}

std::vector<float> Residuals::rows_of(std::span<const CandidateFeatures> candidates) const {
  std::vector<float> values;
  values.reserve(candidates.size() * n_features_);
  for (const CandidateFeatures& c : candidates) {
    FETTLE_CHECK(c.values.size() == n_features_);
    values.insert(values.end(), c.values.begin(), c.values.end());
  }
  return values;
}

Result<> Residuals::save(const std::string& path, std::string_view model) const {
  std::vector<double> numbers = {static_cast<double>(n_features_), static_cast<double>(labels_.size()),
                                 static_cast<double>(batches_.size())};
  numbers.insert(numbers.end(), batches_.begin(), batches_.end());
  for (const auto* part : {&labels_, &weights_, &predicted_, &values_})
    numbers.insert(numbers.end(), part->begin(), part->end());
  return write_checked(path, title_of(model), numbers);
}

Result<> Residuals::load(const std::string& path, std::string_view model) {
  FETTLE_TRY(const std::vector<double> numbers, read_checked(path, title_of(model)));
  const auto count = [&](size_t i, double most) {
    return i < numbers.size() && numbers[i] >= 0 && numbers[i] <= most ? static_cast<size_t>(numbers[i]) : size_t{0};
  };
  const size_t n_features = count(0, 1e5), n_rows = count(1, kMostRows), n_batches = count(2, kMostRows);
  bool sane = numbers.size() == 3 + n_batches + n_rows * (3 + n_features);
  for (const double number : numbers) sane = sane && std::isfinite(number);
  size_t in_batches = 0;
  for (size_t b = 0; sane && b < n_batches; ++b) in_batches += count(3 + b, kMostRows);
  if (!sane || in_batches != n_rows) return fail(ErrorCode::E503, path + " is no model of " + std::string(model));
  size_t at = 3;
  const auto part = [&](auto& values, size_t size) {
    values.assign(numbers.begin() + static_cast<ptrdiff_t>(at), numbers.begin() + static_cast<ptrdiff_t>(at + size));
    at += size;
  };
  n_features_ = n_features;
  part(batches_, n_batches);
  part(labels_, n_rows);
  part(weights_, n_rows);
  part(predicted_, n_rows);
  part(values_, n_rows * n_features);
  return {};
}

Result<> ResidualModel::update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) {
  data_.add(candidates, seconds);
  train();
  return {};
}

std::vector<double> ResidualModel::predict(std::span<const CandidateFeatures> candidates) {
  std::vector<double> result;
  result.reserve(candidates.size());
  for (const CandidateFeatures& c : candidates) result.push_back(c.predicted_seconds);
  if (!candidates.empty()) correct(candidates, result);
  return result;
}

Result<> ResidualModel::load(const std::string& path) {
  FETTLE_TRY_VOID(data_.load(path, name()));
  train();
  return {};
}

}  // namespace fettle
