#pragma once
// What all schedules of products on a GPU do, whatever multiplies: which loops are what, padding, who takes the sums
// along, and factors that are worked out where they are read.

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_product.h"
#include "tune/parts/loops.h"

namespace fettle {

/// One object is one run on one block.
class GpuProduct {
 public:
  GpuProduct(Schedule& schedule, BlockRef product) : s(schedule), block(product) {}

  struct Factor {
    Buffer buffer;
    size_t rank = 0, dimension = 0, term_dimension = 0;  // dimension: that of the rows, or of the columns
    bool along_terms = false;                            // terms are contiguous
  };
  static constexpr size_t kLeft = 0, kRight = 1;

  Schedule& s;
  BlockRef block;
  ProductLoops roles;
  std::vector<int64_t> extents;
  std::vector<Factor> factors;
  size_t row_dimension = 0, column_dimension = 0;  // of the result
  Finished finished;

  /// What the block is. E230 it is no product of matrices of constant extents
  Result<> read();
  int64_t batch() const;
  int64_t rows() const { return extents[roles.row]; }
  int64_t columns() const { return extents[roles.column]; }
  int64_t terms() const { return extents[roles.term]; }

  /// Extents become multiples of these, by copies that inline_copies puts where they are read.
  Result<> pad(int64_t rows_of_tile, int64_t columns_of_tile, int64_t terms_of_step);
  /// Who takes the sums of the block from the memory of this scope: what reads them element by element, as one block,
  /// or a copy.
  Result<BlockRef> reader(const std::string& scope);
  /// A copy of a factor in shared memory, made at this loop, from what the program has: paddings and matrices are
  /// worked out in it.
  Result<BlockRef> fetch(size_t which, LoopRef loop);
  /// The block needs nothing more.
  Result<> finish(BlockRef done);

 private:
  bool as_matrix(const std::string& name, const Buffer& sums);
  Result<> inline_copies(Buffer source);

  std::vector<std::string> padded_;
};

}  // namespace fettle
