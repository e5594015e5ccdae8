#pragma once
// Helpers that the operator families share. They read a node's types and parameters, and make small tensor expressions.

#include <algorithm>
#include <climits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/op.h"
#include "graph/size_vars.h"

namespace fettle::ops {

using Types = Result<std::vector<TensorType>>;
using Tensors = Result<std::vector<te::Tensor>>;

// --- types ------------------------------------------------------------------------------------------------------

inline const TensorType& type_of(const Node& node, size_t i) { return *node.inputs[i]->type; }
inline DType dtype_of(const Node& node, size_t i) { return node.inputs[i]->type->dtype; }
inline const Shape& shape_of(const Node& node, size_t i) { return node.inputs[i]->type->shape; }
inline int rank_of(const Node& node, size_t i) { return static_cast<int>(shape_of(node, i).size()); }
inline bool has_input(const Node& node, size_t i) { return node.input(i) != nullptr; }

/// Whether the input is there and given to what is computed.
inline bool has_tensor(std::span<const te::Tensor> in, size_t i) { return i < in.size() && in[i]; }

inline Types one_type(DType dtype, Shape shape) { return std::vector<TensorType>{{dtype, std::move(shape)}}; }
/// The first input's type.
Types same_type(const Node& node);
/// The first input's element type, in another shape.
inline Types same_dtype(const Node& node, Shape shape) { return one_type(dtype_of(node, 0), std::move(shape)); }
/// Input i has at least / exactly this rank. E605.
Result<> check_rank(const Node& node, size_t i, int least, int most = INT_MAX);
/// Inputs from `first` on are of one element type. E605.
Result<> check_same_dtype(const Node& node, size_t first = 0, size_t last = SIZE_MAX);

/// The input, which may be missing, has this type as far as can be told; what cannot is noted. E605, with its name.
Result<> check_type(const Node& node, const Value* input, std::string_view name, const TensorType& wanted);

// --- dims ---------------------------------------------------------------------------------------------------------

/// Whether the extent may be a multiple of n.
inline bool may_divide(int64_t n, const Dim& extent) { return !extent.is_number() || extent.value() % n == 0; }
/// Whether it may be known only when a node has run, and then be negative.
bool is_signed_by_data(const Dim& dim);
/// 1 where the dim is negative, else 0.
Dim is_negative(const Dim& dim);
/// The extent that both state, the number where one is. E605, with `what` and both.
Result<Dim> common_dim(const Node& node, const Dim& a, const Dim& b, std::string_view what);

// Of a list of dims, indices or extents: one more, one less, another, two lists behind each other.
template <class T>
std::vector<T> with_inserted(std::vector<T> list, int64_t at, std::type_identity_t<T> item) {
  list.insert(list.begin() + at, std::move(item));
  return list;
}
template <class T>
std::vector<T> without(std::vector<T> list, int64_t at) {
  list.erase(list.begin() + at);
  return list;
}
template <class T>
std::vector<T> with_replaced(std::vector<T> list, int64_t at, std::type_identity_t<T> item) {
  list[static_cast<size_t>(at)] = std::move(item);
  return list;
}
template <class T>
std::vector<T> joined(std::vector<T> list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}
/// E606 at this node / E605 at this node.
tl::unexpected<Diagnostic> bad_attribute(const Node& node, std::string message);
tl::unexpected<Diagnostic> bad_types(const Node& node, std::string message);
/// E604 at this node.
tl::unexpected<Diagnostic> not_known(const Node& node, std::string message);

/// Numpy's broadcasting. A symbol against another dim that is not 1 gives the number if one is, else the symbol. E605.
Result<Shape> broadcast(const Node& node, const Shape& a, const Shape& b);
/// 0 <= axis < rank from [-rank, rank). E606.
Result<int64_t> positive_axis(const Node& node, int64_t axis, int64_t rank);
/// The attribute `axis`, of a tensor of this rank (the first input's). E606.
Result<int64_t> axis_of(const Node& node, int64_t otherwise, int64_t rank);
inline Result<int64_t> axis_of(const Node& node, int64_t otherwise) {
  return axis_of(node, otherwise, rank_of(node, 0));
}
/// 0, 1, …, n-1
std::vector<int64_t> first_numbers(size_t n);
/// Sorted, without repetition. E606.
Result<std::vector<int64_t>> positive_axes(const Node& node, std::vector<int64_t> axes, int64_t rank);

// --- parameters: the attribute, or the content of the input that may stand for it ----------------------------------

/// Rules that sizes must keep are noted in `graph` while it lives.
class SizeCheckScope {
 public:
  explicit SizeCheckScope(Graph& graph);
  /// The graph whose scope is the innermost; null: none.
  static Graph* graph();
  SizeCheckScope(const SizeCheckScope&) = delete;
  SizeCheckScope& operator=(const SizeCheckScope&) = delete;
  ~SizeCheckScope();

 private:
  Graph* before_;
};
/// A size of [min, max] that nothing else is called like.
Dim fresh_size(const std::string& name, int64_t min, int64_t max, int64_t typical = 0);
/// a == b cannot be told to hold for all sizes, and must; or a >= 0.
void note_equal(const Node& node, const Dim& a, const Dim& b, std::string_view what);
void note_not_negative(const Node& node, const Dim& a, std::string_view what);
/// n, a number, divides a.
inline void note_divides(const Node& node, int64_t n, const Dim& a, std::string_view what) {
  note_equal(node, floordiv(a, n) * n, a, what);
}
/// While it lives, rules are those of a body that runs `times` times: they need not hold where that is 0.
class BodyCheckScope {
 public:
  explicit BodyCheckScope(const Dim& times);
  BodyCheckScope(const BodyCheckScope&) = delete;
  BodyCheckScope& operator=(const BodyCheckScope&) = delete;
  ~BodyCheckScope();

 private:
  Dim before_;
};

inline constexpr size_t kMaxContentRank = 2;
/// The elements of a small integer tensor, where they are known; symbols among them. Of two axes: row by row.
std::optional<std::vector<Dim>> content_of(const Value& value);
/// Nothing where there is neither. E604 the input's content is not known.
Result<std::optional<std::vector<int64_t>>> ints_param(const Node& node, size_t input, std::string_view attr);
Result<std::optional<std::vector<Dim>>> dims_param(const Node& node, size_t input, std::string_view attr);
Result<std::optional<std::vector<double>>> floats_param(const Node& node, size_t input, std::string_view attr);
Result<std::optional<int64_t>> int_param(const Node& node, size_t input, std::string_view attr);

// --- tensor expressions -------------------------------------------------------------------------------------------

using Indices = std::vector<Expr>;

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
/// As size_expr, of what something is divided by: 1 instead of 0, where nothing of the quotient is used.
inline Expr divisor_expr(const Dim& dim) { return size_expr(dim.is_number() ? dim : max(dim, 1)); }
/// The one element of a tensor, whatever its rank.
inline Expr scalar_of(const te::Tensor& t) { return t(Indices(t.shape().size(), Expr(0))); }
inline Expr number(double value, const Expr& like) { return constant(value, like.dtype()); }
/// 1 / the product of the extents, as a number of type `dtype`.
Expr inverse_count(const std::vector<Expr>& extents, DType dtype);

using Reduce = te::Reduction (*)(Expr, std::vector<te::ReduceAxis>);
/// Axes k0, k1, …
std::vector<te::ReduceAxis> reduce_axes(const std::vector<Expr>& extents);
/// name[i…] = reduce over the axes of element(i, axes). Over nothing it is the reduction's identity; without axes, the
/// element.
te::Tensor reduce_over(Reduce reduce, std::vector<Expr> shape, const std::vector<te::ReduceAxis>& axes,
                       const std::function<Expr(const Indices& i, const Indices& reduced)>& element, std::string name,
                       std::vector<std::string> axis_names = {});
/// The same where nobody reads what goes over nothing: a row's sum is read beside the row's elements.
te::Tensor reduce_row(Reduce reduce, std::vector<Expr> shape, const std::vector<te::ReduceAxis>& axes,
                      const std::function<Expr(const Indices& i, const Indices& reduced)>& element, std::string name,
                      std::vector<std::string> axis_names = {});
inline Expr clamp(const Expr& x, const Expr& low, const Expr& high) { return min(max(x, low), high); }
/// An index of data, which counts from the end where it is negative. It may lie outside of the extent.
inline Expr from_either_end(const Expr& index, const Expr& extent) {
  const Expr k = cast(kI64, index);
  return select(lt(k, Expr(0)), k + extent, k);
}
/// The same, and inside: the first or the last element where it is not, so that nothing outside is read.
inline Expr wrapped(const Expr& index, const Expr& extent) {
  return clamp(from_either_end(index, extent), Expr(0), extent - Expr(1));
}
/// Indices of a tensor of shape `from` at the element with the same position as `indices` in shape `to`. Runs of dims
/// of equal products are mapped on their own, so that what a reshape keeps is kept.
Indices reshape_indices(const Shape& from, const Shape& to, const Indices& indices);

// --- definitions --------------------------------------------------------------------------------------------------

using enum FusionKind;
using enum ElementWork;
using enum ParamInput::Kind;

using Infer = Types (*)(const Node& node);
using Compute = Tensors (*)(const Node& node, std::span<const te::Tensor> in);
using Content = std::optional<std::vector<Dim>> (*)(const Node& node);

inline constexpr int kAny = -1;
/// How many inputs an operator has.
struct InputCount {
  constexpr InputCount(int exactly) : least(exactly), most(exactly) {}
  constexpr InputCount(int at_least, int at_most) : least(at_least), most(at_most) {}
  int least, most;
};

/// An operator by its two rules; `traits` has what else there is to say of it.
constexpr OpDef define(FusionKind fusion, std::string_view name, InputCount inputs, Infer infer, Compute compute,
                       OpDef traits = {}) {
  traits.name = name;
  traits.fusion = fusion;
  traits.min_inputs = inputs.least;
  traits.max_inputs = inputs.most;
  traits.infer = infer;
  traits.compute = compute;
  return traits;
}

inline bool always(const Node&) { return true; }
inline bool has_one_input(const Node& node) { return node.inputs.size() == 1; }

/// The rule of an operator that is lowered before types are inferred.
inline Types not_lowered(const Node& node) { return bad_types(node, "it was not lowered"); }

// Elementwise functions of one tensor.
using UnaryElement = Expr (*)(const Node& node, const Expr& x);
template <UnaryElement F>
Tensors of_element(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) { return F(node, in[0](i)); }));
}
template <UnaryElement F>
constexpr OpDef unary(std::string_view name, Infer infer = same_type) {
  return define(kElementwise, name, 1, infer, of_element<F>, {.is_pointwise = true});
}

/// A text that a template takes.
struct Text {
  template <size_t N>
  consteval Text(const char (&text)[N]) {
    static_assert(N <= sizeof(chars));
    std::copy_n(text, N, chars);
  }
  char chars[16] = {};
};
/// "exp": one function of the element.
template <Text Name>
Expr math_of(const Node&, const Expr& x) {
  return math(Name.chars, {x});
}

}  // namespace fettle::ops
