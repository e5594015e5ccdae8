// Elements by places that tensors hold: ScatterElements, ScatterND, GatherND, ReverseSequence, TopK.

#include <fmt/format.h>

#include "graph/op_util.h"
#include "ir/stmt.h"

namespace fettle {
namespace {

using namespace ops;

// --- scattering: a copy of the data, then one update after the other. Places beyond the data are left out.

Result<> check_reduction(const Node& node) {
  const std::string reduction = node.attrs.get_string("reduction", "none");
  for (const char* known : {"none", "add", "mul", "max", "min"})
    if (reduction == known) return {};
  return bad_attribute(node, "reduction is " + reduction);
}

Expr reduced(const Node& node, const Expr& old, const Expr& update) {
  const std::string reduction = node.attrs.get_string("reduction", "none");
  return reduction == "add"   ? old + update
         : reduction == "mul" ? old * update
         : reduction == "max" ? max(old, update)
         : reduction == "min" ? min(old, update)
                              : update;
}

Stmt loops(const std::vector<Expr>& extents, const std::function<Stmt(const Indices& i)>& body) {
  std::vector<Var> vars;
  for (size_t d = 0; d < extents.size(); ++d) vars.push_back(make_var(fmt::format("i{}", d)));
  Stmt s = body({vars.begin(), vars.end()});
  for (size_t d = extents.size(); d-- > 0;) s = make_for(vars[d], 0, extents[d], s);
  return s;
}

/// place: where the update at an index goes; inside: whether it is in the data (null: always).
struct Place {
  Indices at;
  Expr inside;
};
Tensors scattered(const Node& node, std::span<const te::Tensor> in,
                  const std::function<Place(const Indices& i)>& place) {
  const te::Tensor &data = in[0], &updates = in[2];
  return te::opaque(
      {in.begin(), in.end()}, {{data.shape(), data.dtype()}},
      [&](const std::vector<Buffer>& out) {
        const Stmt copy = loops(data.shape(), [&](const Indices& i) { return store(out[0], i, data(i)); });
        const Stmt scatter = loops(updates.shape(), [&](const Indices& i) {
          const Place p = place(i);
          const Stmt update = store(out[0], p.at, reduced(node, load(out[0], p.at), updates(i)));
          return p.inside ? if_then(p.inside, update) : update;
        });
        return seq({copy, scatter});
      },
      tensor_name(node));
}

// An index that may count from the end, and whether it is one.
Expr from_front(const Expr& index, const Expr& extent, Expr& inside) {
  const Expr k = cast(kI64, index), wrapped = select(lt(k, Expr(0)), k + extent, k);
  inside = logical_and(inside, logical_and(le(Expr(0), wrapped), lt(wrapped, extent)));
  return wrapped;
}

Result<> check_indices(const Node& node) {
  if (!dtype_of(node, 1).is_int()) return bad_types(node, "the indices are not integers");
  if (node.inputs.size() > 2 && dtype_of(node, 2) != dtype_of(node, 0))
    return bad_types(node, "the updates are of another type than the data");
  return {};
}

Types scatter_elements_type(const Node& node) {
  FETTLE_TRY_VOID(check_reduction(node));
  FETTLE_TRY_VOID(check_indices(node));
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  for (const size_t i : {1, 2}) FETTLE_TRY_VOID(check_rank(node, i, rank_of(node, 0), rank_of(node, 0)));
  for (size_t d = 0; d < shape_of(node, 0).size(); ++d) {
    FETTLE_TRY_VOID(common_dim(node, shape_of(node, 1)[d], shape_of(node, 2)[d], "indices and updates"));
    if (static_cast<int64_t>(d) == axis) continue;
    if (shape_of(node, 0)[d].max() < shape_of(node, 1)[d].min())
      return bad_types(node, "there are more indices than data");
    note_not_negative(node, shape_of(node, 0)[d] - shape_of(node, 1)[d], fmt::format("dim {} of the indices", d));
  }
  return same_type(node);
}
Tensors scatter_elements(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, in[0].rank()));
  return scattered(node, in, [&](const Indices& i) {
    Place p;
    p.at = with_replaced(i, axis, from_front(in[1](i), in[0].dim(static_cast<int>(axis)), p.inside));
    return p;
  });
}

// The last dim of the indices has the first coordinates, behind `batch` dims that all have.
Result<int64_t> coordinates(const Node& node, int64_t batch) {
  FETTLE_TRY_VOID(check_indices(node));
  FETTLE_TRY_VOID(check_rank(node, 1, 1));
  const Dim& n = shape_of(node, 1).back();
  if (!n.is_number())
    return not_known(node, fmt::format("{}: the last extent of the indices must be fixed", node.op->name));
  if (n.value() + batch > rank_of(node, 0))
    return bad_types(node, fmt::format("{} coordinates of data with {} dims", n.value(), rank_of(node, 0)));
  return n.value();
}

Types scatter_nd_type(const Node& node) {
  FETTLE_TRY_VOID(check_reduction(node));
  FETTLE_TRY(const int64_t n, coordinates(node, 0));
  const Shape &data = shape_of(node, 0), &indices = shape_of(node, 1);
  const Shape wanted = joined(Shape(indices.begin(), indices.end() - 1), Shape(data.begin() + n, data.end()));
  FETTLE_TRY_VOID(check_rank(node, 2, static_cast<int>(wanted.size()), static_cast<int>(wanted.size())));
  for (size_t d = 0; d < wanted.size(); ++d)
    FETTLE_TRY_VOID(common_dim(node, wanted[d], shape_of(node, 2)[d], fmt::format("dim {} of the updates", d)));
  return same_type(node);
}
Tensors scatter_nd(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t n, coordinates(node, 0));
  return scattered(node, in, [&](const Indices& i) {
    const auto inner = i.begin() + in[1].rank() - 1;
    Place p;
    for (int64_t c = 0; c < n; ++c)
      p.at.push_back(from_front(in[1](joined(Indices(i.begin(), inner), Indices{Expr(c)})),
                                in[0].dim(static_cast<int>(c)), p.inside));
    p.at.insert(p.at.end(), inner, i.end());
    return p;
  });
}

Types gather_nd_type(const Node& node) {
  const int64_t batch = node.attrs.get_int("batch_dims", 0);
  if (batch < 0 || batch >= std::min(rank_of(node, 0), rank_of(node, 1)))
    return bad_attribute(node, fmt::format("batch_dims is {}", batch));
  FETTLE_TRY(const int64_t n, coordinates(node, batch));
  const Shape &data = shape_of(node, 0), &indices = shape_of(node, 1);
  for (size_t d = 0; d < static_cast<size_t>(batch); ++d)
    FETTLE_TRY_VOID(common_dim(node, data[d], indices[d], "batches"));
  for (auto d = static_cast<size_t>(batch); d < static_cast<size_t>(batch + n); ++d)
    note_not_negative(node, data[d] - min(element_count(indices), 1), "places to gather from");
  return same_dtype(node,
                    joined(Shape(indices.begin(), indices.end() - 1), Shape(data.begin() + batch + n, data.end())));
}
// An index beyond the data reads its first or last element, as Gather does.
Tensors gather_nd(const Node& node, std::span<const te::Tensor> in) {
  const int64_t batch = node.attrs.get_int("batch_dims", 0);
  FETTLE_TRY(const int64_t n, coordinates(node, batch));
  return one(map_output(node, [&](const Indices& i) {
    const auto inner = i.begin() + in[1].rank() - 1;
    Indices at(i.begin(), i.begin() + batch);
    for (int64_t c = 0; c < n; ++c) {
      const Expr extent = in[0].dim(static_cast<int>(batch + c));
      const Expr k = cast(kI64, in[1](joined(Indices(i.begin(), inner), Indices{Expr(c)})));
      at.push_back(clamp(select(lt(k, Expr(0)), k + extent, k), Expr(0), extent - Expr(1)));
    }
    at.insert(at.end(), inner, i.end());
    return in[0](at);
  }));
}
bool may_have_no_places(const Node& node) {
  const auto n = coordinates(node, node.attrs.get_int("batch_dims", 0));
  const Shape& data = shape_of(node, 0);
  return !n || std::ranges::any_of(data, [](const Dim& d) { return d.min() < 1; });
}

// --- ReverseSequence: of each batch, the first `lengths[batch]` steps backwards

Types reverse_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  FETTLE_TRY_VOID(check_rank(node, 1, 1, 1));
  const int64_t batch = node.attrs.get_int("batch_axis", 1), time = node.attrs.get_int("time_axis", 0);
  if (batch + time != 1 || batch * time != 0)
    return bad_attribute(node, fmt::format("batch_axis {} and time_axis {} are not 0 and 1", batch, time));
  FETTLE_TRY_VOID(common_dim(node, shape_of(node, 0)[static_cast<size_t>(batch)], shape_of(node, 1)[0], "batches"));
  return same_type(node);
}
Tensors reverse_sequence(const Node& node, std::span<const te::Tensor> in) {
  const auto batch = static_cast<size_t>(node.attrs.get_int("batch_axis", 1));
  const size_t time = 1 - batch;
  return one(map_output(node, [&](const Indices& i) {
    const Expr length = min(cast(kI64, in[1](i[batch])), in[0].dim(static_cast<int>(time)));
    const Expr t = i[time];
    return in[0](with_replaced(i, static_cast<int64_t>(time), select(lt(t, length), length - Expr(1) - t, t)));
  }));
}

// --- TopK: each element's rank is how many come before it; the k-th is where the rank is k. Of equal elements the first
// comes first; NaN counts as the greatest number.

Types top_k_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY(const auto k, dims_param(node, 1, "k"));
  if (!k || k->size() != 1) return bad_attribute(node, "k is not one number");
  FETTLE_TRY(const int64_t axis, axis_of(node, -1));
  const Dim& extent = shape_of(node, 0)[static_cast<size_t>(axis)];
  if (k->front().max() < 0 || extent.max() < k->front().min())
    return bad_attribute(node, fmt::format("k is {} of {}", k->front().to_string(), extent.to_string()));
  note_not_negative(node, k->front(), "k");
  note_not_negative(node, extent - k->front(), "elements beyond the first k");
  Shape shape = with_replaced(shape_of(node, 0), axis, k->front());
  return std::vector<TensorType>{{dtype_of(node, 0), shape}, {kI64, shape}};
}
Tensors top_k(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, x.rank()));
  const auto a = static_cast<size_t>(axis);
  const bool largest = node.attrs.get_int("largest", 1) != 0;
  const Expr extent = x.dim(static_cast<int>(axis));
  const bool is_float = x.dtype().is_float();
  const te::Tensor rank = reduce_over(
      te::sum, x.shape(), {te::reduce_axis(extent, "k")},
      [&](const Indices& i, const Indices& k) {
        const Expr own = x(i), other = x(with_replaced(i, axis, k[0]));
        Expr is_before = largest ? gt(other, own) : lt(other, own), is_equal = eq(other, own);
        if (is_float) {
          const Expr own_nan = call("isnan", {own}, kBool), other_nan = call("isnan", {other}, kBool);
          const Expr beyond =
              largest ? logical_and(other_nan, logical_not(own_nan)) : logical_and(own_nan, logical_not(other_nan));
          is_before = logical_or(is_before, beyond);
          is_equal = logical_or(is_equal, logical_and(own_nan, other_nan));
        }
        const Expr comes_first = logical_or(is_before, logical_and(is_equal, lt(k[0], i[a])));
        return select(comes_first, Expr(1), Expr(0));
      },
      "rank");
  const te::Tensor place = reduce_over(
      te::sum, size_exprs(output_shape(node, 1)), {te::reduce_axis(extent, "k")},
      [&](const Indices& i, const Indices& k) {
        return select(eq(rank(with_replaced(i, axis, k[0])), i[a]), k[0], Expr(0));
      },
      "place");
  std::vector<te::Tensor> outputs{map_output(
      node, [&](const Indices& i) { return x(with_replaced(i, axis, clamp(place(i), Expr(0), extent - Expr(1)))); })};
  if (node.outputs.size() > 1) outputs.push_back(map_output(node, [&](const Indices& i) { return place(i); }, 1));
  return outputs;
}

constexpr ParamInput k_params[] = {{1, "k", kDims}};
constexpr OpDef defs[] = {
    define(kOpaque, "ScatterElements", 3, scatter_elements_type, scatter_elements),
    define(kOpaque, "ScatterND", 3, scatter_nd_type, scatter_nd),
    define(kInjective, "GatherND", 2, gather_nd_type, gather_nd, {.work = kMoves, .is_partial = may_have_no_places}),
    define(kInjective, "ReverseSequence", 2, reverse_type, reverse_sequence, {.work = kMoves}),
    define(kReduction, "TopK", {1, 2}, top_k_type, top_k, {.params = k_params, .n_outputs = 2}),
};

}  // namespace

extern constinit const OpFamily scatter_ops{"scatter", defs};

}  // namespace fettle
