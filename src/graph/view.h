#pragma once
// Views: values that share the memory of another, as strides into it.

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/op.h"

namespace fettle {

/// Where the elements of a value lie: element (i0, i1, …) at offset + Σ strides[d] * i_d of a storage, in elements.
struct View {
  int storage = -1;  // index into Plan::storages
  Dim offset_elems = 0;
  std::vector<Dim> strides;  // one a dimension of the value; of a dimension of extent 1: anything
};

/// Dims [from, from_end) of one shape and [to, to_end) of another, with products that are equal for all sizes.
struct DimGroup {
  size_t from, from_end, to, to_end;
};
/// Two shapes of as many elements in groups, each as small as can be; dims of extent 1 behind the last are in none.
///   [2, 12, 1] and [2, 3, 4]: {2} ~ {2}, {12} ~ {3, 4}
/// Nothing where they do not fall into any.
std::optional<std::vector<DimGroup>> equal_groups(const Shape& from, const Shape& to);

/// Row-major strides of a shape.
std::vector<Dim> dense_strides(const Shape& shape);
/// Strides of a dense array whose dimensions lie in `order`, outermost first: {0, 2, 3, 1} is channels last.
std::vector<Dim> dense_strides(const Shape& shape, const std::vector<int>& order);
/// The dimensions by falling stride, at typical sizes; those of extent 1 first, as they are.
std::vector<int> memory_order(const Shape& shape, const std::vector<Dim>& strides);
/// Whether the elements lie row-major without gaps.
bool is_row_major(const Shape& shape, const std::vector<Dim>& strides);

/// The same elements in the same order under another shape, as NumPy's reshape finds them, without copying; null where
/// they do not lie evenly.
std::optional<View> reshaped_view(const Shape& from, const View& view, const Shape& to);

/// Whether the node may only rename memory.
inline bool may_be_view(const Node& node) { return node.op->view; }

/// The outputs of such a node as views of its input's memory, or nothing where the input's strides do not allow it.
///   x[1, 40, 3, 8, 15] dense → Transpose(2, 0, 3, 1, 4) → strides {120, 14400, 15, 360, 1}
std::optional<std::vector<View>> view_outputs(const Node& node, const View& input);

/// The other way round: where the input of such a node has to lie for its output to lie at `output`. Nothing for those
/// that hand on a part of their input.
std::optional<View> view_input(const Node& node, const View& output);

/// True for what concatenates: it costs nothing where its inputs are made in their parts of the result.
inline bool is_concatenation(const Node& node) { return node.op->is_concatenation && node.inputs.size() > 1; }

}  // namespace fettle
