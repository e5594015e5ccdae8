#pragma once

#include "schedule/sampling.h"
#include "schedule/schedule.h"

namespace fettle {

/// Chooses tile sizes that the target's registers and caches like; they need not divide the extent of the loop.
///   v0, v1 = sample_tile(loop=l, n=2, innermost="rows", element_bytes=4, name="i")   l of 197: 15, 14 or 7, 29 or …
/// innermost:     what the innermost factor is for (sampling.h lists the candidates); those between it and the
///                outermost are of position "outer"; the outermost is ceil(extent / others). Candidates are equally
///                likely.
/// element_bytes: of the elements that fill the vectors.
/// The loop is not changed: give the factors to split, with a tail. The decision is the list of factors, outermost
/// first.
/// Returns n integers, outermost first.
/// Errors: E202 n not in 1 … 16, or element_bytes < 1 · E206 no such loop · E221 the extent is not a constant >= 1
///         E223 a factor of a replayed decision is no candidate
struct SampleTileArgs {
  LoopRef loop;
  int64_t n = 2;
  TilePosition innermost = TilePosition::kOuter;
  int element_bytes = 4;
  std::string name;
  static constexpr auto fields =
      std::tuple{field("loop", &SampleTileArgs::loop), field("n", &SampleTileArgs::n),
                 field("innermost", &SampleTileArgs::innermost), field("element_bytes", &SampleTileArgs::element_bytes),
                 field("name", &SampleTileArgs::name)};
};
Result<std::vector<ValueRef>> sample_tile(Schedule& s, const SampleTileArgs& args);

}  // namespace fettle
