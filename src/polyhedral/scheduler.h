#pragma once
// A program's blocks in an order that isl's scheduler finds, as steps of a schedule.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/affine/isl_context.h"
#include "schedule/schedule.h"

namespace fettle {

/// Which blocks share loops (the names of Tensor Comprehensions).
enum class FusionStrategy {
  kMax,                  // all that can
  kPreserve3Coincident,  // as kMax, unless a block would lose parallel loops among its first three
  kMin,                  // those alone that need each other in turn
};

/// In which order tiles come whose rows all carry dependences: one after the other, or by fronts of independent ones.
enum class TileOrder {
  kInTurn,
  kWavefronts,  // tiles of one diagonal
  kDiamonds,    // the same of tiles that lean both ways, so that all of a front may begin at once; else wavefronts
};

/// Their names, in their order: "max", …; "in_turn", ….
inline constexpr std::array<std::string_view, 3> kFusionNames = {"max", "preserve_3_coincident", "min"};
inline constexpr std::array<std::string_view, 3> kTileOrderNames = {"in_turn", "wavefronts", "diamonds"};

/// Orders that isl's scheduler found, to be used again for other options of the same program's schedules.
class FoundOrders;
std::shared_ptr<FoundOrders> make_found_orders();

struct PolyhedralOptions {
  FusionStrategy fusion = FusionStrategy::kPreserve3Coincident;
  /// Rows may add loops; without it each row is one loop, shifted.
  bool allow_skewing = true;
  /// No row has a loop with a negative coefficient.
  bool positive_orthant = false;
  /// Updates of a reduction may change places.
  bool reassociate = true;
  /// Tile sizes of the outermost band's rows, outermost first; the last one holds for all further ones. Empty: none.
  std::vector<IntRef> tiles;
  /// Whole tiles are parted from the others, so that their loops have constant extents. Tiles of fronts are not.
  bool full_tiles = true;
  /// Where threads are to share tiles, and none of a band's rows is parallel.
  TileOrder tile_order = TileOrder::kInTurn;
  /// Innermost loops of constant extents are unrolled by it. 1: none.
  IntRef unroll = int64_t{1};
  /// The innermost loop of a skewed band runs as it is written, if the tiles of the others allow it. Rows fill vectors.
  bool straight_rows = false;
  /// Tiles are those of a sum in registers (register_tiles.h), in place of `tiles`, where a group is one such sum.
  bool register_tiles = false;
  /// Blocks of so many steps of sums come one after the other (step_blocks.h), in place of `tiles`; products get tiles
  /// of registers. Of a nest of several blocks whose rows are a band of three. Others are refused. 0: none.
  int64_t step_blocks = 0;
  /// So many rows of a recurrence run at once (unroll_and_jam.h), in place of `tiles`: of a nest of one block whose
  /// innermost row carries dependences. Others are refused. 1: none.
  int64_t jammed_rows = 1;
  /// Vector registers of the target.
  int64_t registers = 16;
  /// Elements of a vector: innermost loops become lanes where they may. 1: they stay.
  int64_t lanes = 1;
  /// Threads share the outermost loop that may be parallel.
  bool parallel = false;
  /// Loops are to be bound to a device's threads: rows that may be parallel come first where they may, and all loops
  /// stay plain ones. In place of `parallel`.
  bool for_device = false;
  /// Which of the program's blocks, all that stand in some statements of its body. Empty: all.
  std::vector<std::string> blocks;
  /// Operations of isl's that the search for one order may take, and blocks of which one is sought.
  int64_t operations = kIslScheduleOperations;
  size_t most_blocks = SIZE_MAX;
  /// What was found before, and what is found. Null: nothing is kept.
  std::shared_ptr<FoundOrders> found;
};

/// Adds the steps that give the blocks of the program's body an order with dependences kept, short reuse distances and,
/// outermost, loops of independent iterations. What is not affine is named, and the schedule stays as it is.
/// After Verdoolaege and Janssens, "Scheduling for PPCG" (2017), and Bondhugula et al., PLDI 2008.
/// Errors: E209 a block is not affine, or isl gave up · E211 there is nothing to schedule, or no recurrence
Result<> reschedule_program(Schedule& s, const PolyhedralOptions& options);

}  // namespace fettle
