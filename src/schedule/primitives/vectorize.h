#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Runs the iterations of a loop in the lanes of vectors.
///   for i in e: S   →   vectorized i in e: S
/// The extent must be a constant; an extent beyond the register width becomes several registers. What each iteration
/// writes must be its own. Costs nothing when compiling, but for accesses that are neither consecutive nor equal across
/// lanes, which become gathers.
/// Returns nothing; the reference stays good.
/// Errors: E201 not serial · E206 no such loop · E210 iterations depend on one another · E221 extent not constant
struct VectorizeArgs {
  LoopRef loop;
  static constexpr auto fields = std::tuple{field("loop", &VectorizeArgs::loop)};
};
Result<> vectorize(Schedule& s, const VectorizeArgs& args);

}  // namespace fettle
