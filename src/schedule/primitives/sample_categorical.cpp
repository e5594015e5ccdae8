#include "schedule/primitives/sample_categorical.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
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

  if (!args.candidates.are_distinct())
    return fail(ErrorCode::E222, "a candidate stands twice, or its name has blanks, quotes or '#'");

  // What stands at a place that a trace gives, as traces did before they gave values.
  const auto is_place = [&](const Decision& d) { return d.list().size() == 1 && d.list()[0] >= 0 && d.list()[0] < n; };
  const auto valid = [&](const Decision& d) {
    return args.candidates.find(d.value()).has_value() || (s.prescribed() && is_place(d));
  };
  const auto draw = [&](RandomStream& stream) -> Decision {
    double left = stream.uniform() * total;
    int64_t last = 0;  // rounding may leave a trace of `left` behind the end: then the last that has a weight
    for (int64_t i = 0; i < n; ++i) {
      const double weight = weights[static_cast<size_t>(i)];
      if (weight == 0) continue;
      last = i;
      if ((left -= weight) < 0) break;
    }
    return args.candidates.name(static_cast<size_t>(last));
  };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  if (is_place(drawn.decision)) drawn.decision = args.candidates.name(static_cast<size_t>(drawn.decision.list()[0]));
  Applied applied{nullptr, {}, drawn.decision, std::move(drawn.address)};
  if (const auto integer = args.candidates.integer(*args.candidates.find(drawn.decision.value())))
    applied.outputs.emplace_back(*integer);
  return applied;
}

}  // namespace

constinit const PrimitiveDef sample_categorical_def =
    define_sampling<SampleCategoricalArgs, apply_sample_categorical>("sample_categorical", 1);

size_t chosen_place(const Step& step) {
  FETTLE_CHECK(step.def == &sample_categorical_def);
  const auto place = static_cast<const SampleCategoricalArgs*>(step.args.get())->candidates.find(step.decision.value());
  FETTLE_CHECK_MSG(place.has_value(), "a decision is a candidate");
  return *place;
}

Result<ValueRef> sample_categorical(Schedule& s, const SampleCategoricalArgs& args) {
  FETTLE_TRY(const int step, s.step(sample_categorical_def, args));
  const std::vector<ValueRef> values = s.values_of(step);
  FETTLE_CHECK_MSG(values.size() == 1, "the candidates are integers");
  return values.front();
}

}  // namespace fettle
