#pragma once
// What tiles of dot products (tensor_tile.cpp) and tiles of matrices (matrix_tile.cpp) have in common: which part each
// iterator plays, padding, and layouts of the factors. One object is one run on one block.

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"
#include "tune/parts/tensor_product.h"

namespace fettle {

struct TensorTiling {
  Schedule& s;
  const Target& target;
  Decider& decider;
  int threads;
  BlockRef block;
  std::string name;
  Finished made = {};
  BlockStructure structure = {};
  TensorProduct product = {};
  std::optional<size_t> row = {};                // iterator of the rows of a tile
  std::vector<size_t> batch = {}, outside = {};  // other spatial iterators: B depends on them, or not
  std::vector<size_t> reduce = {};               // but for the depth, in the order of their loops
  std::optional<BlockRef> unpad = {};            // copies the output without its padding

  const AccessPattern& a() const { return structure.loads[product.a]; }
  const AccessPattern& b() const { return structure.loads[product.b]; }
  int64_t extent(size_t iter) const { return structure.extents[iter]; }
  /// The type in which the intrinsic takes the rows' operand.
  DType type_of_rows() const { return meaning_of(*product.intrinsic)->params[0].buffer->dtype; }
  bool widens() const { return a().buffer->dtype != type_of_rows(); }
  /// Neighbours of 16 bits are multiplied and added up by one instruction, and added to the sum by another.
  bool of_pairs() const { return type_of_rows() == kI16; }

  /// What the block is now; the intrinsic stays what it was at first. E230 no tensor intrinsic fits
  Result<> look();
  /// The block needs nothing more.
  Result<> finish(BlockRef of);
  /// Pads with zeros what these numbers of rows and columns, and the intrinsic's steps, do not divide; windows of
  /// convolutions become rows of a matrix then.
  Result<> fit(int64_t rows, int64_t columns);
  /// The rows' operand with the depth innermost.
  Result<> lay_out_rows();
  /// The rows' operand in the intrinsic's type: bytes in a copy of 16 bits, made once for all columns. What is a copy
  /// already, or padded, is stored so.
  Result<> widen_rows();
  /// B in panels as `map` has them: a copy, or the buffer itself where the program makes it.
  Result<> lay_out_panels(const IndexMap& map);
  /// (batch…, k…, j) in any order → (batch…, j // width, k…, depth // steps, j % width, depth % steps)
  IndexMap panel_map(int64_t width, int64_t steps) const;
};

}  // namespace fettle
