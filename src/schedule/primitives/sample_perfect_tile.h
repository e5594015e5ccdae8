#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Chooses n factors whose product is exactly the extent of a loop; every such list is equally likely.
///   v0, v1 = sample_perfect_tile(loop=l, n=2, max_innermost=16, name="i")   with l of 512: 32, 16 or 64, 8 or …
/// max_innermost: the largest innermost factor where n > 1; 0 for no limit.
/// The loop is not changed: give the factors to split. The decision is the list of factors, outermost first.
/// Returns n integers, outermost first. For extents with few divisors (197 is prime) use sample_tile.
/// Errors: E202 n not in 1 … 16, or max_innermost < 0 · E206 no such loop
///         E221 the extent is not a constant in 1 … 2^40
///         E223 the factors of a replayed decision do not multiply to the extent, or exceed max_innermost
struct SamplePerfectTileArgs {
  LoopRef loop;
  int64_t n = 2;
  int64_t max_innermost = 0;
  std::string name;
  static constexpr auto fields = std::tuple{
      field("loop", &SamplePerfectTileArgs::loop), field("n", &SamplePerfectTileArgs::n),
      field("max_innermost", &SamplePerfectTileArgs::max_innermost), field("name", &SamplePerfectTileArgs::name)};
};
Result<std::vector<ValueRef>> sample_perfect_tile(Schedule& s, const SamplePerfectTileArgs& args);
extern const PrimitiveDef sample_perfect_tile_def;

/// What such a step decides on a loop of this extent: `remembered`, where that is among the choices (null: it is not);
/// else what is drawn from the stream. The step itself also checks its arguments.
Decision perfect_tile_of(int64_t extent, int64_t n, int64_t max_innermost, const Decision* remembered,
                         RandomStream stream);

/// How many lists there are for a loop of this extent, as a number that may be rounded where it is large.
double perfect_tile_count(int64_t extent, int64_t n, int64_t max_innermost);

}  // namespace fettle
