#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Chooses how a loop is cut, among all the ways that a policy allows: the knob behind a template's define_split
/// (AutoTVM: Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018).
///   v0, v1 = sample_split(loop=l, n=2, policy="factors", name="tile_y")   with l of 512: 8, 64 or 512, 1 or …
/// n:          how many factors. All but the outermost are chosen; that is ceil(extent / their product).
/// policy:     factors     divisors of the extent
///             power2      powers of two up to the extent
///             verbose     both
///             candidates  the lists of `candidates`, each of n sizes, -1 at the outermost for what is left
/// max_factor: the largest factor within the outermost; 0 for no limit.
/// no_tail:    only cuts whose factors multiply to the extent; "factors" implies it.
/// The loop is not changed: give the factors to split, with a tail where there may be one. The decision is the list of
/// factors, outermost first; each is equally likely. Returns n integers, outermost first.
/// Errors: E202 n not in 1 … 8, or max_factor < 0 · E206 no such loop · E221 the extent is not a constant in 1 … 2^31
///         E223 a replayed decision is no choice · E241 no such policy
///         E237 there is no choice, or there are more than 100,000
struct SampleSplitArgs {
  LoopRef loop;
  int64_t n = 2;
  std::string policy = "factors";
  int64_t max_factor = 0;
  bool no_tail = false;
  std::vector<std::vector<int64_t>> candidates;
  std::string name;
  static constexpr auto fields =
      std::tuple{field("loop", &SampleSplitArgs::loop),       field("n", &SampleSplitArgs::n),
                 field("policy", &SampleSplitArgs::policy),   field("max_factor", &SampleSplitArgs::max_factor),
                 field("no_tail", &SampleSplitArgs::no_tail), field("candidates", &SampleSplitArgs::candidates),
                 field("name", &SampleSplitArgs::name)};
};
Result<std::vector<ValueRef>> sample_split(Schedule& s, const SampleSplitArgs& args);
extern const PrimitiveDef sample_split_def;

/// The choices of a sample_split, in a fixed order: those of the innermost factor change slowest. Errors as above.
Result<std::vector<Decision::List>> split_choices(const Schedule& s, const SampleSplitArgs& args);

}  // namespace fettle
