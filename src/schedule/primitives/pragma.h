#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Does to all that is under a loop what a named pragma says.
///   auto_unroll_max_step = n: each serial loop of constant extent, without annotations, that makes at most n copies of
///   what is innermost, counted with all that is inside it (lanes count as one), is unrolled:
///   pragma(i, "auto_unroll_max_step", 16):  for i: for j in 8: for k in 4: for l in 4: S
///   →                                       for i: for j in 8: for k in 4 unrolled: for l in 4 unrolled: S
/// Returns nothing; references stay good. Costs code size.
/// Errors: E202 value < 0 · E206 no such loop · E241 no such pragma
struct PragmaArgs {
  LoopRef loop;
  std::string name;
  int64_t value = 0;
  static constexpr auto fields = std::tuple{field("loop", &PragmaArgs::loop), field("name", &PragmaArgs::name),
                                            field("value", &PragmaArgs::value)};
};
Result<> pragma(Schedule& s, const PragmaArgs& args);

}  // namespace fettle
