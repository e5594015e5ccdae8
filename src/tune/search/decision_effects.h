#pragma once
// Learns, from a handful of measurements, how each decision changes a program's time beyond the prediction.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tune/search/search_strategy.h"

namespace fettle {

/// Deviations are of log seconds: 0.1 is a tenth of the time.
struct DecisionEffectsOptions {
  double shift = 0.10;         // of all candidates of a task alike, beyond the mean of what is measured
  double decisions = 0.15;     // of decisions, each an equal part of the variance
  double combination = 0.05;   // of all decisions together; e times less alike with every decision that differs
  double features = 0.15;      // of what the cost model sees,
  double feature_length = 5;   // at this distance (all of feature_names(), Euclidean) e^-1/2 times as much alike
  double slope = 0.30;         // of the prediction: differences that it sees are 1 ± 0.3 times as large
  double noise = 0.02;         // of one measurement
  double optimism = 2.5;       // deviations by which what is not known counts as faster than expected
  size_t most_measured = 256;  // learned from, the fastest
};

/// A Gaussian process over the candidates of one task: the logarithm of measured over predicted seconds is alike where
/// programs share decisions or look alike to the cost model. How much of what is predicted holds in this space is
/// learned, too. Some hundred candidates of a dense space differ by a few percent, which the prediction does not tell
/// apart: after a batch it is known which tiles, layouts or orders it misjudges, for all that share them.
class DecisionEffects {
 public:
  explicit DecisionEffects(const DecisionEffectsOptions& options = {}) : options_(options) {}

  /// n of `pool` (all, where there are fewer), one after the other: each time the one that may be the fastest, its
  /// expected time less `optimism` deviations. What was chosen counts as measured, with the time expected of it: what
  /// is like it is uncertain no more, so that a batch is diverse. Nothing measured: by the prediction, and diverse.
  /// (Srinivas et al., Gaussian Process Optimization in the Bandit Setting, ICML 2010; batches: Desautels et al., JMLR
  /// 2014, section 3.)
  std::vector<const Candidate*> choose(std::span<const Observation> measured, std::span<const Candidate* const> pool,
                                       size_t n);
  /// What is kept of a candidate ends with it.
  void forget(const Candidate* candidate) { known_.erase(candidate->number); }

 private:
  /// As it is compared with others.
  struct Point {
    struct Choice {
      uint64_t address = 0, decision = 0;  // hashes
    };
    std::vector<Choice> choices;  // by address
    const Candidate* candidate = nullptr;
    double expected = 0;  // log of the predicted seconds
  };

  const Point& point(const Candidate* candidate);
  double covariance(const Point& a, const Point& b) const;

  DecisionEffectsOptions options_;
  double least_expected_ = 0;  // of all that is compared: slopes begin there
  std::unordered_map<int64_t, Point> known_;
};

}  // namespace fettle
