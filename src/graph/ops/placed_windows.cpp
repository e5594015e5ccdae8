// Gather and Scatter of windows, with batches, in any order of dims.

#include "graph/ops/placed_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace fettle {
namespace ops {

using passes::LoopBuilder;
using passes::Lowering;

Attrs PlacedWindows::attrs() const {
  return {{"window_dims", window_dims}, {"collapsed_dims", collapsed_dims},
          {"batch_dims", batch_dims},   {"index_batch_dims", index_batch_dims},
          {"index_map", index_map},     {"index_vector_dim", index_vector_dim}};
}

std::vector<int64_t> PlacedWindows::kept_dims(size_t rank) const {
  std::vector<int64_t> kept;
  for (const int64_t d : first_numbers(rank))
    if (std::ranges::count(collapsed_dims, d) + std::ranges::count(batch_dims, d) == 0) kept.push_back(d);
  return kept;
}

Shape places_of(const PlacedWindows& w, const Shape& indices) {
  return w.index_vector_dim == std::ssize(indices) ? indices : without(indices, w.index_vector_dim);
}

Result<PlacedWindows> read_placed_windows(const Node& node, const TensorType& operand, const TensorType& indices) {
  PlacedWindows w;
  const auto rank = std::ssize(operand.shape), index_rank = std::ssize(indices.shape);
  if (!indices.dtype.is_int()) return bad_types(node, "the indices are not integers");
  w.index_vector_dim = node.attrs.get_int("index_vector_dim", index_rank);
  if (w.index_vector_dim < 0 || w.index_vector_dim > index_rank)
    return bad_attribute(node,
                         fmt::format("index_vector_dim is {} of indices of {} dims", w.index_vector_dim, index_rank));
  const auto list = [&](const char* name, int64_t of) -> Result<std::vector<int64_t>> {
    std::vector<int64_t> dims = node.attrs.get_ints(name);
    FETTLE_TRY_VOID(positive_axes(node, dims, of));  // each once
    for (int64_t& d : dims) d = d < 0 ? d + of : d;
    return dims;
  };
  FETTLE_TRY(w.collapsed_dims, list("collapsed_dims", rank));
  FETTLE_TRY(w.batch_dims, list("batch_dims", rank));
  FETTLE_TRY(w.index_batch_dims, list("index_batch_dims", index_rank));
  FETTLE_TRY(w.index_map, list("index_map", rank));
  FETTLE_TRY_VOID(positive_axes(node, joined(w.collapsed_dims, w.batch_dims), rank));
  FETTLE_TRY_VOID(positive_axes(node, joined(w.index_map, w.batch_dims), rank));
  if (w.batch_dims.size() != w.index_batch_dims.size())
    return bad_attribute(node, "operand and indices differ in their numbers of batch dims");
  if (std::ranges::count(w.index_batch_dims, w.index_vector_dim) > 0)
    return bad_attribute(node, "an index lies along a batch dim");
  const Dim numbers =
      w.index_vector_dim == index_rank ? Dim(1) : indices.shape[static_cast<size_t>(w.index_vector_dim)];
  FETTLE_TRY_VOID(common_dim(node, numbers, std::ssize(w.index_map), "numbers of an index and of index_map"));
  for (size_t k = 0; k < w.batch_dims.size(); ++k)
    FETTLE_TRY_VOID(common_dim(node, operand.shape[static_cast<size_t>(w.batch_dims[k])],
                               indices.shape[static_cast<size_t>(w.index_batch_dims[k])], "batches"));
  const size_t n_kept = w.kept_dims(operand.shape.size()).size();
  FETTLE_TRY(w.window_dims,
             list("window_dims", std::ssize(places_of(w, indices.shape)) + static_cast<int64_t>(n_kept)));
  if (w.window_dims.size() != n_kept || !std::ranges::is_sorted(w.window_dims))
    return bad_attribute(node,
                         fmt::format("windows have {} dims, and window_dims must name as many, ascending", n_kept));
  return w;
}

Indices window_start(const PlacedWindows& w, const te::Tensor& indices, const Indices& place, size_t operand_rank) {
  Indices start(operand_rank, Expr(0));
  const bool is_number = w.index_vector_dim == indices.rank();
  for (size_t k = 0; k < w.index_map.size(); ++k) {
    const Indices at = is_number ? place : with_inserted(place, w.index_vector_dim, Expr(static_cast<int64_t>(k)));
    start[static_cast<size_t>(w.index_map[k])] = cast(kI64, indices(at));
  }
  for (size_t k = 0; k < w.batch_dims.size(); ++k) {
    const int64_t d = w.index_batch_dims[k];
    start[static_cast<size_t>(w.batch_dims[k])] = place[static_cast<size_t>(d > w.index_vector_dim ? d - 1 : d)];
  }
  return start;
}

WindowIndex window_index(const PlacedWindows& w, const Indices& index, size_t operand_rank) {
  WindowIndex result{{}, Indices(operand_rank, Expr(0))};
  const std::vector<int64_t> kept = w.kept_dims(operand_rank);
  for (size_t d = 0; d < index.size(); ++d) {
    const auto found = std::ranges::find(w.window_dims, static_cast<int64_t>(d));
    if (found == w.window_dims.end())
      result.place.push_back(index[d]);
    else
      result.in_window[static_cast<size_t>(kept[static_cast<size_t>(found - w.window_dims.begin())])] = index[d];
  }
  return result;
}

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kReductions{
    {{"Add", "add"}, {"Mul", "mul"}, {"Min", "min"}, {"Max", "max"}, {"And", "min"}, {"Or", "max"}}};

/// Indices as a list of places in the operand, and updates as a list of windows.
struct Lists {
  Value* indices;  // [places, numbers]
  Values updates;  // [places, window…]
  PlacedWindows windows;
  Shape window;
};
Lists as_lists(Lowering& g, Value* indices, const Values& updates, const PlacedWindows& w, size_t rank) {
  const Shape places = places_of(w, indices->shape());
  Value* list = g.cast(indices, kI64);
  if (w.index_vector_dim == std::ssize(indices->shape())) {
    list = g.unsqueeze(list, {w.index_vector_dim});
  } else {
    std::vector<int64_t> order = without(first_numbers(indices->shape().size()), w.index_vector_dim);
    order.push_back(w.index_vector_dim);
    list = g.transpose(list, order);
  }
  Values parts{list};
  Lists l{nullptr, {}, {}, {}};
  l.windows.collapsed_dims = joined(w.collapsed_dims, w.batch_dims);
  l.windows.index_map = joined(w.index_map, w.batch_dims);
  l.windows.index_vector_dim = 0;  // of one index
  for (const int64_t dim : w.index_batch_dims) {
    const int64_t d = dim > w.index_vector_dim ? dim - 1 : dim;
    Shape lies(places.size() + 1, Dim(1));
    lies[static_cast<size_t>(d)] = places[static_cast<size_t>(d)];
    Value* numbers = g.reshape(g.iota(places[static_cast<size_t>(d)]), lies);
    parts.push_back(g("Expand", {numbers}, {{{"shape", dims_attr(joined(places, {Dim(1)}))}}}));
  }
  if (parts.size() > 1) list = g("Concat", parts, {{{"axis", std::ssize(places)}}});
  const Dim count = element_count(places);
  l.indices = g.reshape(list, {count, static_cast<int64_t>(l.windows.index_map.size())});
  const size_t n_kept = w.kept_dims(rank).size();
  l.windows.window_dims = first_numbers(n_kept);
  const Shape& of_updates = updates[0]->shape();
  std::vector<int64_t> order;
  for (const int64_t d : first_numbers(of_updates.size()))
    if (std::ranges::count(w.window_dims, d) == 0) order.push_back(d);
  for (const int64_t d : w.window_dims) {
    order.push_back(d);
    l.window.push_back(of_updates[static_cast<size_t>(d)]);
  }
  for (Value* x : updates) {
    if (order != first_numbers(order.size())) x = g.transpose(x, order);
    l.updates.push_back(g.reshape(x, joined({count}, l.window)));
  }
  return l;
}

// One window after the other, by a Loop.
Result<Values> scattered_in_turn(Lowering& g, const ElementBody& body, const Values& operands, Value* indices,
                                 const Values& updates, const PlacedWindows& w) {
  const size_t rank = operands[0]->shape().size();
  const Lists l = as_lists(g, indices, updates, w, rank);
  FETTLE_TRY_VOID(g.status());
  Shape sizes(rank, Dim(1));
  const std::vector<int64_t> kept = w.kept_dims(rank);
  for (size_t k = 0; k < kept.size(); ++k) sizes[static_cast<size_t>(kept[k])] = l.window[k];
  // Where there is nothing to write to, no window is looked at.
  const Dim steps = l.indices->shape()[0] * min(element_count(operands[0]->shape()), 1);
  if (steps == Dim(0)) return operands;
  LoopBuilder loop(g.nodes(), size_value(g.nodes(), steps));
  Values states, old, given;
  for (Value* x : operands) states.push_back(loop.carry("operand", x));
  passes::NodeBuilder& inside = loop.body();
  Value* index = inside.pick("index", loop.capture("indices", l.indices), loop.iteration());
  for (Value* state : states) {
    Attrs attrs = l.windows.attrs();
    attrs.set("slice_sizes", dims_attr(sizes));
    attrs.set("clamps_elements", int64_t{1});
    old.push_back(inside.value("fettle.Gather", "old", {state, index}, std::move(attrs)));
  }
  for (Value* x : l.updates) given.push_back(inside.pick("update", loop.capture("updates", x), loop.iteration()));
  const Values made = of_elements(inside, captured_by(loop, body), joined(old, given), l.window);
  std::vector<LoopBuilder::Result> left;
  for (size_t i = 0; i < states.size(); ++i)
    left.push_back({"operand", inside.value("ScatterWindows", "new", {states[i], index, made[i]}, l.windows.attrs())});
  std::vector<TensorType> types;
  for (const Value* x : operands) types.push_back(*x->type);
  return typed(loop.finish(body.node->name + ".in_turn", left, {}), types);
}

}  // namespace

Result<Values> scattered(Lowering& g, const ElementBody& body, Values operands, Value* indices, Values updates,
                         const PlacedWindows& w) {
  const size_t n = operands.size();
  Values results;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = operands[i]->dtype();
    updates[i] = g.cast(updates[i], dtype);
    const auto chosen = chosen_element(body, i);
    const auto by = operation_of(body, i, i, n + i, dtype);
    if (chosen == i) {
      results.push_back(operands[i]);
      continue;
    }
    if (chosen != n + i && !by) return scattered_in_turn(g, body, operands, indices, updates, w);
    Attrs attrs = w.attrs();
    DType inside = dtype;
    if (by && chosen != n + i) {
      attrs.set(
          "reduction",
          std::string(
              std::ranges::find(kReductions, by->op, &std::pair<std::string_view, std::string_view>::first)->second));
      inside = dtype.is_bool() ? kU8 : by->dtype;  // truths are 0 and 1
    }
    Value* made =
        g("ScatterWindows", {g.cast(operands[i], inside), indices, g.cast(updates[i], inside)}, std::move(attrs));
    results.push_back(g.cast(made, dtype));
  }
  return results;
}

}  // namespace ops

namespace {

using namespace ops;

// --- Gather(operand, indices) {window_dims, collapsed_dims, batch_dims, index_batch_dims, index_map, index_vector_dim,
// slice_sizes, clamps_elements}: a window that would reach outside begins where it does not. With clamps_elements it
// begins where the index says, and elements outside are those at the edge.

struct Gathered {
  PlacedWindows windows;
  Shape sizes;
};
Result<Gathered> read_gather(const Node& node) {
  const Shape& shape = shape_of(node, 0);
  Gathered gather;
  FETTLE_TRY(gather.windows, read_placed_windows(node, type_of(node, 0), type_of(node, 1)));
  FETTLE_TRY(const auto sizes, dims_param(node, node.inputs.size(), "slice_sizes"));
  if (!sizes || sizes->size() != shape.size())
    return bad_attribute(node, fmt::format("slice_sizes must have {} elements", shape.size()));
  gather.sizes = *sizes;
  const std::vector<int64_t> kept = gather.windows.kept_dims(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    const Dim& size = gather.sizes[d];
    if (std::ranges::count(kept, static_cast<int64_t>(d)) == 0 && !(size == Dim(1)))
      return bad_attribute(node, fmt::format("windows of {} in dim {}, which they do not have", size.to_string(), d));
    if (size.max() < 0 || (shape[d] - size).max() < 0)
      return bad_attribute(node,
                           fmt::format("windows of {} in an extent of {}", size.to_string(), shape[d].to_string()));
    // Nothing is read where there is no place.
    const Dim wanted = min(size, min(element_count(places_of(gather.windows, shape_of(node, 1))), 1) * size);
    note_not_negative(node, shape[d] - wanted, "a window in an extent");
  }
  return gather;
}
Types gather_type(const Node& node) {
  FETTLE_TRY(const Gathered gather, read_gather(node));
  Shape places = places_of(gather.windows, shape_of(node, 1)), shape;
  const std::vector<int64_t> kept = gather.windows.kept_dims(shape_of(node, 0).size());
  size_t next_place = 0, next_kept = 0;
  for (size_t d = 0; d < places.size() + kept.size(); ++d)
    if (std::ranges::count(gather.windows.window_dims, static_cast<int64_t>(d)) > 0)
      shape.push_back(gather.sizes[static_cast<size_t>(kept[next_kept++])]);
    else
      shape.push_back(places[next_place++]);
  return same_dtype(node, std::move(shape));
}
Tensors gather(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Gathered gather, read_gather(node));
  const size_t rank = in[0].shape().size();
  const bool by_element = node.attrs.get_int("clamps_elements", 0) != 0;
  return one(map_output(node, [&](const Indices& i) {
    const WindowIndex index = window_index(gather.windows, i, rank);
    const Indices start = window_start(gather.windows, in[1], index.place, rank);
    Indices at;
    for (size_t d = 0; d < rank; ++d) {
      const auto dim = static_cast<int64_t>(d);
      const Expr extent = in[0].dim(static_cast<int>(d));
      if (std::ranges::count(gather.windows.index_map, dim) == 0)
        at.push_back(std::ranges::count(gather.windows.batch_dims, dim) > 0 ? start[d] : index.in_window[d]);
      else if (by_element)
        at.push_back(
            clamp(clamp(start[d], Expr(-kMaxDim), Expr(kMaxDim)) + index.in_window[d], Expr(0), extent - Expr(1)));
      else
        at.push_back(clamp(start[d], Expr(0), extent - size_expr(gather.sizes[d])) + index.in_window[d]);
    }
    return in[0](at);
  }));
}
// Reads what may not be there.
bool may_have_no_place(const Node& node) {
  const auto gather = read_gather(node);
  if (!gather) return true;
  for (size_t d = 0; d < gather->sizes.size(); ++d)
    if ((shape_of(node, 0)[d] - gather->sizes[d]).min() < 0) return true;
  return false;
}

// --- Scatter(operand…, indices, update…, captured…) {as Gather, but for sizes and clamping} {body}

Result<Values> scatter(passes::Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(passes::check_attributes(
      node, {"window_dims", "collapsed_dims", "batch_dims", "index_batch_dims", "index_map", "index_vector_dim"}));
  const size_t n = node.outputs.size();
  if (node.inputs.size() < 2 * n + 1 || std::ranges::count(node.inputs, nullptr) > 0)
    return bad_attribute(node, fmt::format("it has {} inputs for {} outputs", node.inputs.size(), n));
  FETTLE_TRY(const ElementBody body, element_body(node, "body", 2 * n + 1, 2 * n, n));
  const auto first = node.inputs.begin() + static_cast<int64_t>(n);
  Value* indices = *first;
  Values operands(node.inputs.begin(), first), updates(first + 1, first + 1 + static_cast<int64_t>(n));
  FETTLE_TRY(const PlacedWindows w, read_placed_windows(node, *operands[0]->type, *indices->type));
  const Shape& shape = operands[0]->shape();
  const Shape places = places_of(w, indices->shape());
  const std::vector<int64_t> kept = w.kept_dims(shape.size());
  for (size_t i = 0; i < n; ++i) {
    FETTLE_TRY_VOID(check_type(node, operands[i], fmt::format("operand {}", i), {operands[i]->dtype(), shape}));
    const Shape& given = updates[i]->shape();
    if (given.size() != places.size() + kept.size())
      return bad_types(
          node, fmt::format("update {} is {}, not of {} dims", i, to_string(given), places.size() + kept.size()));
    size_t next_place = 0, next_kept = 0;
    for (size_t d = 0; d < given.size(); ++d) {
      if (std::ranges::count(w.window_dims, static_cast<int64_t>(d)) == 0) {
        FETTLE_TRY_VOID(common_dim(node, places[next_place++], given[d], fmt::format("dim {} of update {}", d, i)));
        continue;
      }
      const Dim room = shape[static_cast<size_t>(kept[next_kept++])] - given[d];
      if (room.max() < 0) return bad_types(node, fmt::format("update {} is larger than its operand", i));
      note_not_negative(node, room, "an operand without an update's extent");
      if (i > 0) FETTLE_TRY_VOID(common_dim(node, updates[0]->shape()[d], given[d], "windows of updates"));
    }
  }
  return scattered(g, body, std::move(operands), indices, std::move(updates), w);
}

constexpr OpDef placed_windows_defs[] = {
    define(kInjective, "fettle.Gather", 2, gather_type, gather, {.work = kMoves, .is_partial = may_have_no_place}),
    with_bodies(passes::composite<scatter>("fettle.Scatter", {3, kAny}, -1), kBody),
};

}  // namespace

extern constinit const OpFamily placed_windows_ops{"placed_windows", placed_windows_defs};

}  // namespace fettle
