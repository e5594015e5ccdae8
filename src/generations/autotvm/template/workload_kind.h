#pragma once
// Tells what a program computes, as far as templates ask. It is read from how the blocks access memory.

#include <optional>
#include <string>
#include <vector>

#include "tune/parts/structure.h"

namespace fettle {

/// The one reduction of a program whose other blocks work element by element.
///   C[n, h, w, o] += A[n, h*2 + r, w*2 + q, c] * F[r, q, c, o]     windows r and q, channel c, shared none
struct ReductionKind {
  std::string block;
  BlockStructure structure;
  std::vector<size_t> windows;   // of the reduction, and in one index with a spatial iterator: taps
  std::vector<size_t> channels;  // of the reduction, the others
  std::vector<size_t> shared;    // spatial, on which both factors depend: of a batch, groups or channels; extent > 1
  std::vector<size_t> grouped;   // spatial, of which a factor uses the quotient by a constant
  std::vector<size_t> phased;    // spatial, which are read as quotient and remainder alone: transposed convolution
  bool product = false;          // a sum of products of two factors
};

/// Nothing where the program has no reduction or several, or one that is no plain nest.
std::optional<ReductionKind> reduction_kind(const Func& func);

/// Whether that reduction is a convolution with windows in so many dimensions, neither grouped nor depthwise.
bool is_convolution(const Func& func, size_t dimensions);

/// Whether one of the program's blocks is a sum of products.
bool has_matrix_product(const Func& func);

}  // namespace fettle
