#include "tune/parts/decider.h"

#include <algorithm>

#include "schedule/primitives/sample_categorical.h"

namespace fettle {
namespace {

SampleCategoricalArgs sampled(Choice choice) {
  if (choice.weights.empty()) choice.weights.assign(choice.candidates.size(), 1.0);
  return {.candidates = std::move(choice.candidates),
          .probabilities = std::move(choice.weights),
          .name = std::move(choice.name)};
}

}  // namespace

Result<int64_t> SamplingDecider::pick(Schedule& s, Choice choice) {
  FETTLE_TRY(const ValueRef value, sample_categorical(s, sampled(std::move(choice))));
  return s.value(IntRef(value));
}

Decider& sampling_decider() {
  static SamplingDecider decider;
  return decider;
}

Result<int64_t> PreferringDecider::pick(Schedule& s, Choice choice) {
  size_t taken = choice.preferred;
  if (const auto rank = instead_.ranks.find(choice.name); rank != instead_.ranks.end())
    taken = std::min(rank->second, choice.candidates.size() - 1);
  if (const auto value = instead_.values.find(choice.name); value != instead_.values.end()) {
    const auto found = std::ranges::find(choice.candidates, value->second);
    if (found == choice.candidates.end())
      return fail(ErrorCode::E230, std::to_string(value->second) + " is no candidate of " + choice.name);
    taken = static_cast<size_t>(found - choice.candidates.begin());
  }
  const std::string address = s.next_address(choice.name);
  FETTLE_TRY(const int step, s.step_recorded(sample_categorical_def,
                                             std::make_shared<const SampleCategoricalArgs>(sampled(std::move(choice))),
                                             address, {static_cast<int64_t>(taken)}));
  return s.value(IntRef(s.values_of(step).front()));
}

}  // namespace fettle
