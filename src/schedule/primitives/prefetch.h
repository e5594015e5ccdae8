#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Asks, in each iteration of a loop, for the memory that a later iteration reads.
///   for i in e: S   →   for i in e {prefetch = 1}: S
///   for k in e: S   →   for k in e {prefetch_near = 8}: S
/// distance: how many iterations later. Lowering (insert_prefetches) spreads the requests over the iteration; they
///   change no result. Worth it where the hardware does not see the pattern: between rows, or tiles.
/// near: into the first-level cache, not the second; for a loop over the steps of a register tile, which may be
///   unrolled. Worth it where vectors come from the second-level cache: some 100 cycles before their turn.
/// Returns nothing; an annotation that is there already is replaced. Costs an instruction for each cache line.
/// Errors: E201 the loop is not serial, nor, for `near`, unrolled · E202 distance < 1 · E206 no such loop
struct PrefetchArgs {
  LoopRef loop;
  int64_t distance = 1;
  bool near = false;
  static constexpr auto fields =
      std::tuple{field("loop", &PrefetchArgs::loop), field("distance", &PrefetchArgs::distance),
                 field("near", &PrefetchArgs::near)};
};
Result<> prefetch(Schedule& s, const PrefetchArgs& args);

}  // namespace fettle
