#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Writes out the iterations of a loop one after the other.
///   for i in e: S   →   unrolled i in e: S
/// The extent must be a constant. Order and meaning stay; a register buffer needs its loops unrolled. Code grows by the
/// extent, and with it the time to compile.
/// Returns nothing; the reference stays good.
/// Errors: E201 not serial · E206 no such loop · E221 extent not constant
struct UnrollArgs {
  LoopRef loop;
  static constexpr auto fields = std::tuple{field("loop", &UnrollArgs::loop)};
};
Result<> unroll(Schedule& s, const UnrollArgs& args);

}  // namespace fettle
