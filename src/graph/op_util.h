#pragma once
// What the operator families share: reading a node's types and parameters, and small tensor expressions.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/op.h"

namespace fettle::ops {

using Types = Result<std::vector<TensorType>>;
using Tensors = Result<std::vector<te::Tensor>>;

// --- types ------------------------------------------------------------------------------------------------------

inline const TensorType& type_of(const Node& node, size_t i) { return *node.inputs[i]->type; }
inline DType dtype_of(const Node& node, size_t i) { return node.inputs[i]->type->dtype; }
inline const Shape& shape_of(const Node& node, size_t i) { return node.inputs[i]->type->shape; }
inline int rank_of(const Node& node, size_t i) { return static_cast<int>(shape_of(node, i).size()); }
inline bool has_input(const Node& node, size_t i) { return node.input(i) != nullptr; }

inline Types one_type(DType dtype, Shape shape) { return std::vector<TensorType>{{dtype, std::move(shape)}}; }
/// The first input's type.
Types same_type(const Node& node);
/// E606 at this node / E605 at this node.
tl::unexpected<Diagnostic> bad_attribute(const Node& node, std::string message);
tl::unexpected<Diagnostic> bad_types(const Node& node, std::string message);

/// Numpy's broadcasting. A symbol against another dim that is not 1 gives the number if one is, else the symbol. E605.
Result<Shape> broadcast(const Node& node, const Shape& a, const Shape& b);
/// 0 <= axis < rank from [-rank, rank). E606.
Result<int64_t> positive_axis(const Node& node, int64_t axis, int64_t rank);
/// Sorted, without repetition. E606.
Result<std::vector<int64_t>> positive_axes(const Node& node, std::vector<int64_t> axes, int64_t rank);

// --- parameters: the attribute, or the content of the input that may stand for it ----------------------------------

/// The elements of a small integer tensor, where they are known; symbols among them.
std::optional<std::vector<Dim>> content_of(const Value& value);
/// Nothing where there is neither. E604 the input's content is not known.
Result<std::optional<std::vector<int64_t>>> ints_param(const Node& node, size_t input, std::string_view attr);
Result<std::optional<std::vector<Dim>>> dims_param(const Node& node, size_t input, std::string_view attr);
Result<std::optional<std::vector<double>>> floats_param(const Node& node, size_t input, std::string_view attr);
Result<std::optional<int64_t>> int_param(const Node& node, size_t input, std::string_view attr);

// --- tensor expressions -------------------------------------------------------------------------------------------

using Indices = std::vector<Expr>;

std::vector<Expr> shape_exprs(const Shape& shape);
/// "BatchNormalization" → "batch_normalization": the name of the node's tensor expressions.
std::string tensor_name(const Node& node);
inline Tensors one(te::Tensor tensor) { return std::vector<te::Tensor>{std::move(tensor)}; }
inline const Shape& output_shape(const Node& node, size_t i = 0) { return node.outputs[i]->type->shape; }
inline DType output_dtype(const Node& node, size_t i = 0) { return node.outputs[i]->type->dtype; }

/// t at the output's indices, right-aligned, with 0 where t's extent is 1.
Expr read_broadcast(const te::Tensor& t, const Indices& indices);
inline Indices to_indices(const std::vector<Var>& vars) { return {vars.begin(), vars.end()}; }
/// One element a point: compute(output shape, f(indices)).
te::Tensor map_output(const Node& node, const std::function<Expr(const Indices&)>& element, size_t output = 0);
/// C's division, towards zero, for integers; a / b for floats.
Expr divide(const Expr& a, const Expr& b);
inline Expr clamp(const Expr& x, const Expr& low, const Expr& high) { return min(max(x, low), high); }
/// Indices of a tensor of shape `from` at the element with the same position as `indices` in shape `to`. Runs of dims
/// of equal products are mapped on their own, so that what a reshape keeps is kept.
Indices reshape_indices(const std::vector<int64_t>& from, const std::vector<int64_t>& to, const Indices& indices);

}  // namespace fettle::ops
