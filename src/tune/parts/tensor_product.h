#pragma once
// Finds products that a tensor intrinsic of the target can compute: which intrinsic, and the part of each iterator.

#include <optional>

#include "target/target.h"
#include "target/tensor_intrinsic.h"
#include "tune/parts/structure.h"

namespace fettle {

/// C[…, j] += cast(A[…, k]) * cast(B[…, k, …, j]) with an intrinsic of these types:
///   C[lanes] += A[steps] · B[lanes, steps]                   a dot product in each lane
///   C[rows, lanes] += A[rows, steps] · B[steps, lanes]       of matrices, B in groups of neighbours of the reduction
/// Numbers are those of BlockStructure's iterators and loads.
struct TensorProduct {
  const TensorIntrinsicDef* intrinsic = nullptr;
  int64_t lanes = 1, steps = 1;                 // extents of the intrinsic's output and reduction
  int64_t rows = 1;                             // of its output, where that is a matrix
  size_t a = 0, b = 0;                          // loads
  size_t vector = 0;                            // spatial, contiguous in C, moves B and not A
  size_t depth = 0;                             // of the reduction, moves both
  bool a_is_plain = false, b_is_plain = false;  // every index is an iterator alone
  std::optional<size_t> row;                    // of matrices: spatial, moves A and not B

  bool of_matrices() const { return rows > 1; }
};

/// The intrinsic that takes the fewest instructions among those that fit; nothing where none does, or where half of its
/// work would be padding. `only`: this intrinsic, unless null.
std::optional<TensorProduct> tensor_product(const BlockNode& block, const BlockStructure& structure,
                                            const Target& target, const TensorIntrinsicDef* only = nullptr);

}  // namespace fettle
