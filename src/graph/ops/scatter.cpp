// Operators that write where data say: ScatterElements, ScatterND, windows, MaxUnpool. Where an index is outside,
// nothing is written.

#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/placed_windows.h"

namespace fettle {
namespace {

using namespace ops;

// --- how an update meets the element that is there

struct Combination {
  std::string_view name;
  te::CombineFn combine;  // null: the update alone
};
Result<Combination> combination(const Node& node) {
  const std::string name = node.attrs.get_string("reduction", "none");
  const auto by = [](BinaryOp op) {
    return [op](const Expr& old, const Expr& value) { return binary(op, old, value); };
  };
  const std::vector<Combination> all{{"none", nullptr},
                                     {"add", by(BinaryOp::kAdd)},
                                     {"mul", by(BinaryOp::kMul)},
                                     {"max", by(BinaryOp::kMax)},
                                     {"min", by(BinaryOp::kMin)}};
  const auto found = std::ranges::find(all, name, &Combination::name);
  if (found == all.end())
    return bad_attribute(node, fmt::format("reduction \"{}\" is none of none, add, mul, max and min", name));
  if (found->combine && dtype_of(node, 0) == kBool)
    return bad_types(node, fmt::format("elements that are true or false have no reduction \"{}\"", name));
  return *found;
}
// Data and updates of one type, and indices that are integers.
Result<> check_scattered(const Node& node) {
  FETTLE_TRY_VOID(combination(node));
  if (!dtype_of(node, 1).is_int()) return bad_types(node, "the indices are not integers");
  if (dtype_of(node, 0) != dtype_of(node, 2)) return bad_types(node, "data and updates differ in their element type");
  return {};
}
te::ElementFn elements_of(const te::Tensor& t) {
  return [t](const std::vector<Var>& i) -> te::Body { return t(i); };
}

// --- ScatterElements(data, indices, updates) {axis, reduction}

Types scatter_elements_type(const Node& node) {
  FETTLE_TRY_VOID(axis_of(node, 0));
  FETTLE_TRY_VOID(check_scattered(node));
  for (const size_t i : {1, 2}) FETTLE_TRY_VOID(check_rank(node, i, rank_of(node, 0), rank_of(node, 0)));
  for (size_t d = 0; d < shape_of(node, 0).size(); ++d)
    FETTLE_TRY_VOID(
        common_dim(node, shape_of(node, 1)[d], shape_of(node, 2)[d], fmt::format("dim {} of indices and updates", d)));
  return same_type(node);
}
Tensors scatter_elements(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, in[0].rank()));
  FETTLE_TRY(const Combination how, combination(node));
  return one(te::scatter(
      in[0].shape(), elements_of(in[0]), in[1].shape(),
      [&](const std::vector<Var>& u) {
        const Expr place = from_either_end(in[1](u), in[0].dim(static_cast<int>(axis)));
        return te::Update{with_replaced(to_indices(u), axis, place), in[2](u)};
      },
      how.combine, tensor_name(node)));
}

// --- ScatterND(data, indices, updates) {reduction}: the last dim of the indices is a place in the data's first dims

Result<size_t> places_of(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY_VOID(check_rank(node, 1, 1));
  const Dim& last = shape_of(node, 1).back();
  if (!last.is_number())
    return not_known(node,
                     "the last extent of the indices of ScatterND must be a number: it says how many dims they name");
  if (last.value() < 1 || last.value() > rank_of(node, 0))
    return bad_types(node, fmt::format("indices of {} dims, and the data has {}", last.value(), rank_of(node, 0)));
  return static_cast<size_t>(last.value());
}
Types scatter_nd_type(const Node& node) {
  FETTLE_TRY(const size_t places, places_of(node));
  FETTLE_TRY_VOID(check_scattered(node));
  const Shape &data = shape_of(node, 0), &indices = shape_of(node, 1);
  Shape want(indices.begin(), indices.end() - 1);
  want.insert(want.end(), data.begin() + static_cast<std::ptrdiff_t>(places), data.end());
  FETTLE_TRY_VOID(check_rank(node, 2, static_cast<int>(want.size()), static_cast<int>(want.size())));
  for (size_t d = 0; d < want.size(); ++d)
    FETTLE_TRY_VOID(common_dim(node, want[d], shape_of(node, 2)[d], fmt::format("dim {} of the updates", d)));
  return same_type(node);
}
Tensors scatter_nd(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const size_t places, places_of(node));
  FETTLE_TRY(const Combination how, combination(node));
  const auto batch = static_cast<std::ptrdiff_t>(in[1].rank() - 1);
  return one(te::scatter(
      in[0].shape(), elements_of(in[0]),
      joined({in[1].shape().begin(), in[1].shape().begin() + batch},
             std::vector<Expr>(in[0].shape().begin() + static_cast<std::ptrdiff_t>(places), in[0].shape().end())),
      [&](const std::vector<Var>& u) {
        Indices at;
        for (size_t k = 0; k < places; ++k) {
          const Indices index = joined(Indices(u.begin(), u.begin() + batch), {Expr(static_cast<int64_t>(k))});
          at.push_back(from_either_end(in[1](index), in[0].dim(static_cast<int>(k))));
        }
        at.insert(at.end(), u.begin() + batch, u.end());
        return te::Update{std::move(at), in[2](u)};
      },
      how.combine, tensor_name(node)));
}

// --- MaxUnpool(x, indices, output_shape) {kernel_shape, strides, pads}: the indices count the elements of the shape
// that the attributes say, of which the output is a part or more

Result<Shape> unpooled(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  Shape shape = shape_of(node, 0);
  const size_t n = shape.size() - 2;
  const auto kernel = node.attrs.get_ints("kernel_shape", {});
  const auto strides = node.attrs.get_ints("strides", std::vector<int64_t>(n, 1));
  const auto pads = node.attrs.get_ints("pads", std::vector<int64_t>(2 * n, 0));
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n)
    return bad_attribute(node, fmt::format("kernel_shape, strides and pads do not fit {} spatial dims", n));
  for (size_t d = 0; d < n; ++d) {
    if (kernel[d] < 1 || strides[d] < 1) return bad_attribute(node, "an extent or a step of the window is less than 1");
    shape[d + 2] = (shape[d + 2] - 1) * strides[d] - (pads[d] + pads[d + n]) + kernel[d];
    if (shape[d + 2].max() < 0) return bad_attribute(node, "the pads are larger than what is unpooled");
    note_not_negative(node, shape[d + 2], "an extent that is unpooled");
  }
  return shape;
}
Types max_unpool_type(const Node& node) {
  FETTLE_TRY(Shape inferred, unpooled(node));
  FETTLE_TRY(const auto given, dims_param(node, 2, "output_shape"));
  if (!dtype_of(node, 1).is_int()) return bad_types(node, "the indices are not integers");
  FETTLE_TRY_VOID(check_rank(node, 1, rank_of(node, 0), rank_of(node, 0)));
  for (size_t d = 0; d < inferred.size(); ++d)
    FETTLE_TRY_VOID(common_dim(node, shape_of(node, 0)[d], shape_of(node, 1)[d], fmt::format("dim {}", d)));
  if (!given) return same_dtype(node, std::move(inferred));
  if (given->size() != inferred.size()) return bad_attribute(node, "output_shape has another rank than the input");
  for (const Dim& d : *given) note_not_negative(node, d, "an extent of output_shape");
  return same_dtype(node, *given);
}
Tensors max_unpool(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Shape counted, unpooled(node));
  std::vector<Expr> shape;
  for (const Dim& d : output_shape(node)) shape.push_back(size_expr(d));
  const Expr nothing = constant(0, in[0].dtype());
  return one(te::scatter(
      std::move(shape), [&](const std::vector<Var>&) -> te::Body { return nothing; }, in[0].shape(),
      [&](const std::vector<Var>& u) {
        Expr rest = cast(kI64, in[1](u));
        Indices at(counted.size());
        for (size_t d = counted.size(); d-- > 0;) {
          const Expr extent = divisor_expr(counted[d]);
          at[d] = d == 0 ? rest : floormod(rest, extent);
          rest = floordiv(rest, extent);
        }
        return te::Update{std::move(at), in[0](u)};
      },
      nullptr, tensor_name(node)));
}

// --- ScatterWindows(data, indices, updates) {reduction, and where windows lie: placed_windows.h}. Of Fettle's own.

Types scatter_windows_type(const Node& node) {
  FETTLE_TRY_VOID(check_scattered(node));
  FETTLE_TRY_VOID(read_placed_windows(node, type_of(node, 0), type_of(node, 1)));
  return same_type(node);
}
Tensors scatter_windows(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const PlacedWindows windows, read_placed_windows(node, type_of(node, 0), type_of(node, 1)));
  FETTLE_TRY(const Combination how, combination(node));
  const size_t rank = in[0].shape().size();
  return one(te::scatter(
      in[0].shape(), elements_of(in[0]), in[2].shape(),
      [&](const std::vector<Var>& u) {
        const WindowIndex index = window_index(windows, to_indices(u), rank);
        Indices place = window_start(windows, in[1], index.place, rank);
        for (size_t d = 0; d < rank; ++d)
          place[d] = is_zero(place[d])             ? index.in_window[d]
                     : is_zero(index.in_window[d]) ? place[d]
                                                   : place[d] + index.in_window[d];
        return te::Update{std::move(place), in[2](u)};
      },
      how.combine, tensor_name(node)));
}

// Updates take the place of what was there, and are not added to it.
bool replaces(const Node& node) { return node.attrs.get_string("reduction", "none") == "none"; }

constexpr ParamInput output_shape_param[] = {{2, "output_shape", kDims}};
constexpr OpDef scatter_defs[] = {
    define(kOpaque, "ScatterElements", 3, scatter_elements_type, scatter_elements, {.takes_strings = replaces}),
    define(kOpaque, "ScatterND", 3, scatter_nd_type, scatter_nd, {.takes_strings = replaces}),
    define(kOpaque, "ScatterWindows", 3, scatter_windows_type, scatter_windows, {.takes_strings = replaces}),
    define(kOpaque, "MaxUnpool", {2, 3}, max_unpool_type, max_unpool, {.params = output_shape_param}),
};

}  // namespace

extern constinit const OpFamily scatter_ops{"scatter", scatter_defs};

}  // namespace fettle
