#pragma once
// Convolutions, and products with several loops of a kind, as products of two matrices whose elements are worked out
// when they are copied (im2col):
//
//   for h, w, o, r, q, c: O[h, w, o] += X[h + r, w + q, c] * F[o, r, q, c]
//   →  A[m, k] = X[…];  B[o, k] = F[…];  for m, o, k: C[m, o] += A[m, k] * B[o, k];  O[h, w, o] = C[h*W + w, o]

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "tune/parts/structure.h"

namespace fettle {

/// What the iterators of a block are to the product, by their places.
struct MatrixRoles {
  std::vector<size_t> rows, columns, terms;  // outermost first; of terms that are neighbours in memory the last
  size_t left = 0, right = 0;                // loads
};

/// Rows are those iterators of the output that the image has, of which the window moves; columns those of the weights,
/// along which the result is contiguous. Nothing where an iterator of the output is in both factors or in none, a term
/// in one alone, or a factor is read under a condition.
std::optional<MatrixRoles> matrix_roles(const BlockStructure& block);
/// Product of the extents.
int64_t extent_of(const BlockStructure& block, const std::vector<size_t>& iters);

/// The blocks that make the factors, and the one that copies the result; from its iterators to row and column.
struct MatrixCopies {
  BlockRef left, right, result;
  IndexMap of_result;
};
/// The block becomes the product of two matrices. E230 it is not directly in the loops of its iterators · those of
/// reindex, transform_layout and transform_block_layout
Result<MatrixCopies> make_matrix_product(Schedule& s, BlockRef block, const BlockStructure& structure,
                                         const MatrixRoles& roles);

}  // namespace fettle
