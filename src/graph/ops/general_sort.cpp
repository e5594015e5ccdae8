// Sort by a graph of the model's own, of several operands at once.
//
// A graph that says whether an element is less than another is a TopK of all elements. Any other compares by merge
// exchange (Batcher 1968; Knuth, TAOCP 3, 5.2.2 M), which works for any length: a Loop over its rounds, each of which
// compares all pairs that it has at once. What the graph does not tell apart stays in its order.

#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/bodies.h"

namespace fettle {
namespace {

using namespace ops;
using passes::LoopBuilder;
using passes::Lowering;
using passes::NodeBuilder;

Value* gathered(Lowering& g, Value* x, Value* places, int64_t axis) {
  return g("GatherElements", {x, places}, {{{"axis", axis}}});
}

// Small expressions of integers, in a loop's body.
struct Writer {
  NodeBuilder& nodes;
  Value* op(const char* name, Values inputs, Attrs attrs = {}) const {
    return nodes.value(name, "t", std::move(inputs), std::move(attrs));
  }
  Value* number(int64_t value) const { return nodes.number("number", value); }
  Value* both(Value* a, Value* b) const { return op("And", {a, b}); }
  Value* either(Value* a, Value* b) const { return op("Or", {a, b}); }
  Value* choose(Value* condition, Value* yes, Value* no) const { return op("Where", {condition, yes, no}); }
};

/// Of a sort of n elements.
struct Rounds {
  Value* count;  // of rounds
  Value* first;  // the largest power of two that is less than n; 0 where n is less than 2
};
Rounds rounds_of(Lowering& g, const Dim& n) {
  constexpr int64_t kMost = 40;  // kMaxDim is 2^40
  std::vector<int64_t> powers;
  for (int64_t k = 0; k < kMost; ++k) powers.push_back(int64_t{1} << k);
  Value* list = g.ints(powers);
  Value* is_less = g("Less", {list, g.size(n)});
  Value* levels = g.reduce("ReduceSum", g.cast(is_less, kI64), {0}, false);
  Value* first = g.reduce("ReduceMax", g("Where", {is_less, list, g.index(0)}), {0}, false);
  return {g("Div", {g("Mul", {levels, g("Add", {levels, g.index(1)})}), g.index(2)}), first};
}

// The places of the elements in order, [… n …] along the axis.
Result<Value*> order_by(Lowering& g, const ElementBody& body, const Values& operands, int64_t axis) {
  const Shape shape = operands[0]->shape();
  const Dim& n = shape[static_cast<size_t>(axis)];
  Shape along(shape.size(), Dim(1));
  along[static_cast<size_t>(axis)] = n;
  Value* numbers = g.iota(n);
  Value* begin = g("Expand", {g.reshape(numbers, along)}, {{{"shape", dims_attr(shape)}}});
  const Rounds rounds = rounds_of(g, n);
  Value* extent = g.size(n);
  FETTLE_TRY_VOID(g.status());

  LoopBuilder loop(g.nodes(), rounds.count);
  const Writer w{loop.body()};
  Value* order = loop.carry("order", begin);
  Value* p = loop.carry("p", rounds.first);
  Value* q = loop.carry("q", rounds.first);
  Value* r = loop.carry("r", g.index(0));
  Value* d = loop.carry("d", rounds.first);
  Value* top = loop.capture("top", rounds.first);
  Value* i = loop.capture("numbers", numbers);
  Value* length = loop.capture("length", extent);
  Values given;
  for (Value* x : operands) given.push_back(loop.capture("operand", x));

  // Element i meets element i + d where i & p is r.
  const auto begins = [&](Value* at) { return w.op("Equal", {w.op("BitwiseAnd", {at, p}), r}); };
  Value *above = w.op("Add", {i, d}), *below = w.op("Sub", {i, d});
  Value* is_low = w.both(begins(i), w.op("Less", {above, length}));
  Value* is_high = w.both(begins(below), w.op("GreaterOrEqual", {below, w.number(0)}));
  Value* partner = w.choose(is_low, above, w.choose(is_high, below, i));
  const auto in_place = [&](Value* list) {
    Attrs attrs{{"shape", dims_attr(along)}, {"allowzero", int64_t{1}}};
    return w.op("Reshape", {list}, std::move(attrs));
  };
  Value* other = w.op("Gather", {order, partner}, {{{"axis", axis}}});
  Values mine, theirs, forth, back;
  for (Value* x : given) {
    mine.push_back(w.op("GatherElements", {x, order}, {{{"axis", axis}}}));
    theirs.push_back(w.op("GatherElements", {x, other}, {{{"axis", axis}}}));
    forth.insert(forth.end(), {mine.back(), theirs.back()});
    back.insert(back.end(), {theirs.back(), mine.back()});
  }
  const ElementBody inner = captured_by(loop, body);
  Value* ahead = of_elements(loop.body(), inner, forth, shape)[0];
  Value* behind = of_elements(loop.body(), inner, back, shape)[0];
  Value* first = w.either(w.both(ahead, w.op("Not", {behind})),
                          w.both(w.op("Equal", {ahead, behind}), w.op("Less", {order, other})));
  // The lower place takes what comes first.
  Value* keeps = w.choose(in_place(is_low), first, w.op("Not", {first}));
  Value* is_alone = in_place(w.op("Not", {w.either(is_low, is_high)}));
  Value* next_order = w.choose(w.either(is_alone, keeps), order, other);

  Value* goes_on = w.op("Not", {w.op("Equal", {q, p})});
  Value* half = w.op("Div", {p, w.number(2)});
  Value* next_p = w.choose(goes_on, p, half);
  Value* next_q = w.choose(goes_on, w.op("Div", {q, w.number(2)}), top);
  Value* next_r = w.choose(goes_on, p, w.number(0));
  Value* next_d = w.choose(goes_on, w.op("Sub", {q, p}), half);
  const Node* made =
      loop.finish(body.node->name + ".exchange",
                  {{"order", next_order}, {"p", next_p}, {"q", next_q}, {"r", next_r}, {"d", next_d}}, {});
  const TensorType number{kI64, {}};
  return typed(made, {{kI64, shape}, number, number, number, number})[0];
}

// Sort(operand…, captured…) {axis} {body}: the body takes (left, right) of each operand, and says whether left comes
// first.
Result<Values> sort(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(passes::check_attributes(node, {"axis"}));
  const size_t n = node.outputs.size();
  if (node.inputs.size() < n || std::ranges::count(node.inputs, nullptr) > 0)
    return bad_attribute(node, fmt::format("it has {} inputs for {} outputs", node.inputs.size(), n));
  FETTLE_TRY(const ElementBody body, element_body(node, "body", n, 2 * n, 1));
  FETTLE_TRY(const int64_t axis, axis_of(node, -1));
  const Shape& shape = shape_of(node, 0);
  for (size_t i = 1; i < n; ++i)
    FETTLE_TRY_VOID(check_type(node, node.inputs[i], fmt::format("operand {}", i), {dtype_of(node, i), shape}));
  const Values operands(node.inputs.begin(), node.inputs.begin() + static_cast<int64_t>(n));
  Value* order = nullptr;
  const auto compared = comparison_of(body);
  if (compared && compared->left / 2 == compared->right / 2 && compared->left < 2 * n) {
    const bool is_less = compared->is_less == (compared->left < compared->right);
    Value* key = operands[compared->left / 2];
    if (key->dtype().is_bool()) key = g.cast(key, kU8);
    order = g.many(
        "TopK", {key},
        {{"k", dims_attr({shape[static_cast<size_t>(axis)]})}, {"axis", axis}, {"largest", int64_t{!is_less}}}, 2)[1];
  } else {
    FETTLE_TRY(order, order_by(g, body, operands, axis));
  }
  Values results;
  for (Value* x : operands) results.push_back(gathered(g, x, order, axis));
  return results;
}

constexpr OpDef general_sort_defs[] = {
    with_bodies(passes::composite<sort>("fettle.Sort", {1, kAny}, -1), kBody),
};

}  // namespace

extern constinit const OpFamily general_sort_ops{"general_sort", general_sort_defs};

}  // namespace fettle
