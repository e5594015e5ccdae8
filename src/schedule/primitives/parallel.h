#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Runs the iterations of a loop on several threads.
///   for i in e: S   →   parallel i in e: S
/// Each iteration must write elements of its own (or the same values) and read none that another writes. A fork and
/// join cost about 0.15 µs with two spinning threads, so the loop should be worth some microseconds.
/// Returns nothing; the reference stays good.
/// Errors: E201 not serial · E206 no such loop · E210 iterations depend on one another: a reduction, a scan, or what
///         one iteration writes and another reads
struct ParallelArgs {
  LoopRef loop;
  static constexpr auto fields = std::tuple{field("loop", &ParallelArgs::loop)};
};
Result<> parallel(Schedule& s, const ParallelArgs& args);

}  // namespace fettle
