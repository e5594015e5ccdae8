// Operators that make tensors from parameters: ConstantOfShape, Range, EyeLike, OneHot.

#include <fmt/format.h>

#include <cmath>

#include "graph/parameter_shapes.h"
#include "graph/passes/lowering.h"
#include "graph/small_types.h"

namespace fettle {
namespace {

using namespace ops;

// ConstantOfShape(shape) {value}: zero of f32 unless `value` says otherwise.
DType filler_type(const Node& node) {
  const ConstantTensor* value = node.attrs.get_tensor("value");
  return value ? value->dtype : kF32;
}
Types constant_of_shape_type(const Node& node) {
  FETTLE_TRY(const auto shape, dims_param(node, 0, "shape"));
  if (!shape) return bad_attribute(node, "no shape is given");
  for (const Dim& d : *shape)
    if (d.max() < 0) return bad_attribute(node, "an extent is negative");
  const ConstantTensor* value = node.attrs.get_tensor("value");
  if (value && value->n_elems() != 1) return bad_attribute(node, "value must have one element");
  return one_type(filler_type(node), *shape);
}
Tensors constant_of_shape(const Node& node, std::span<const te::Tensor>) {
  const ConstantTensor* value = node.attrs.get_tensor("value");
  const DType dtype = program_dtype(filler_type(node));
  return one(map_output(node, [&](const Indices&) {
    if (!value) return constant(0, dtype);
    if (value->dtype.is_small_float()) return int_imm(std::to_integer<int64_t>(*value->bytes), dtype);  // its code
    return dtype.is_float() ? constant(value->at(0), dtype) : int_imm(value->int_at(0), dtype);
  }));
}
std::optional<std::vector<Dim>> constant_of_shape_content(const Node& node) {
  const auto shape = static_shape(output_shape(node));
  const ConstantTensor* value = node.attrs.get_tensor("value");
  if (!shape || shape->size() > 1 || !filler_type(node).is_int() || (shape->size() == 1 && (*shape)[0] > 4096))
    return std::nullopt;
  return std::vector<Dim>(shape->empty() ? 1 : static_cast<size_t>((*shape)[0]), Dim(value ? value->int_at(0) : 0));
}

// Range(start, limit, delta): constants, or integers that depend on sizes.
bool has_constant_bounds(const Node& node) {
  return std::ranges::all_of(
      node.inputs, [](const Value* input) { return input && input->is_constant() && input->constant->n_elems() == 1; });
}
Types range_of_sizes(const Node& node) {
  std::vector<Dim> bounds;
  for (size_t i = 0; i < 3; ++i) {
    const auto content = has_input(node, i) ? content_of(*node.inputs[i]) : std::nullopt;
    if (!content || content->size() != 1)
      return not_known(node, "Range needs its bounds when the model is compiled, as numbers or from the inputs' sizes");
    bounds.push_back(content->front());
  }
  const Dim &start = bounds[0], &limit = bounds[1], &delta = bounds[2];
  if (delta == Dim(0)) return bad_attribute(node, "the step is zero");
  if (delta.max() < 0) return same_dtype(node, {max(ceildiv(start - limit, 0 - delta), 0)});
  note_not_negative(node, delta - 1, "the step");
  return same_dtype(node, {max(ceildiv(limit - start, delta), 0)});
}
Types range_type(const Node& node) {
  for (const size_t i : {0, 1, 2}) FETTLE_TRY_VOID(check_one_number(node, i));
  if (has_input(node, 3) || node.attrs.has("count")) {
    FETTLE_TRY(const auto count, dims_param(node, 3, "count"));
    if (count->size() != 1) return bad_attribute(node, "its count is no number");
    return same_dtype(node, {max(count->front(), 0)});
  }
  if (!has_constant_bounds(node)) return range_of_sizes(node);
  double bounds[3];
  for (size_t i = 0; i < 3; ++i) bounds[i] = node.inputs[i]->constant->at(0);
  if (bounds[2] == 0) return bad_attribute(node, "the step is zero");
  const double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (count > static_cast<double>(kMaxDim)) return fail(ErrorCode::E608, "Range is too long", node.name);
  return same_dtype(node, {Dim(count > 0 ? static_cast<int64_t>(count) : 0)});
}
Tensors range(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(
      node, [&](const Indices& i) { return scalar_of(in[0]) + cast(output_dtype(node), i[0]) * scalar_of(in[2]); }));
}

std::optional<std::vector<Dim>> range_content(const Node& node) {
  const auto start = content_of(*node.inputs[0]), delta = content_of(*node.inputs[2]);
  const Dim& count = output_shape(node)[0];
  if (!start || !delta || start->size() != 1 || delta->size() != 1 || !count.is_number() || count.value() > 4096)
    return std::nullopt;
  std::vector<Dim> all;
  for (int64_t i = 0; i < count.value(); ++i) all.push_back(start->front() + delta->front() * i);
  return all;
}

Types eye_like_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  const int64_t code = node.attrs.get_int("dtype", 0);
  if (code == 0) return same_type(node);
  if (const auto dtype = element_type(code)) return one_type(*dtype, shape_of(node, 0));
  return bad_attribute(node, "dtype is not supported");
}
Tensors eye_like(const Node& node, std::span<const te::Tensor>) {
  const Expr k = node.attrs.get_int("k", 0);
  const DType dtype = output_dtype(node);
  return one(map_output(
      node, [&](const Indices& i) { return select(eq(i[0] + k, i[1]), constant(1, dtype), constant(0, dtype)); }));
}

// OneHot(indices, depth, values): values = [off, on]; the depth is a constant, or depends on sizes.
std::optional<Dim> depth_of(const Value& value) {
  if (value.is_constant())
    return value.constant->n_elems() == 1 ? std::optional<Dim>(value.constant->int_at(0)) : std::nullopt;
  return value.content && value.content->size() == 1 ? std::optional(value.content->front()) : std::nullopt;
}
Types one_hot_type(const Node& node) {
  const auto known = depth_of(*node.inputs[1]);
  if (!known)
    return not_known(node, "OneHot needs its depth when the model is compiled, as a number or from the inputs' sizes");
  const Dim& depth = *known;
  FETTLE_TRY_VOID(check_rank(node, 2, 1, 1));
  FETTLE_TRY_VOID(common_dim(node, shape_of(node, 2)[0], 2, "the values of off and on"));
  note_not_negative(node, depth, "the depth");
  if (depth.max() < 0 || depth.min() > kMaxDim)
    return bad_attribute(node, fmt::format("a depth of {}", depth.to_string()));
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, rank_of(node, 0) + 1));
  return one_type(dtype_of(node, 2), with_inserted(shape_of(node, 0), axis, depth));
}
Tensors one_hot(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, std::ssize(output_shape(node))));
  const Expr depth = size_expr(output_shape(node)[static_cast<size_t>(axis)]);
  return one(map_output(node, [&](const Indices& i) {
    const Expr index = cast(kI64, in[0](without(i, axis)));
    const Expr wrapped = select(lt(index, Expr(0)), index + depth, index);
    return select(eq(wrapped, i[static_cast<size_t>(axis)]), in[2](Expr(1)), in[2](Expr(0)));
  }));
}

// --- where data decide how much there is

using passes::Lowering;

bool has_unknown_bounds(const Node& node) {
  if (node.inputs.size() != 3 || node.attrs.has("count")) return false;
  return !std::ranges::all_of(node.inputs,
                              [](const Value* bound) { return bound && (bound->is_constant() || bound->content); });
}
// max(⌈(limit - start) / delta⌉, 0) of them
Result<std::vector<Value*>> range_by_data(Lowering& g, const Node& node) {
  std::vector<Value*> inputs = node.inputs;
  Value *start = g.cast(inputs[0], kF64), *limit = g.cast(inputs[1], kF64), *delta = g.cast(inputs[2], kF64);
  Value* steps = g("Ceil", {g("Div", {g("Sub", {limit, start}), delta})});
  // A step of 0 would make it infinite.
  steps = g("Max", {g("Min", {steps, g.number(static_cast<double>(kMaxDim), kF64)}), g.number(0, kF64)});
  inputs.push_back(g.cast(steps, kI64));
  g.make_sizes(inputs[3], 0, kMaxDim);
  return std::vector{g("Range", std::move(inputs))};
}

// A depth may be of any type.
bool has_unknown_depth(const Node& node) {
  const Value* depth = node.input(1);
  return depth && !depth->is_constant() && !depth->content && depth->dtype() != kI64;
}
Result<std::vector<Value*>> one_hot_by_data(Lowering& g, const Node& node) {
  Value* depth = g.cast(node.inputs[1], kI64);
  g.make_sizes(depth, -kMaxDim, kMaxDim);
  return std::vector{g("OneHot", {node.inputs[0], depth, node.inputs[2]}, node.attrs)};
}

constexpr ParamInput depth_param[] = {{1, "", kDims}};  // what is computed does not read it
constexpr ParamInput count_param[] = {{3, "count", kDims}};
constexpr ParamInput shape_param[] = {{0, "shape", kDims}};
constexpr OpDef creation_defs[] = {
    define(kInjective, "ConstantOfShape", {0, 1}, constant_of_shape_type, constant_of_shape,
           {.params = shape_param, .content = constant_of_shape_content, .work = kMoves}),
    // A fourth input is the count, where data decide it.
    passes::by_data<range_by_data, has_unknown_bounds>(
        define(kInjective, "Range", {3, 4}, range_type, range, {.params = count_param, .content = range_content})),
    define(kInjective, "EyeLike", 1, eye_like_type, eye_like),
    passes::by_data<one_hot_by_data, has_unknown_depth>(
        define(kBroadcast, "OneHot", 3, one_hot_type, one_hot, {.params = depth_param, .work = kMoves})),
};

}  // namespace

extern constinit const OpFamily creation_ops{"creation", creation_defs};

}  // namespace fettle
