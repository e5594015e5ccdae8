#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Chooses where a block is computed: -1 where it stands (kStay), -2 inlined (kInline), or the depth, among the loops
/// of its first reader, of the loop for compute_at. Every place that is legal is equally likely.
///   v = sample_compute_location(block=P, name="P"): -1, -2, 0, 1 …
/// The block is not moved: give the loop to compute_at, or call compute_inline. A step that follows depends on the
/// choice, so a mutation of it runs the space anew rather than the trace.
/// Returns one integer.
/// Errors: E206 no such block · E223 a replayed decision is not among the legal places
struct SampleComputeLocationArgs {
  BlockRef block;
  std::string name;
  static constexpr auto fields =
      std::tuple{field("block", &SampleComputeLocationArgs::block), field("name", &SampleComputeLocationArgs::name)};
};
Result<ValueRef> sample_compute_location(Schedule& s, const SampleComputeLocationArgs& args);

inline constexpr int64_t kStay = -1, kInline = -2;

}  // namespace fettle
