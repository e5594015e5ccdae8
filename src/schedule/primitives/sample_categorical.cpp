#include "schedule/primitives/sample_categorical.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedule/sampling.h"

namespace fettle {
namespace {

Result<Applied> apply_sample_categorical(const Schedule& s, const SampleCategoricalArgs& args) {
  const std::vector<double>& weights = args.probabilities;
  const auto n = static_cast<int64_t>(args.candidates.size());
  if (n == 0 || weights.size() != args.candidates.size())
    return fail(ErrorCode::E222,
                std::to_string(n) + " candidates, " + std::to_string(weights.size()) + " probabilities");
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (std::ranges::any_of(weights, [](double w) { return !(w >= 0); }) || !(total > 0) || !std::isfinite(total))
    return fail(ErrorCode::E222, "probabilities are at least 0, and one is more");

  const auto valid = [&](const Decision& d) { return d.size() == 1 && d[0] >= 0 && d[0] < n; };
  const auto draw = [&](RandomStream& stream) -> Decision {
    double left = stream.uniform() * total;
    int64_t last = 0;  // rounding may leave a trace of `left` behind the end: then the last that has a weight
    for (int64_t i = 0; i < n; ++i) {
      const double weight = weights[static_cast<size_t>(i)];
      if (weight == 0) continue;
      last = i;
      if ((left -= weight) < 0) break;
    }
    return {last};
  };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  const int64_t value = args.candidates[static_cast<size_t>(drawn.decision[0])];
  return Applied{nullptr, {value}, std::move(drawn.decision), std::move(drawn.address)};
}

}  // namespace

constinit const PrimitiveDef sample_categorical_def =
    define_sampling<SampleCategoricalArgs, apply_sample_categorical>("sample_categorical", 1);

Result<ValueRef> sample_categorical(Schedule& s, const SampleCategoricalArgs& args) {
  FETTLE_TRY(const int step, s.step(sample_categorical_def, args));
  return s.values_of(step).front();
}

}  // namespace fettle
