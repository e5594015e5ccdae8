#pragma once
// Shared by the sampling primitives: where a decision comes from, and which tile sizes are worth choosing.

#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

struct Drawn {
  std::string address;
  Decision decision;
};

/// What a sampling step leaves whose outputs are the integers of its decision. The program stays as it is.
Applied sampled(Drawn drawn);

/// The decision of the sampling step called `name`, from the first of
///   1. the trace that is being replayed: it must be among the choices, or the replay fails (E223);
///   2. the schedule's decision map, under the step's address: if it is not among the choices (the program above it has
///      changed), it is passed over;
///   3. a draw from the stream keyed by seed and address.
/// `valid(const Decision&)` tells the choices; `draw(RandomStream&)` makes one of them.
template <class Valid, class Draw>
Result<Drawn> decide(const Schedule& s, const std::string& name, const Valid& valid, const Draw& draw) {
  Drawn drawn{s.next_address(name), {}};
  if (const Decision* prescribed = s.prescribed()) {
    if (!valid(*prescribed)) return fail(ErrorCode::E223, to_text(*prescribed) + " at " + drawn.address);
    drawn.decision = *prescribed;
  } else if (const Decision* remembered = s.remembered(drawn.address); remembered && valid(*remembered)) {
    drawn.decision = *remembered;
  } else {
    RandomStream stream = s.stream(drawn.address);
    drawn.decision = draw(stream);
  }
  return drawn;
}

/// What a tile size is for.
enum class TilePosition : uint8_t {
  kLanes,  // a loop that becomes vector lanes
  kRows,   // rows of a register tile
  kDepth,  // a block of a reduction, whose panels stay in cache
  kOuter,  // how many inner tiles a level further out holds
};
std::string_view tile_position_name(TilePosition position);  // "lanes", "rows", "depth", "outer"
ArgValue to_arg(TilePosition x);
bool from_arg(const ArgValue& a, TilePosition& x);

/// The sizes worth choosing at a position for a loop of `extent` >= 1, ascending and never empty. They depend on
/// nothing but the arguments; `target` may be null (then: 512-bit vectors, 32 registers, 1 MiB of L2).
///   lanes  V*{1, 2, 3, 4, 6, 8} of V lanes, as long as less than one vector would be surplus; for an extent below V
///          the power of two that holds it
///   rows   1 to registers - 2 and to the extent, without those that need as many tiles as a smaller height, since that
///          divides the extent more evenly (197 = 7 tiles of 29, not of 30)
///   depth  the whole extent and its even parts (1/2 … 1/8, rounded up to 4) from 32 on, and powers of two from 64 to
///          4096, as far as a panel of two vectors fits into half of the L2; the smallest of all if nothing fits
///   outer  1, 2, 3, 4, 6, 8, 12, 16, 24, … below the extent, and the extent
std::vector<int64_t> tile_candidates(int64_t extent, const Target* target, TilePosition position, int element_bytes);

}  // namespace fettle
