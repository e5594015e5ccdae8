#pragma once
// For tests of models that learn.

#include <functional>
#include <vector>

#include "cost/cost_model.h"

namespace fettle::testing {

struct Samples {
  std::vector<CandidateFeatures> candidates;
  std::vector<double> seconds;
};

/// The share of pairs whose order is right; of those of which `counts` says so, where it is given.
inline double accuracy(CostModel& model, const Samples& samples,
                       const std::function<bool(size_t, size_t)>& counts = nullptr) {
  const std::vector<double> predicted = model.predict(samples.candidates);
  double right = 0, all = 0;
  for (size_t i = 0; i < predicted.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (counts && !counts(i, j)) continue;
      all += 1;
      right += (predicted[i] < predicted[j]) == (samples.seconds[i] < samples.seconds[j]);
    }
  return right / all;
}

}  // namespace fettle::testing
