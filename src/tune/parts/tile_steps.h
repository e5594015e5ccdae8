#pragma once
// The steps that every register tile is made of, whoever decides its sizes.
//
//   for i: for j: for k: C[i, j] += A[i, k] * B[k, j]
//   →  pack_panels: B in panels of the tile's width      accumulate_in_registers: C_register, and what reads C
//   for j0: for i0:                                      tile_loops
//     for k: for i1 (unrolled): for jv (unrolled): for jl (lanes): C_register[…] += …       unroll_tile
//     for i1, jv, jl: C[…] = f(C_register[…])            write_back

#include "schedule/schedule.h"
#include "tune/parts/decider.h"
#include "tune/parts/tiling.h"

namespace fettle {

using Loops = std::vector<LoopRef>;

/// A choice "tile" among `tiles`, of which the first is preferred: the cheaper, the likelier. E230 there are none
Result<Tile> pick_tile(Schedule& s, Decider& decider, std::vector<Tile> tiles, const std::string& block);

/// The number of a buffer among what the block reads. E220 it reads it not
Result<int64_t> read_index_of(const Schedule& s, BlockRef block, const Buffer& buffer);
/// Reads `buffer` through a copy of this layout, which is returned.
Result<BlockRef> pack_panels(Schedule& s, BlockRef block, const Buffer& buffer, const IndexMap& layout);

/// Of the second-level cache, bytes of rows that may go through all panels together.
int64_t room_in_l2(const Target& target);

/// Moves a dimension behind all others: (d0, d1, d2), 0 → (d1, d2, d0).
IndexMap moved_last(size_t rank, size_t dim);

/// What a copy of tiles reads of parameters with its lanes apart, again and again, and how it had better lie.
using LaidOut = std::vector<std::pair<Buffer, IndexMap>>;
Result<LaidOut> operands_apart(const Schedule& s, BlockRef copy);
/// These are copied first, lanes side by side, once the copy of tiles has its place in the nest. (bench-quantised: sums
/// of rows, for each head.)
///   for i: for j (lanes): C[i, j] = f(C_register[i, j], S[j, h])   →   S' = Sᵀ;   … f(C_register[i, j], S'[h, j])
Result<> lay_out_operands(Schedule& s, BlockRef copy, const LaidOut& apart);

/// The block writes registers, and the block that is returned what is in them, with what is done to that element by
/// element. `flat`: rows that lie one behind the other become one dimension (flat_map).
Result<BlockRef> accumulate_in_registers(Schedule& s, BlockRef block, const std::optional<IndexMap>& flat = {});

/// The loop over the rows, those of roles.flat fused with it where `flat`.
Result<LoopRef> whole_rows(Schedule& s, const Loops& loops, const TilingRoles& roles, bool flat);
/// How the last tiles of rows are cut. Tiles of flat rows are all as high but for the last, for they cross borders. So
/// are those of an open number of pixels in windows: each height at a border is code.
Tail tail_of_rows(const BlockStructure& structure, size_t row, bool flat);
/// [tiles, rows of a tile].
Result<Loops> cut_rows(Schedule& s, LoopRef rows, int64_t height, Tail tail);
/// [panels, vectors of a tile, lanes]. `padded`: what is read has surplus lanes.
Result<Loops> cut_columns(Schedule& s, LoopRef columns, int64_t vectors, int64_t lanes, bool padded);

/// Loops of one nest, outermost first, by what they are to a tile.
struct TileLoops {
  Loops batch;                // on which the panels depend
  Loops panels;               // over columns: some, or none
  Loops outside;              // other rows
  Loops rows;                 // tiles of rows: one, or none
  bool rows_outside = false;  // the loop over panels is the innermost of these
  Loops around() const;
};
/// The lists, one after the other.
Loops concatenated(std::initializer_list<Loops> lists);
/// Unrolls these loops but for the last, which becomes lanes.
Result<> unroll_tile(Schedule& s, const Loops& inner);

/// Moves the copy of a tile to where it is done, at the innermost loop around it, and vectorizes its loops from `first`
/// on.
Result<> write_back(Schedule& s, BlockRef copy, LoopRef at, size_t first, int64_t lanes);
/// The sums begin before this loop of the reduction.
Result<> begin_sums(Schedule& s, BlockRef block, LoopRef reduction);

/// So many steps of a loop of the reduction make one iteration, as the choice "steps" says: [iterations, unrolled
/// steps], or the loop as it is.
///   for k in 64: …   →   for k_0 in 16: for k_1 in 4 (unrolled): …
Result<Loops> several_steps(Schedule& s, Decider& decider, LoopRef loop, const std::vector<int64_t>& counts,
                            size_t preferred = 0);

/// The next iteration's panel is asked for early, where the loop over panels has not become part of another.
Result<> ask_for_next_panel(Schedule& s, LoopRef panels);
/// A choice "prefetch", whether it is so. `packed`: there are panels to ask for.
Result<> may_ask_for_next_panel(Schedule& s, Decider& decider, LoopRef panels, bool preferred, bool packed = true);

}  // namespace fettle
