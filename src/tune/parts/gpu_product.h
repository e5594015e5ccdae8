#pragma once
// Products of matrices on a GPU: tiles of the result for blocks of threads, whose operands go through shared memory,
// and smaller tiles in the registers of each thread.
//
//   for i: for j: for k: C[i, j] += A[i, k] * B[k, j];   D[i, j] = f(C[i, j])
//   →  for by: for bx: for ty: for tx: [for k0: A_shared, B_shared; for k1: C_local[…] += A_local[…] * B_local[…]]
//        D[…] = f(C_local[…])

#include <optional>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {

/// Which loops of a block are a product's: rows are those of the left factor, columns those along which the result is
/// contiguous.
struct ProductLoops {
  std::vector<size_t> batch;
  size_t row = 0, column = 0, term = 0;
  size_t left = 0, right = 0;  // loads of the block's structure
};
/// Nothing where it is no sum over one loop of products of two matrices, each index of which is one loop.
std::optional<ProductLoops> product_loops(const BlockStructure& block);

/// Whether tiles pay: smaller products are a nest like any other.
bool fills_tiles(int64_t rows, int64_t columns, int64_t terms);

/// The product in tiles; blocks that read its result element by element are taken along. What tiles do not divide is
/// filled up with zeros where it is read into shared memory. Decides under the address prefix that is set. Errors: E230
/// it is no such product, or has extents that are no constants · those of the steps
Result<Finished> gpu_product(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
