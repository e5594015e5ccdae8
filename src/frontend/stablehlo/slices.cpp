// Operators that read or write a part of a tensor: where it begins is known, or data tell.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/padding.h"

namespace fettle::stablehlo {
namespace {

using ops::first_numbers;

Value* sliced(OpImport& o, Value* x, const Shape& starts, const Shape& limits, const Ints& strides) {
  Shape begin, end;
  Ints axes, steps;
  for (size_t d = 0; d < starts.size(); ++d) {
    if (starts[d] == Dim(0) && limits[d] == x->shape()[d] && strides[d] == 1) continue;
    begin.push_back(starts[d]);
    end.push_back(limits[d]);
    axes.push_back(static_cast<int64_t>(d));
    steps.push_back(strides[d]);
  }
  if (axes.empty()) return x;
  return o.g("Slice", {x},
             {{{"starts", dims_attr(begin)}, {"ends", dims_attr(end)}, {"axes", axes}, {"steps", steps}}});
}
Result<Tensors> slice(OpImport& o) {
  const Ints starts = o.ints("start_indices"), limits = o.ints("limit_indices"), strides = o.ints("strides");
  return o.of_parts([&](Value* x) -> Result<Value*> {
    const size_t rank = x->shape().size();
    if (starts.size() != rank || limits.size() != rank || strides.size() != rank)
      return o.mistaken("its indices are not as many as the operand's dims");
    Shape ends(limits.begin(), limits.end());
    for (size_t d = 0; d < rank; ++d) {
      if (starts[d] < 0 || strides[d] < 1 || starts[d] > limits[d]) return o.mistaken("indices or strides");
      if (x->shape()[d].is_number() && limits[d] > x->shape()[d].value())
        return o.mistaken(fmt::format("a limit of {} in an extent of {}", limits[d], x->shape()[d].to_string()));
    }
    return sliced(o, x, Shape(starts.begin(), starts.end()), ends, strides);
  });
}

// Indices of all dims as scalars, or as one list: a list of 64 bits.
Value* index_list(OpImport& o, size_t first) {
  Values parts;
  for (size_t i = first; i < o.in.size(); ++i) parts.push_back(o.g.reshape(Elements(o).cast(o.in[i].re, kI64), {1}));
  return parts.size() == 1 ? parts[0] : o.g("Concat", parts, {{{"axis", int64_t{0}}}});
}

// Whether a loop's integers are all places along an axis.
bool is_among(const Progression& at, const Dim& extent) {
  return extent.is_number() && at.min() >= 0 && at.max() < extent.value();
}
// In the form of rows that the planner knows: the number of the iteration, or a constant less that.
Value* index_of(OpImport& o, const Progression& at) {
  if (at.step < 0) return o.g("Sub", {o.g.index(at.first), at.number});
  return at.first == 0 ? at.number : o.g("Add", {at.number, o.g.index(at.first)});
}
// Where an update replaces one row of x, of which an iteration tells.
std::optional<RowUpdate> row_update(OpImport& o, const Value* x, Value* update) {
  std::optional<RowUpdate> row;
  for (size_t d = 0; d < x->shape().size(); ++d) {
    if (x->shape()[d] == update->shape()[d]) continue;
    const Progression* at = find_progression(o.importer, o.in[d + 2]);
    if (row || !at || !is_among(*at, x->shape()[d]) || !(update->shape()[d] == Dim(1))) return {};
    row = RowUpdate{x, update, static_cast<int64_t>(d), *at};
  }
  return row;
}

// `sizes` elements of x from `starts` on, one scalar for each of the dims `moved`; the others are whole. What would
// reach outside begins where it does not.
Value* window_at(OpImport& o, Value* x, const Shape& sizes, const Ints& moved, Values starts) {
  // One of many rows is what loops read.
  if (moved.size() == 1 && sizes[static_cast<size_t>(moved[0])] == Dim(1)) {
    const Dim last = x->shape()[static_cast<size_t>(moved[0])] - 1;
    Value* at = o.g("Max", {o.g("Min", {starts[0], o.g.size(last)}), o.g.index(0)});
    return o.g("Gather", {x, o.g.reshape(at, {1})}, {{{"axis", moved[0]}}});
  }
  for (Value*& start : starts) start = o.g.reshape(start, {1});
  Value* list = starts.size() == 1 ? starts[0] : o.g("Concat", starts, {{{"axis", int64_t{0}}}});
  Attrs attrs{{"window_dims", first_numbers(sizes.size())}, {"collapsed_dims", Ints{}}, {"index_map", moved}};
  attrs.set("index_vector_dim", int64_t{0});
  attrs.set("slice_sizes", dims_attr(sizes));
  return o.g("fettle.Gather", {x, list}, std::move(attrs));
}

// (operand, start…) {slice_sizes}
Result<Tensors> dynamic_slice(OpImport& o) {
  const Ints sizes = o.ints("slice_sizes");
  return o.of_parts([&](Value* x) -> Result<Value*> {
    const Shape shape = x->shape();
    if (sizes.size() != shape.size() || o.in.size() != shape.size() + 1)
      return o.mistaken("its indices are not as many as the operand's dims");
    Values starts;
    Ints moved;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (shape[d] == Dim(sizes[d])) continue;
      FETTLE_TRY(Value * start, o.real(d + 1));
      starts.push_back(Elements(o).cast(o.g.reshape(start, {}), kI64));
      moved.push_back(static_cast<int64_t>(d));
    }
    if (moved.empty()) return x;
    const auto known = [](const Value* start) { return start->is_constant(); };
    if (std::ranges::all_of(starts, known) && is_static(shape)) {
      Shape begin(shape.size(), Dim(0)), end = shape;
      for (size_t k = 0; k < moved.size(); ++k) {
        const auto d = static_cast<size_t>(moved[k]);
        begin[d] = std::clamp<int64_t>(starts[k]->constant->int_at(0), 0, shape[d].value() - sizes[d]);
        end[d] = begin[d] + sizes[d];
      }
      return sliced(o, x, begin, end, Ints(shape.size(), 1));
    }
    if (moved.size() == 1 && sizes[static_cast<size_t>(moved[0])] == 1) {
      const auto d = static_cast<size_t>(moved[0]);
      if (const Progression* at = find_progression(o.importer, o.in[d + 1]); at && is_among(*at, shape[d]))
        return o.g.unsqueeze(o.g("Gather", {x, index_of(o, *at)}, {{{"axis", moved[0]}}}), {moved[0]});
    }
    return window_at(o, x, Shape(sizes.begin(), sizes.end()), moved, std::move(starts));
  });
}

// (operand, update, start…): likewise.
Result<Tensors> dynamic_update_slice(OpImport& o) {
  if (o.in.size() < 2 || !o.in[1].re) return o.mistaken("it has no update");
  Tensor result;
  for (const bool imaginary : {false, true}) {
    Value *x = part_of(o.in[0], imaginary), *update = part_of(o.in[1], imaginary);
    if (!x || !update) continue;
    const Shape shape = x->shape(), window = update->shape();
    if (window.size() != shape.size() || o.in.size() != shape.size() + 2)
      return o.mistaken("its indices are not as many as the operand's dims");
    Value* made = update;
    if (window != shape) {
      Value* list = index_list(o, 2);
      Shape room;
      for (size_t d = 0; d < shape.size(); ++d) room.push_back(shape[d] - window[d]);
      Value* most = o.g("SizeList", {}, {{{"sizes", dims_attr(room)}}});
      list = o.g("Max", {o.g("Min", {list, most}), o.g.index(0)});
      Attrs attrs{{"window_dims", first_numbers(shape.size())}, {"index_map", first_numbers(shape.size())}};
      attrs.set("index_vector_dim", int64_t{0});
      made = o.g("ScatterWindows", {x, list, update}, std::move(attrs));
      if (const auto row = row_update(o, x, update)) o.importer.scope().updates.insert_or_assign(made, *row);
    }
    (imaginary ? result.im : result.re) = made;
  }
  return Tensors{result};
}

// What was added to `starts` to make `limits`; null: it is not such a sum.
Value* added_to(const Value* starts, const Value* limits) {
  const Node* sum = limits->producer;
  if (!sum || sum->op->name != "Add") return nullptr;
  if (sum->inputs[0] == starts) return sum->inputs[1];
  return sum->inputs[1] == starts ? sum->inputs[0] : nullptr;
}

// (operand, starts, limits, strides): numbers that data tell. Windows of sizes that do not depend on where they begin
// are read in loops, too.
Result<Tensors> real_dynamic_slice(OpImport& o) {
  FETTLE_TRY(Value * starts, o.real(1));
  FETTLE_TRY(Value * limits, o.real(2));
  FETTLE_TRY(const Ints strides, numbers_of(o, 3, "a stride"));
  const auto fits = [&](const auto& list, const Value* x) { return list.size() == x->shape().size(); };
  const auto refused = [&] { return o.mistaken("its indices are not as many as the operand's dims"); };
  if (Value* extents = added_to(starts, limits);
      extents && std::ranges::all_of(strides, [](int64_t stride) { return stride == 1; })) {
    const Shape sizes = dims_of(o, extents);
    FETTLE_TRY_VOID(o.g.status());
    return o.of_parts([&](Value* x) -> Result<Value*> {
      if (!fits(sizes, x) || !fits(strides, x) || starts->shape() != Shape{std::ssize(sizes)}) return refused();
      Values moved_starts;
      Ints moved;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (x->shape()[d] == sizes[d]) continue;
        const auto at = static_cast<int64_t>(d);
        moved_starts.push_back(o.g.reshape(o.g.slice(Elements(o).cast(starts, kI64), 0, at, at + 1), {}));
        moved.push_back(at);
      }
      return moved.empty() ? x : window_at(o, x, sizes, moved, std::move(moved_starts));
    });
  }
  const Shape begin = dims_of(o, starts), end = dims_of(o, limits);
  return o.of_parts([&](Value* x) -> Result<Value*> {
    if (!fits(begin, x) || !fits(end, x) || !fits(strides, x)) return refused();
    return sliced(o, x, begin, end, strides);
  });
}

constexpr OpEntry kSlices[] = {
    {"stablehlo.dynamic_slice", dynamic_slice},
    {"stablehlo.dynamic_update_slice", dynamic_update_slice},
    {"stablehlo.real_dynamic_slice", real_dynamic_slice},
    {"stablehlo.slice", slice},
};

}  // namespace

extern constinit const OpEntries slice_operators{kSlices};

}  // namespace fettle::stablehlo
