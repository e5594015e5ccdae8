// Operators that rename elements or tell shapes: Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size, Identity.

#include <fmt/format.h>

#include <algorithm>

#include "graph/op_util.h"
#include "graph/passes/data_axes.h"
#include "graph/view.h"

namespace fettle {
namespace {

using namespace ops;

// --- Reshape and its special forms: the same elements in the same order

Types reshape_type(const Node& node) {
  FETTLE_TRY(const auto stated, dims_param(node, 1, "shape"));
  if (!stated) return bad_attribute(node, "no shape is given");
  const Shape& in = shape_of(node, 0);
  const bool allow_zero = node.attrs.get_int("allowzero", 0) != 0;
  Shape shape;
  std::optional<size_t> inferred;
  for (size_t d = 0; d < stated->size(); ++d) {
    const Dim& dim = (*stated)[d];
    if (dim == Dim(-1)) {
      if (inferred) return bad_attribute(node, "two dims of the shape are -1");
      inferred = d;
      shape.push_back(1);
    } else if (dim == Dim(0) && !allow_zero) {
      if (d >= in.size())
        return bad_attribute(node, fmt::format("dim {} of the shape is 0, but the input has rank {}", d, in.size()));
      shape.push_back(in[d]);
    } else {
      if (dim.max() < 0) return bad_attribute(node, fmt::format("a dim of the shape is {}", dim.to_string()));
      shape.push_back(dim);
    }
  }
  if (inferred) {
    // Dims that both sides have cancel, so that [N, 120, 1, 40] → [N, 120, -1] is known.
    Shape rest_in = in, rest_out;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d == *inferred) continue;
      const auto it = shape[d].is_number() ? rest_in.end() : std::find(rest_in.begin(), rest_in.end(), shape[d]);
      if (it != rest_in.end())
        rest_in.erase(it);
      else
        rest_out.push_back(shape[d]);
    }
    const Dim total = element_count(rest_in), known = element_count(rest_out);
    if (known == Dim(0)) return bad_attribute(node, "a dim is -1 while another is 0");
    if (known.is_number() && !may_divide(known.value(), total))
      return bad_types(node, fmt::format("{} cannot become {}", to_string(in), to_string(*stated)));
    shape[*inferred] = floordiv(total, known);
    note_equal(node, shape[*inferred] * known, total, "the shape with -1");
  }
  if (!may_equal(element_count(in), element_count(shape)))
    return bad_types(node, fmt::format("{} cannot become {}", to_string(in), to_string(shape)));
  if (!inferred) note_equal(node, element_count(in), element_count(shape), "numbers of elements");
  return same_dtype(node, std::move(shape));
}

Types flatten_type(const Node& node) {
  const Shape& in = shape_of(node, 0);
  const auto rank = static_cast<int64_t>(in.size());
  int64_t axis = node.attrs.get_int("axis", 1);
  if (axis < -rank || axis > rank)
    return bad_attribute(node, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  if (axis < 0) axis += rank;
  return same_dtype(
      node, {element_count(Shape(in.begin(), in.begin() + axis)), element_count(Shape(in.begin() + axis, in.end()))});
}

Types squeeze_type(const Node& node) {
  FETTLE_TRY(const auto given, ints_param(node, 1, "axes"));
  const Shape& in = shape_of(node, 0);
  std::vector<int64_t> axes;
  if (given) {
    FETTLE_TRY(axes, positive_axes(node, *given, rank_of(node, 0)));
  } else {
    for (size_t d = 0; d < in.size(); ++d) {
      if (in[d] == Dim(1))
        axes.push_back(static_cast<int64_t>(d));
      else if (may_equal(in[d], 1) && is_signed_by_data(in[d]))  // no range can be stated of it
        note_not_negative(node, in[d] - 2, "extents beyond 1, which a Squeeze without axes keeps");
      else if (may_equal(in[d], 1))
        return not_known(node,
                         fmt::format("Squeeze without axes: dim {} of {} must be fixed, or never 1", d, to_string(in)));
    }
  }
  Shape shape;
  for (size_t d = 0; d < in.size(); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d)))
      shape.push_back(in[d]);
    else if (!may_equal(in[d], 1))
      return bad_types(node, fmt::format("dim {} of {} is not 1", d, to_string(in)));
    else
      note_equal(node, in[d], 1, "an extent that is squeezed");
  }
  return same_dtype(node, std::move(shape));
}

Types unsqueeze_type(const Node& node) {
  FETTLE_TRY(const auto given, ints_param(node, 1, "axes"));
  if (!given) return bad_attribute(node, "no axes are given");
  Shape shape = shape_of(node, 0);
  FETTLE_TRY(const auto axes, positive_axes(node, *given, std::ssize(shape) + std::ssize(*given)));
  for (const int64_t axis : axes) shape = with_inserted(shape, axis, 1);
  return same_dtype(node, std::move(shape));
}

Tensors same_elements(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(
      node, [&](const Indices& i) { return in[0](reshape_indices(shape_of(node, 0), output_shape(node), i)); }));
}

std::optional<std::vector<View>> reshape_outputs(const Node& node, const View& input) {
  const auto view = reshaped_view(node.input(0)->shape(), input, node.output()->shape());
  if (!view) return {};
  return {{*view}};
}
std::optional<View> reshape_input(const Node& node, const View& output) {
  return reshaped_view(node.output()->shape(), output, node.input(0)->shape());
}

std::optional<std::vector<Dim>> same_content(const Node& node) { return content_of(*node.inputs[0]); }

// --- Identity; Dropout while the model only runs: the input, and a mask that keeps all

Tensors identity(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) { return in[0](i); }));
}
Types dropout_type(const Node& node) { return std::vector<TensorType>{type_of(node, 0), {kBool, shape_of(node, 0)}}; }
Tensors dropout(const Node& node, std::span<const te::Tensor> in) {
  std::vector<te::Tensor> out{map_output(node, [&](const Indices& i) { return in[0](i); })};
  out.push_back(te::compute(in[0].shape(), [](const std::vector<Var>&) { return bool_imm(true); }, "mask"));
  return out;
}

bool dropout_copies(const Node& node) { return node.outputs.size() == 1; }

// --- Shape, Size: contents that shape inference turns into constants

std::pair<int64_t, int64_t> shape_slice(const Node& node) {
  const int64_t rank = rank_of(node, 0);
  const auto place = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = place(node.attrs.get_int("start", 0));
  return {start, std::max(start, place(node.attrs.get_int("end", rank)))};
}
Types shape_type(const Node& node) {
  const auto [start, end] = shape_slice(node);
  return one_type(kI64, {Dim(end - start)});
}
std::optional<std::vector<Dim>> shape_content(const Node& node) {
  const auto [start, end] = shape_slice(node);
  return std::vector<Dim>(shape_of(node, 0).begin() + start, shape_of(node, 0).begin() + end);
}
te::Tensor dims_tensor(const Node& node, const std::vector<Dim>& dims) {
  return map_output(node, [&](const Indices& i) {
    Expr value = 0;
    for (size_t d = dims.size(); d-- > 0;)
      value = select(eq(i[0], Expr(static_cast<int64_t>(d))), size_expr(dims[d]), value);
    return value;
  });
}
Tensors shape_compute(const Node& node, std::span<const te::Tensor>) {
  return one(dims_tensor(node, *shape_content(node)));
}
// SizeList {sizes}: dims as integers
Types size_list_type(const Node& node) {
  FETTLE_TRY(const auto sizes, dims_param(node, 0, "sizes"));
  if (!sizes) return bad_attribute(node, "no sizes are given");
  return one_type(kI64, {Dim(std::ssize(*sizes))});
}
std::optional<std::vector<Dim>> size_list_content(const Node& node) {
  const auto sizes = dims_param(node, 0, "sizes");
  return sizes ? *sizes : std::nullopt;
}
Tensors size_list(const Node& node, std::span<const te::Tensor>) {
  return one(dims_tensor(node, *size_list_content(node)));
}

Types size_type(const Node&) { return one_type(kI64, {}); }
std::optional<std::vector<Dim>> size_content(const Node& node) {
  return std::vector<Dim>{element_count(shape_of(node, 0))};
}
Tensors size_compute(const Node& node, std::span<const te::Tensor>) {
  return one(map_output(node, [&](const Indices&) { return size_expr(element_count(shape_of(node, 0))); }));
}

// --- Reshape where data decide

using passes::Lowering;

// By a shape among whose numbers data may put 0 or -1.
bool is_signed_reshape(const Node& node) {
  const auto stated = has_input(node, 1) ? content_of(*node.inputs[1]) : std::nullopt;
  return stated && std::ranges::any_of(*stated, is_signed_by_data);
}

/// An extent is the number that the data state; that of the input where this is 0; what the others leave where it is
/// -1. Those that data decide become sizes, with a rule that all of them together have the input's elements.
Result<std::vector<Value*>> reshape_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  const Shape& in = x->shape();
  const std::vector<Dim> stated = *content_of(*node.inputs[1]);
  const bool allow_zero = node.attrs.get_int("allowzero", 0) != 0;
  Value* shape = g.cast(node.inputs[1], kI64);
  Value *zero = g.index(0), *one = g.index(1);
  if (!allow_zero) {
    std::vector<Value*> extents;
    Value* all = g("Shape", {x});
    for (size_t d = 0; d < stated.size(); ++d)
      extents.push_back(d < in.size() ? g("Gather", {all, g.ints({static_cast<int64_t>(d)})}) : g.ints({0}));
    Value* before = g("Concat", std::move(extents), {{{"axis", int64_t{0}}}});
    shape = g("Where", {g("Equal", {shape, zero}), before, shape});
  }
  Value* is_open = g("Equal", {shape, g.index(-1)});
  Value* product = g("ReduceProd", {g("Where", {is_open, one, shape})}, {{{"keepdims", int64_t{0}}}});
  Value* rest = g("Div", {g("Size", {x}), g("Max", {product, one})});
  Shape dims;
  for (size_t d = 0; d < stated.size(); ++d) {
    const bool is_kept = stated[d] == Dim(0) && !allow_zero && d < in.size();
    if (is_kept || !(is_signed_by_data(stated[d]) || stated[d].min() < 0))
      dims.push_back(is_kept ? in[d] : stated[d]);
    else
      dims.push_back(fresh_size(fmt::format("{}.{}", node.name, d), 0, kMaxDim));
  }
  g.make_sizes(g("Where", {is_open, rest, shape}), dims);
  return std::vector{g.reshape(x, dims)};
}

constexpr ParamInput shape_param[] = {{1, "shape", kDims}};
constexpr ParamInput axes_param[] = {{1, "axes", kInts}};
constexpr ViewRule reshape_view{reshape_outputs, reshape_input};
constexpr OpDef reshaping(std::string_view name, InputCount inputs, Infer infer, OpDef traits) {
  traits.work = kMoves;
  traits.is_reshape = true;
  traits.view = &reshape_view;
  return define(kInjective, name, inputs, infer, same_elements, traits);
}
constexpr OpDef shape_defs[] = {
    passes::by_data<reshape_by_data, is_signed_reshape>(
        reshaping("Reshape", {1, 2}, reshape_type, {.params = shape_param, .content = same_content})),
    reshaping("Flatten", 1, flatten_type, {}),
    passes::by_data<passes::squeeze_by_data>(
        reshaping("Squeeze", {1, 2}, squeeze_type, {.params = axes_param, .content = same_content})),
    passes::by_data<passes::unsqueeze_by_data>(
        reshaping("Unsqueeze", {1, 2}, unsqueeze_type, {.params = axes_param, .content = same_content})),
    define(kElementwise, "Identity", 1, same_type, identity,
           {.content = same_content, .work = kMoves, .is_pointwise = true, .view = &reshape_view, .is_copy = always}),
    define(kElementwise, "Dropout", 1, dropout_type, dropout,
           {.n_outputs = 2, .work = kMoves, .is_copy = dropout_copies}),
    define(kOpaque, "Shape", 1, shape_type, shape_compute, {.content = shape_content, .takes_strings = always}),
    define(kOpaque, "SizeList", 0, size_list_type, size_list, {.content = size_list_content}),
    define(kOpaque, "Size", 1, size_type, size_compute, {.content = size_content, .takes_strings = always}),
};

}  // namespace

extern constinit const OpFamily shape_ops{"shape", shape_defs};

}  // namespace fettle
