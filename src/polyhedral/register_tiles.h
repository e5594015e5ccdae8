#pragma once
// Tiles of registers for sums that run over no rectangle, or in order.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/affine/nest.h"
#include "schedule/schedule.h"

namespace fettle {

/// A read whose columns lie apart in memory. A copy has those of a tile side by side, step by step.
struct PackedRead {
  int64_t read_index = 0;
  IndexMap map;  // from the block's iterators, for `reindex_cache_read`
};

/// A few rows and columns of what a sum makes, which are written out. A block of the sum's steps, whose operands a
/// cache holds, goes over such a tile before the next one begins.
struct RegisterTiles {
  IndexMap map;                  // to blocks of steps, columns' tiles, rows' tiles, step, row, column, and the rest
  std::vector<int64_t> factors;  // of these, for `reschedule`
  int64_t rows = 0, columns = 0;
  std::vector<PackedRead> packed;
  int64_t lanes = 1;  // of the columns; 1: the sum's steps go along memory, and become lanes when code is made
};

/// Whether the block goes on from what it has written: X[at] = X[at] + …
bool goes_on(const BlockNode& block);

/// The row of three that a sum of three loops goes along, and no loop but its own moves, or nothing.
std::optional<size_t> summed_row(const NestStatement& statement, const IndexMap& map);

/// Tiles for an order of three rows, all of which may change places, the one that goes along memory last. `map`: of the
/// only statement. Nothing where it is no sum along one of the rows alone.
std::optional<RegisterTiles> plan_register_tiles(const NestStatement& statement, const IndexMap& map, int64_t lanes,
                                                 int64_t registers);

/// Writes the block out, after `reschedule` by these tiles: the rows and columns of a whole tile are unrolled and its
/// lanes are vectors. True where the block stands in a whole tile. What is left of a tile whose steps become lanes has
/// them innermost.
Result<bool> write_tile_out(Schedule& s, const std::string& block, const RegisterTiles& tiles);

}  // namespace fettle
