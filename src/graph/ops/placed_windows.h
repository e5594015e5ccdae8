#pragma once
// Windows of a tensor that indices place: what general gathers read and scatters write.

#include <vector>

#include "graph/ops/bodies.h"

namespace fettle::ops {

/// Which dims are which: attributes of the same names.
struct PlacedWindows {
  std::vector<int64_t>
      window_dims;  // of what is gathered or scattered, ascending: those of a window; others are places
  std::vector<int64_t> collapsed_dims;    // of the operand: a window has one element there, and no dim
  std::vector<int64_t> batch_dims;        // of the operand: a window lies at the place that its index has in…
  std::vector<int64_t> index_batch_dims;  // … these dims of the indices
  std::vector<int64_t> index_map;         // of the operand: where each number of an index counts
  int64_t index_vector_dim = 0;           // of the indices: along which an index lies; their rank: it is one number

  Attrs attrs() const;
  /// Dims of the operand that windows have.
  std::vector<int64_t> kept_dims(size_t rank) const;
};

/// The attributes, which fit the types of operand and indices. E604 · E605 · E606
Result<PlacedWindows> read_placed_windows(const Node& node, const TensorType& operand, const TensorType& indices);
/// The dims of the indices, but for the one along which an index lies.
Shape places_of(const PlacedWindows& w, const Shape& indices);
/// Where the window of a place begins in each dim of the operand, as the indices have it; 0 where they say nothing.
Indices window_start(const PlacedWindows& w, const te::Tensor& indices, const Indices& place, size_t operand_rank);
/// Parts of an index of what is gathered or scattered: its place, and where it is in its window, a dim of the operand
/// each.
struct WindowIndex {
  Indices place, in_window;
};
WindowIndex window_index(const PlacedWindows& w, const Indices& index, size_t operand_rank);

/// operands after the updates, which the body (old…, update…) → new… combines with what is there, in row-major order
/// of their places. Nothing is written outside. Types fit.
Result<Values> scattered(passes::Lowering& g, const ElementBody& body, Values operands, Value* indices, Values updates,
                         const PlacedWindows& w);

}  // namespace fettle::ops
