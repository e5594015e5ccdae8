#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Chooses one of several integers.
///   v = sample_categorical(candidates=[16, 64, 512], probabilities=[0.2, 0.3, 0.5], name="unroll")
/// probabilities: weights >= 0, one for each candidate; they need not add up to 1.
/// name: the last part of the decision's address. The decision is the candidate's index.
/// Returns one integer. Errors: E222 lists of different length or empty, or weights that are negative or all zero
///                              E223 a replayed decision is no index of the list
struct SampleCategoricalArgs {
  std::vector<int64_t> candidates;
  std::vector<double> probabilities;
  std::string name;
  static constexpr auto fields = std::tuple{field("candidates", &SampleCategoricalArgs::candidates),
                                            field("probabilities", &SampleCategoricalArgs::probabilities),
                                            field("name", &SampleCategoricalArgs::name)};
};
Result<ValueRef> sample_categorical(Schedule& s, const SampleCategoricalArgs& args);
extern const PrimitiveDef sample_categorical_def;

}  // namespace fettle
