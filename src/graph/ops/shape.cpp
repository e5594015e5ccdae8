// Operators that rename elements or tell shapes: Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size, Identity.

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "graph/op_util.h"
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
    if (total.is_number() && known.is_number() && total.value() % known.value() != 0)
      return bad_types(node, fmt::format("{} cannot become {}", to_string(in), to_string(*stated)));
    shape[*inferred] = floordiv(total, known);
  }
  const Dim before = element_count(in), after = element_count(shape);
  if (before.is_number() && after.is_number() && !(before == after))
    return bad_types(node, fmt::format("{} cannot become {}", to_string(in), to_string(shape)));
  return one_type(dtype_of(node, 0), std::move(shape));
}

Types flatten_type(const Node& node) {
  const Shape& in = shape_of(node, 0);
  const auto rank = static_cast<int64_t>(in.size());
  int64_t axis = node.attrs.get_int("axis", 1);
  if (axis < -rank || axis > rank)
    return bad_attribute(node, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  if (axis < 0) axis += rank;
  return one_type(dtype_of(node, 0), {element_count(Shape(in.begin(), in.begin() + axis)),
                                      element_count(Shape(in.begin() + axis, in.end()))});
}

Types squeeze_type(const Node& node) {
  FETTLE_TRY(const auto given, ints_param(node, 1, "axes"));
  const Shape& in = shape_of(node, 0);
  std::vector<int64_t> axes;
  if (given) {
    FETTLE_TRY(axes, positive_axes(node, *given, rank_of(node, 0)));
  } else {
    for (size_t d = 0; d < in.size(); ++d) {
      if (!in[d].is_number())
        return fail(ErrorCode::E604, "Squeeze of all dims of extent 1 needs them to be known", node.name);
      if (in[d] == Dim(1)) axes.push_back(static_cast<int64_t>(d));
    }
  }
  Shape shape;
  for (size_t d = 0; d < in.size(); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d)))
      shape.push_back(in[d]);
    else if (in[d].is_number() && !(in[d] == Dim(1)))
      return bad_types(node, fmt::format("dim {} of {} is not 1", d, to_string(in)));
  }
  return one_type(dtype_of(node, 0), std::move(shape));
}

Types unsqueeze_type(const Node& node) {
  FETTLE_TRY(const auto given, ints_param(node, 1, "axes"));
  if (!given) return bad_attribute(node, "no axes are given");
  const Shape& in = shape_of(node, 0);
  const size_t rank = in.size() + given->size();
  FETTLE_TRY(const auto axes, positive_axes(node, *given, static_cast<int64_t>(rank)));
  Shape shape;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d)
    shape.push_back(std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d)) ? Dim(1) : in[next++]);
  return one_type(dtype_of(node, 0), std::move(shape));
}

Tensors same_elements(const Node& node, std::span<const te::Tensor> in) {
  const auto from = *static_shape(shape_of(node, 0)), to = *static_shape(output_shape(node));
  return one(map_output(node, [&](const Indices& i) { return in[0](reshape_indices(from, to, i)); }));
}

std::optional<std::vector<View>> reshape_outputs(const Node& node, const View& input) {
  const auto view = reshaped_view(node.input(0)->extents(), input, node.output()->extents());
  if (!view) return {};
  return {{*view}};
}
std::optional<View> reshape_input(const Node& node, const View& output) {
  return reshaped_view(node.output()->extents(), output, node.input(0)->extents());
}

std::optional<std::vector<Dim>> same_content(const Node& node) {
  return node.outputs[0]->type && node.outputs[0]->rank() <= 1 ? content_of(*node.inputs[0]) : std::nullopt;
}

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

bool always(const Node&) { return true; }
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
Tensors shape_compute(const Node& node, std::span<const te::Tensor>) {
  const auto dims = *shape_content(node);
  return one(map_output(node, [&](const Indices& i) {
    Expr value = 0;
    for (size_t d = dims.size(); d-- > 0;)
      value = select(eq(i[0], Expr(static_cast<int64_t>(d))), Expr(dims[d].value()), value);
    return value;
  }));
}
Types size_type(const Node&) { return one_type(kI64, {}); }
std::optional<std::vector<Dim>> size_content(const Node& node) {
  return std::vector<Dim>{element_count(shape_of(node, 0))};
}
Tensors size_compute(const Node& node, std::span<const te::Tensor>) {
  const int64_t count = element_count(shape_of(node, 0)).value();
  return one(map_output(node, [&](const Indices&) { return Expr(count); }));
}

using Kind = ParamInput::Kind;
constexpr ParamInput shape_param[] = {{1, "shape", Kind::kInts}};
constexpr ParamInput axes_param[] = {{1, "axes", Kind::kInts}};
constexpr auto kInjective = FusionKind::kInjective;
constexpr auto kMoves = ElementWork::kMoves;
constexpr ViewRule reshape_view{reshape_outputs, reshape_input};
constexpr OpDef defs[] = {
    {.name = "Reshape",
     .fusion = kInjective,
     .max_inputs = 2,
     .infer = reshape_type,
     .compute = same_elements,
     .params = shape_param,
     .content = same_content,
     .work = kMoves,
     .is_reshape = true,
     .view = &reshape_view},
    {.name = "Flatten",
     .fusion = kInjective,
     .infer = flatten_type,
     .compute = same_elements,
     .work = kMoves,
     .is_reshape = true,
     .view = &reshape_view},
    {.name = "Squeeze",
     .fusion = kInjective,
     .max_inputs = 2,
     .infer = squeeze_type,
     .compute = same_elements,
     .params = axes_param,
     .content = same_content,
     .work = kMoves,
     .is_reshape = true,
     .view = &reshape_view},
    {.name = "Unsqueeze",
     .fusion = kInjective,
     .max_inputs = 2,
     .infer = unsqueeze_type,
     .compute = same_elements,
     .params = axes_param,
     .content = same_content,
     .work = kMoves,
     .is_reshape = true,
     .view = &reshape_view},
    {.name = "Identity",
     .fusion = FusionKind::kElementwise,
     .infer = same_type,
     .compute = identity,
     .content = same_content,
     .work = kMoves,
     .is_pointwise = true,
     .view = &reshape_view,
     .is_copy = always},
    {.name = "Dropout",
     .fusion = FusionKind::kElementwise,
     .infer = dropout_type,
     .compute = dropout,
     .n_outputs = 2,
     .work = kMoves,
     .is_copy = dropout_copies},
    {.name = "Shape",
     .fusion = FusionKind::kOpaque,
     .infer = shape_type,
     .compute = shape_compute,
     .content = shape_content},
    {.name = "Size",
     .fusion = FusionKind::kOpaque,
     .infer = size_type,
     .compute = size_compute,
     .content = size_content},
};

}  // namespace

extern constinit const OpFamily shape_ops{"shape", defs};

}  // namespace fettle
