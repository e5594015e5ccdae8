#pragma once
// Blocks of steps over tiles of columns.

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Blocks of the steps of a loop that runs in order, k, around loops over columns that wait for step k's column alone.
/// Columns of the block's steps go first. Those beyond them then go in tiles of a few vectors, each of which a cache
/// holds while it takes all steps of the block.
///   for k: { f(k)   for j in k + 1 +: n - k - 1: { for i: S(k, j, i)   for i: T(k, j, i) } }
///   →  for kb: { for k in the block: { f(k)   for i, j in the block: S(k, j, i)   for i, j in the block: T(k, j, i) }
///               for jt beyond the block: for k in the block: { for i, j in the tile: S   for i, j in the tile: T } }
/// A column is what the block writes at the end of its index. Columns become `lanes`, and sums of a whole tile stay in
/// registers. What the tiles share of the block's columns is copied once. Threads share the tiles where `in_parallel`
/// says so. Orthogonalisations such as those of Gram, Schmidt and Householder are such programs, and eliminations.
/// isl's scheduler is not asked.
/// After Dongarra, Hammarling and Sorensen, "Block reduction of matrices to condensed forms" (JCAM 27, 1989).
/// Errors: E211 the blocks share no loop, or none has columns that begin behind its step
///         E227 a dependence would be broken · those of AffineNest::of
Result<> block_columns(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes, bool in_parallel);

}  // namespace fettle
