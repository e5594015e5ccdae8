#include "graph/passes/data_axes.h"

#include <fmt/format.h>

#include <algorithm>

namespace fettle::passes {
namespace {

using Values = Result<std::vector<Value*>>;

constexpr int64_t kMostDims = 32;  // two sizes a dim

Result<> check_dims(const Node& node, int64_t rank) {
  if (rank <= kMostDims) return {};
  return fail(ErrorCode::E608, fmt::format("{} whose axes are data, of a rank above {}", node.op->name, kMostDims),
              node.name);
}

// How many axes an input states.
Result<int64_t> count_of(const Node& node, size_t input) {
  const Dim count = element_count(node.inputs[input]->shape());
  if (count.is_number()) return count.value();
  return ops::not_known(
      node, fmt::format("{} needs to know how many axes there are in \"{}\" when the model is compiled", node.op->name,
                        node.inputs[input]->name));
}

tl::unexpected<Diagnostic> too_many(const Node& node, int64_t count, int64_t rank) {
  return ops::bad_attribute(node, fmt::format("{} axes of a tensor of rank {}", count, rank));
}

Attrs without(const Node& node, std::initializer_list<std::string_view> names) {
  Attrs attrs;
  for (const auto& [name, value] : node.attrs.entries)
    if (std::ranges::find(names, name) == names.end()) attrs.set(name, value);
  return attrs;
}

Value* shape_of(Lowering& g, Value* x) { return g("Shape", {x}); }
Value* where(Lowering& g, Value* mask, Value* x, Value* y) { return g("Where", {g.cast(mask, kBool), x, y}); }
Value* flat_concat(Lowering& g, std::vector<Value*> lists) {
  return g("Concat", std::move(lists), {{{"axis", int64_t{0}}}});
}

// A parameter that is an input, or the attribute that has taken its place; null where there is neither.
Value* param(Lowering& g, const Node& node, size_t input, std::string_view attr) {
  if (Value* given = node.input(input)) return g.cast(given, kI64);
  const AttrValue* stated = node.attrs.find(attr);
  const auto* list = stated ? std::get_if<std::vector<int64_t>>(stated) : nullptr;
  return list ? g.ints(*list) : nullptr;
}

}  // namespace

DataAxes data_axes(Lowering& g, const Node& node, size_t input, int64_t rank) {
  Value* given = g.cast(node.inputs[input], kI64);
  given = g.reshape(given, {element_count(given->shape())});
  Value *zero = g.index(0), *end = g.index(rank);
  Value* places = where(g, g("Less", {given, zero}), g("Add", {given, end}), given);
  Value* hits =
      g.cast(g("Equal", {g.unsqueeze(places, {1}), g.ints(ops::first_numbers(static_cast<size_t>(rank)))}), kI64);
  Value* times = g.reduce("ReduceSum", hits, {0}, false);
  // Each place is one of the axes, and no axis is two places.
  Value* count = g("Size", {places});
  Value* mask = g("Min", {times, g.index(1)});
  g.require(g("Equal", {g.reduce("ReduceSum", mask, {0}, false), count}),
            fmt::format("{} \"{}\": an axis is out of range, or stated twice", node.op->name, node.name));
  return {places, hits, mask};
}

Value* at_axes(Lowering& g, const DataAxes& axes, Value* numbers) {
  return g.reduce("ReduceSum", g("Mul", {axes.hits, g.unsqueeze(numbers, {1})}), {0}, false);
}

Value* other_extents(Lowering& g, const DataAxes& axes, Value* shape, int64_t count) {
  Value* is_other = g("Sub", {g.index(1), axes.mask});
  Value* rank_among_others = g("CumSum", {is_other}, {{{"axis", int64_t{0}}, {"exclusive", int64_t{1}}}});
  const std::vector<int64_t> numbers = ops::first_numbers(static_cast<size_t>(count));
  Value* is_it = g.cast(g("Equal", {rank_among_others, g.unsqueeze(g.ints(numbers), {1})}), kI64);  // [count, rank]
  return g.reduce("ReduceSum", g("Mul", {g("Mul", {is_it, is_other}), shape}), {1}, false);
}

Value* around_axis(Lowering& g, const DataAxes& axes, Value* x) {
  const auto numbers = g.ints(ops::first_numbers(x->shape().size()));
  Value* shape = shape_of(g, x);
  const auto product = [&](std::string_view side) {
    return g.reduce("ReduceProd", where(g, g(side, {numbers, axes.places}), shape, g.index(1)), {0}, true);
  };
  return g.reshape_by_data(x, flat_concat(g, {product("Less"), g("Gather", {shape, axes.places}), product("Greater")}));
}

// x as [kept, reduced, kept, reduced, …]: of each dim of x one has the extent, the other is 1.
Values reduce_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  const auto rank = static_cast<int64_t>(x->rank());
  FETTLE_TRY_VOID(check_dims(node, rank));
  const bool keeps_dims = node.attrs.get_int("keepdims", 1) != 0;
  const bool none_means_all = node.attrs.get_int("noop_with_empty_axes", 0) == 0;
  DataAxes axes = data_axes(g, node, 1, rank);
  const Dim stated = element_count(node.inputs[1]->shape());
  int64_t count = 0;
  if (!keeps_dims) {
    FETTLE_TRY(count, count_of(node, 1));
    if (count > rank) return too_many(node, count, rank);
    if (count == 0 && none_means_all) count = rank;
  }
  if (none_means_all && may_equal(stated, 0)) {
    Value* is_none = g("Equal", {g("Size", {axes.places}), g.index(0)});
    axes.mask = g("Max", {axes.mask, g.cast(is_none, kI64)});
  }
  Value* shape = shape_of(g, x);
  Value *kept = where(g, axes.mask, g.index(1), shape), *reduced = where(g, axes.mask, shape, g.index(1));
  Value* pairs = g("Concat", {g.unsqueeze(kept, {1}), g.unsqueeze(reduced, {1})}, {{{"axis", int64_t{1}}}});
  std::vector<int64_t> second;
  for (int64_t d = 0; d < rank; ++d) second.push_back(2 * d + 1);
  Attrs attrs = without(node, {"axes", "keepdims", "noop_with_empty_axes"});
  attrs.set("axes", second);
  attrs.set("keepdims", int64_t{0});
  if (second.empty()) attrs.set("noop_with_empty_axes", int64_t{1});
  Value* y = g(node.op->name, {g.reshape_by_data(x, g.reshape(pairs, {2 * rank}))}, std::move(attrs));
  return std::vector{keeps_dims ? y : g.reshape_by_data(y, other_extents(g, axes, kept, rank - count))};
}

Values accumulate_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  FETTLE_TRY_VOID(check_dims(node, static_cast<int64_t>(x->rank())));
  FETTLE_TRY(const int64_t count, count_of(node, 1));
  if (count != 1) return ops::bad_attribute(node, fmt::format("{} axes instead of one", count));
  const DataAxes axes = data_axes(g, node, 1, static_cast<int64_t>(x->rank()));
  Attrs attrs = without(node, {"axis"});
  attrs.set("axis", int64_t{1});
  Value* y = g(node.op->name, {around_axis(g, axes, x)}, std::move(attrs));
  return std::vector{g.reshape(y, x->shape())};
}

Values squeeze_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  const auto rank = static_cast<int64_t>(x->rank());
  FETTLE_TRY_VOID(check_dims(node, rank));
  FETTLE_TRY(const int64_t count, count_of(node, 1));
  if (count > rank) return too_many(node, count, rank);
  const DataAxes axes = data_axes(g, node, 1, rank);
  Value* shape = shape_of(g, x);
  Value* squeezed = where(g, axes.mask, shape, g.index(1));
  g.require(g("Equal", {g.reduce("ReduceSum", g("Abs", {g("Sub", {squeezed, g.index(1)})}), {0}, false), g.index(0)}),
            fmt::format("Squeeze \"{}\": an extent is not 1", node.name));
  return std::vector{g.reshape_by_data(x, other_extents(g, axes, shape, rank - count))};
}

Values unsqueeze_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  FETTLE_TRY(const int64_t count, count_of(node, 1));
  const int64_t before = static_cast<int64_t>(x->rank()), rank = before + count;
  FETTLE_TRY_VOID(check_dims(node, rank));
  const DataAxes axes = data_axes(g, node, 1, rank);
  if (before == 0) return std::vector{g.reshape(x, Shape(static_cast<size_t>(rank), 1))};
  Value* is_old = g("Sub", {g.index(1), axes.mask});
  Value* which = g("CumSum", {is_old}, {{{"axis", int64_t{0}}, {"exclusive", int64_t{1}}}});
  which = g("Min", {which, g.index(before - 1)});
  Value* extents = where(g, axes.mask, g.index(1), g("Gather", {shape_of(g, x), which}));
  return std::vector{g.reshape_by_data(x, extents)};
}

namespace {
DataAxes first_axes(Lowering& g, int64_t count, int64_t rank) {
  Value* places = g.ints(ops::first_numbers(static_cast<size_t>(count)));
  Value* numbers = g.ints(ops::first_numbers(static_cast<size_t>(rank)));
  Value* hits = g.cast(g("Equal", {g.unsqueeze(places, {1}), numbers}), kI64);
  return {places, hits, g.reduce("ReduceSum", hits, {0}, false)};
}
}  // namespace

Values pad_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  const auto rank = static_cast<int64_t>(x->rank());
  FETTLE_TRY_VOID(check_dims(node, rank));
  FETTLE_TRY(const int64_t count, count_of(node, 3));
  if (count > rank) return too_many(node, count, rank);
  Value* pads = param(g, node, 1, "pads");
  if (!pads || !(pads->shape() == Shape{2 * count}))
    return ops::bad_attribute(node, "pads must have two elements an axis");
  const DataAxes axes = data_axes(g, node, 3, rank);
  Value* all = flat_concat(
      g, {at_axes(g, axes, g.slice(pads, 0, 0, count)), at_axes(g, axes, g.slice(pads, 0, count, 2 * count))});
  g.make_sizes(all, -kMaxDim, kMaxDim);
  std::vector<Value*> inputs{x, all};
  if (node.input(2)) inputs.push_back(node.input(2));
  return std::vector{g("Pad", std::move(inputs), without(node, {"pads", "axes"}))};
}

// What is not sliced goes from 0 to its end.
Values slice_by_data(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  const auto rank = static_cast<int64_t>(x->rank());
  FETTLE_TRY_VOID(check_dims(node, rank));
  Value *starts = param(g, node, 1, "starts"), *ends = param(g, node, 2, "ends"), *steps = param(g, node, 4, "steps");
  if (!starts || !ends) return ops::bad_attribute(node, "starts or ends are missing");
  const Dim count = element_count(starts->shape());
  if (!count.is_number() || !(starts->shape() == Shape{count}) || !(ends->shape() == Shape{count}) ||
      (steps && !(steps->shape() == Shape{count})))
    return ops::bad_attribute(node, "starts, ends and steps differ in length");
  if (count.value() > rank) return too_many(node, count.value(), rank);
  const DataAxes axes = node.input(3) ? data_axes(g, node, 3, rank) : first_axes(g, count.value(), rank);
  if (node.input(3) && !(element_count(node.input(3)->shape()) == count))
    return ops::bad_attribute(node, "starts, ends and axes differ in length");
  Value* shape = shape_of(g, x);
  const bool is_dense =
      !steps || (ops::content_of(*steps) &&
                 std::ranges::all_of(*ops::content_of(*steps), [](const Dim& step) { return step == Dim(1); }));
  if (is_dense) {
    // An end far beyond that of the tensor is as good as this one.
    const auto near = [&](Value* places) { return g("Max", {g("Min", {places, shape}), g("Neg", {shape})}); };
    Value* from = near(at_axes(g, axes, starts));
    Value* to = where(g, axes.mask, near(at_axes(g, axes, ends)), shape);
    g.make_sizes(from, -kMaxDim, kMaxDim);
    g.make_sizes(to, -kMaxDim, kMaxDim);
    return std::vector{g("Slice", {x, from, to})};
  }
  // With steps, of which the sign may be unknown: elements begin + i * step of each dim.
  Value *zero = g.index(0), *unit = g.index(1);
  Value* step = where(g, axes.mask, at_axes(g, axes, steps), unit);
  g.require_all(g("Not", {g("Equal", {step, zero})}), fmt::format("Slice \"{}\": a step of 0", node.name));
  Value* is_backward = g("Less", {step, zero});
  Value* back = g.cast(is_backward, kI64);  // 1 where it is
  // Places from the beginning, in [0, n] forwards, in [-1, n - 1] backwards; kept in range before anything is added.
  const auto place = [&](Value* places) {
    Value* from_end = g("Less", {places, zero});
    Value* limited = g("Max", {g("Min", {places, shape}), g("Neg", {g("Add", {shape, unit})})});
    Value* counted = where(g, from_end, g("Add", {limited, shape}), limited);
    return g("Max", {g("Min", {counted, g("Sub", {shape, back})}), g("Neg", {back})});
  };
  Value* begin = place(at_axes(g, axes, starts));
  Value* end = where(g, axes.mask, place(at_axes(g, axes, ends)), shape);
  Value* way = where(g, is_backward, g("Sub", {begin, end}), g("Sub", {end, begin}));
  // No step is longer than the longest way: sums stay small.
  Value* size = g("Min", {g("Abs", {g("Max", {step, g.index(-kMaxDim)})}), g.index(kMaxDim)});
  Value* lengths = g("Div", {g("Add", {g("Max", {way, zero}), g("Sub", {size, unit})}), size});
  g.make_sizes(lengths, 0, kMaxDim);
  FETTLE_TRY_VOID(g.status());
  Value* signed_size = where(g, is_backward, g("Neg", {size}), size);
  Value* y = x;
  for (int64_t d = 0; d < rank; ++d) {
    const auto pick = [&](Value* list) { return g.reshape(g.slice(list, 0, d, d + 1), {}); };
    Value* numbers = g("Range", {zero, pick(lengths), unit});
    Value* places = g("Add", {pick(begin), g("Mul", {numbers, pick(signed_size)})});
    y = g("Gather", {y, places}, {{{"axis", d}}});
  }
  return std::vector{y};
}

}  // namespace fettle::passes
