#pragma once

#include "schedule/named_values.h"
#include "schedule/schedule.h"

namespace fettle {

/// Chooses one of several values.
///   v = sample_categorical(candidates=[16, 64, 512], probabilities=[0.2, 0.3, 0.5], name="unroll")       64
///   sample_categorical(candidates=["14x2", "7+2x2"], probabilities=[0.9, 0.1], name="tile")              7+2x2
/// candidates: integers, or names of values, which whoever asks knows the meaning of; no two are the same.
/// probabilities: weights >= 0, one for each candidate; they need not add up to 1.
/// name: the last part of the decision's address. The decision is the value, by its name, wherever it stands.
/// A list of one integer is a decision of before it was so: the candidate's place. A trace with it is replayed as it
/// was meant, and records the value; in a decision map it is no choice.
/// Returns one integer; nothing where candidates are names.
/// Errors: E222 lists of different length or empty, a candidate twice, a name with blanks, quotes or '#', or weights
///              that are negative or all zero
///         E223 a replayed decision is no candidate
struct SampleCategoricalArgs {
  NamedValues candidates;
  std::vector<double> probabilities;
  std::string name;
  static constexpr auto fields = std::tuple{field("candidates", &SampleCategoricalArgs::candidates),
                                            field("probabilities", &SampleCategoricalArgs::probabilities),
                                            field("name", &SampleCategoricalArgs::name)};
};
/// Of integers.
Result<ValueRef> sample_categorical(Schedule& s, const SampleCategoricalArgs& args);
extern const PrimitiveDef sample_categorical_def;

/// The place, among the candidates, of what a sample_categorical chose.
size_t chosen_place(const Step& step);

}  // namespace fettle
