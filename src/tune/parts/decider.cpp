#include "tune/parts/decider.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/primitives/sample_categorical.h"

namespace fettle {
namespace {

/// The step behind a choice; open where nothing is decided.
Result<size_t> decided(Schedule& s, Choice choice, const Decision& decision) {
  if (choice.weights.empty()) choice.weights.assign(choice.candidates.size(), 1.0);
  const std::string address = s.next_address(choice.name);
  FETTLE_TRY_VOID(s.step_recorded(
      sample_categorical_def,
      std::make_shared<const SampleCategoricalArgs>(SampleCategoricalArgs{.candidates = std::move(choice.candidates),
                                                                          .probabilities = std::move(choice.weights),
                                                                          .name = std::move(choice.name)}),
      address, decision));
  return chosen_place(*s.trace().steps.back());
}

}  // namespace

Result<int64_t> Decider::pick(Schedule& s, Choice choice) {
  const NamedValues candidates = choice.candidates;
  FETTLE_TRY(const size_t place, pick_place(s, std::move(choice)));
  const auto integer = candidates.integer(place);
  FETTLE_CHECK_MSG(integer.has_value(), "the candidates are integers");
  return *integer;
}

Result<size_t> SamplingDecider::pick_place(Schedule& s, Choice choice) { return decided(s, std::move(choice), {}); }

Decider& sampling_decider() {
  static SamplingDecider decider;
  return decider;
}

Result<size_t> PreferringDecider::pick_place(Schedule& s, Choice choice) {
  size_t taken = choice.preferred;
  if (const auto rank = instead_.ranks.find(choice.name); rank != instead_.ranks.end())
    taken = std::min(rank->second, choice.candidates.size() - 1);
  if (const auto value = instead_.values.find(choice.name); value != instead_.values.end()) {
    const auto found = choice.candidates.find(std::to_string(value->second));
    if (!found) return fail(ErrorCode::E230, std::to_string(value->second) + " is no candidate of " + choice.name);
    taken = *found;
  }
  const Decision decision = choice.candidates.name(taken);
  return decided(s, std::move(choice), decision);
}

}  // namespace fettle
