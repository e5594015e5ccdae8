#include "tune/search/decision_effects.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"

namespace fettle {
namespace {

/// A time may be missed by a factor of e; more says nothing about the rest.
constexpr double kMostMissed = 1;

double square(double x) { return x * x; }

double distance_squared(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return static_cast<double>(sum);
}

/// The posterior of all of a pool, as points become known one by one: a row of the Cholesky factor of their covariance
/// for each, extended to the pool.
class Posterior {
 public:
  explicit Posterior(std::vector<double> prior_variance)
      : mean_(prior_variance.size(), 0.0), variance_(std::move(prior_variance)) {}

  double mean(size_t i) const { return mean_[i]; }
  double deviation(size_t i) const { return std::sqrt(std::max(variance_[i], 0.0)); }

  /// A point with its variance (noise included), its covariances with the points before and with the pool, and what
  /// was measured; null: what is expected of it.
  void add(double variance, const std::vector<double>& with_known, const std::vector<double>& with_pool,
           const double* value) {
    std::vector<double> row(with_known.size());
    double expected = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      double sum = with_known[i];
      for (size_t j = 0; j < i; ++j) sum -= row[j] * factor_[i][j];
      row[i] = sum / factor_[i][i];
      variance -= row[i] * row[i];
      expected += row[i] * residual_[i];
    }
    row.push_back(std::sqrt(std::max(variance, 1e-12)));
    const double residual = value ? (*value - expected) / row.back() : 0;
    std::vector<double> across = with_pool;
    for (size_t i = 0; i < across_.size(); ++i)
      for (size_t c = 0; c < across.size(); ++c) across[c] -= row[i] * across_[i][c];
    for (size_t c = 0; c < across.size(); ++c) {
      across[c] /= row.back();
      mean_[c] += across[c] * residual;
      variance_[c] -= across[c] * across[c];
    }
    factor_.push_back(std::move(row));
    residual_.push_back(residual);
    across_.push_back(std::move(across));
  }

 private:
  std::vector<double> mean_, variance_;      // of the pool
  std::vector<std::vector<double>> factor_;  // lower triangle
  std::vector<double> residual_;             // what each point told that was not expected, in deviations
  std::vector<std::vector<double>> across_;  // the factor's rows, for the pool
};

}  // namespace

const DecisionEffects::Point& DecisionEffects::point(const Candidate* candidate) {
  const auto [entry, fresh] = known_.try_emplace(candidate->number);
  Point& point = entry->second;
  if (!fresh) return point;
  point.candidate = candidate;
  const double predicted = candidate->features.predicted_seconds;
  point.expected = predicted > 0 ? std::log(predicted) : 0;
  for (const auto& [address, decision] : candidate->decisions)
    point.choices.push_back({hash_bytes(address), decision.hash()});
  std::ranges::sort(point.choices, {}, &Point::Choice::address);
  return point;
}

double DecisionEffects::covariance(const Point& a, const Point& b) const {
  size_t same = 0, common = 0;
  for (auto x = a.choices.begin(), y = b.choices.begin(); x != a.choices.end() && y != b.choices.end();) {
    if (x->address != y->address) {
      ++(x->address < y->address ? x : y);
      continue;
    }
    ++common;
    same += x->decision == y->decision;
    ++x, ++y;
  }
  const size_t all = a.choices.size() + b.choices.size() - common;
  double sum = square(options_.shift);
  sum += square(options_.slope) * (a.expected - least_expected_) * (b.expected - least_expected_);
  if (all > 0) {
    sum += square(options_.decisions) * static_cast<double>(same) / static_cast<double>(all);
    sum += square(options_.combination) * std::exp(-static_cast<double>(all - same));
  }
  const double distance = distance_squared(a.candidate->features.values, b.candidate->features.values);
  return sum + square(options_.features) * std::exp(-distance / (2 * square(options_.feature_length)));
}

std::vector<const Candidate*> DecisionEffects::choose(std::span<const Observation> measured,
                                                      std::span<const Candidate* const> pool, size_t n) {
  std::vector<Observation> learned(measured.begin(), measured.end());
  std::erase_if(learned, [](const Observation& o) { return !std::isfinite(o.seconds); });
  std::ranges::stable_sort(learned, {}, &Observation::seconds);
  if (learned.size() > options_.most_measured) learned.resize(options_.most_measured);

  std::vector<const Point*> points, known;  // of the pool; what is known or counts as that
  for (const Candidate* candidate : pool) points.push_back(&point(candidate));
  least_expected_ = std::numeric_limits<double>::infinity();
  for (const Point* p : points) least_expected_ = std::min(least_expected_, p->expected);
  for (const Observation& o : learned) least_expected_ = std::min(least_expected_, point(o.candidate).expected);
  std::vector<double> prior;
  for (const Point* p : points) prior.push_back(covariance(*p, *p));
  Posterior posterior(std::move(prior));
  const auto add = [&](const Point& added, const double* value) {
    std::vector<double> with_known, with_pool;
    for (const Point* p : known) with_known.push_back(covariance(added, *p));
    for (const Point* p : points) with_pool.push_back(covariance(added, *p));
    posterior.add(covariance(added, added) + square(options_.noise), with_known, with_pool, value);
    known.push_back(&added);
  };

  std::vector<double> missed;
  double mean = 0;
  for (const Observation& o : learned) {
    missed.push_back(std::log(o.seconds) - point(o.candidate).expected);
    mean += missed.back() / static_cast<double>(learned.size());
  }
  for (size_t i = 0; i < learned.size(); ++i) {
    const double value = std::clamp(missed[i] - mean, -kMostMissed, kMostMissed);
    add(point(learned[i].candidate), &value);
  }

  std::vector<const Candidate*> chosen;
  std::vector<bool> taken(pool.size(), false);
  while (chosen.size() < std::min(n, pool.size())) {
    size_t best = pool.size();
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < pool.size(); ++i) {
      if (taken[i]) continue;
      const double hoped = points[i]->expected + posterior.mean(i) - options_.optimism * posterior.deviation(i);
      if (best < pool.size() && hoped >= least) continue;
      least = hoped;
      best = i;
    }
    taken[best] = true;
    chosen.push_back(pool[best]);
    add(*points[best], nullptr);
  }
  return chosen;
}

}  // namespace fettle
