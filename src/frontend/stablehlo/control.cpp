// Loops, branches, calls.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/padding.h"

namespace fettle::stablehlo {
namespace {

// The parts of tensors as new inputs of the current graph.
Tensor as_inputs(OpImport& o, Graph& body, const Tensor& tensor) {
  Tensor inside = tensor;
  for_each_part(inside, [&](Value*& part) { part = body.add_input(o.node.name, *part->type); });
  return inside;
}
std::vector<TensorType> types_of(const Tensors& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) for_each_part(tensor, [&](const Value* part) { types.push_back(*part->type); });
  return types;
}
// Tensors like these, of other parts, in order.
Tensors with_parts(Tensors like, const Values& parts) {
  size_t next = 0;
  for (Tensor& tensor : like) for_each_part(tensor, [&](Value*& part) { part = parts[next++]; });
  return like;
}
void add_outputs(Graph& graph, const Tensors& tensors) {
  for (const Tensor& tensor : tensors) for_each_part(tensor, [&](Value* part) { graph.add_output("result", part); });
}

// --- while

const Op* last_op(const Region& region) {
  if (region.blocks.size() != 1 || region.blocks[0].ops.empty()) return nullptr;
  return &region.blocks[0].ops.back();
}
const Op* maker_of(const Region& region, ValueId value) {
  for (const Op& op : region.blocks[0].ops)
    if (std::ranges::find(op.results, value) != op.results.end()) return &op;
  return nullptr;
}

/// A loop whose iterations are counted: `while i < limit: …; i = i + 1`.
struct Count {
  size_t counter;  // which of the loop's values
  ValueId limit;   // made in the condition, another of the loop's values, or of around
};
std::optional<Count> count_of(OpImport& o) {
  const Op& loop = o.op;
  const Region &condition = loop.regions[0], &body = loop.regions[1];
  const Op *test = last_op(condition), *end = last_op(body);
  if (!test || !end || test->operands.size() != 1) return {};
  const Op* compare = maker_of(condition, test->operands[0]);
  if (!compare || compare->name != "stablehlo.compare" || compare->operands.size() != 2) return {};
  const Attribute* direction = find_attribute(compare->attributes, "comparison_direction");
  const auto* value = direction ? direction->get_if<EnumValue>() : nullptr;
  if (!value || value->value != "LT") return {};
  const auto& arguments = condition.blocks[0].arguments;
  const auto found = std::ranges::find(arguments, compare->operands[0]);
  if (found == arguments.end()) return {};
  const auto counter = static_cast<size_t>(found - arguments.begin());
  const Type& type = condition.blocks[0].argument_types[counter];
  if (type.kind != Type::Kind::kTensor || !type.shape.empty() || !type.element.dtype.is_int()) return {};
  // The limit does not change.
  const ValueId limit = compare->operands[1];
  if (const auto own = std::ranges::find(arguments, limit); own != arguments.end()) {
    const auto k = static_cast<size_t>(own - arguments.begin());
    if (end->operands[k] != body.blocks[0].arguments[k]) return {};
  } else if (const Op* maker = maker_of(condition, limit); maker && maker->name != "stablehlo.constant") {
    return {};
  }
  const Op* step = maker_of(body, end->operands[counter]);
  if (!step || step->name != "stablehlo.add" || step->operands.size() != 2) return {};
  const ValueId own = body.blocks[0].arguments[counter];
  for (const size_t i : {0, 1}) {
    if (step->operands[i] != own) continue;
    const ValueId by = step->operands[1 - i];
    const Op* one = maker_of(body, by);
    const Attribute* number =
        one && one->name == "stablehlo.constant" ? find_attribute(one->attributes, "value") : nullptr;
    const auto* elements = number ? number->get_if<DenseElements>() : nullptr;
    if (elements && elements->data.dtype == type.element.dtype && elements->data.n_elems() == 1 &&
        elements->data.int_at(0) == 1)
      return Count{counter, limit};
    // JAX's programs come with the constant before the loop.
    const auto& taken = body.blocks[0].arguments;
    if (one || std::ranges::find(taken, by) != taken.end()) continue;
    const auto outside = o.importer.value_of(by);
    if (outside && outside->re && outside->re->is_constant() && outside->re->dtype() == type.element.dtype &&
        outside->re->constant->n_elems() == 1 && outside->re->constant->int_at(0) == 1)
      return Count{counter, limit};
  }
  return {};
}

Result<Value*> condition_of(OpImport& o, const Region& region, const Tensors& arguments) {
  FETTLE_TRY(const Tensors results, o.importer.import_region(region, arguments));
  if (results.size() != 1 || !results[0].re || !results[0].re->dtype().is_bool())
    return o.mistaken("its condition is no truth value");
  return results[0].re;
}

// Whether a body's result is what it was given, of which each iteration writes another row anew, until all are written.
const RowUpdate* stacked_rows(OpImport& o, const Tensor& argument, const Tensors& results, size_t i) {
  const Value* made = results[i].re;
  const auto& updates = o.importer.scope().updates;
  const auto found = updates.find(made);
  if (found == updates.end() || results[i].im || found->second.before != argument.re) return nullptr;
  const RowUpdate& update = found->second;
  const Graph& body = o.importer.scope().graph;
  const bool is_whole = argument.re->shape()[0] == Dim(update.at.iterations) && update.at.number == body.inputs()[0];
  if (update.axis != 0 || !is_whole || body.use_count(made) > 0 || body.use_count(argument.re) > 1) return nullptr;
  const auto is_made = [&](const Tensor& result) { return result.re == made; };
  return std::ranges::count_if(results, is_made) == 1 ? &update : nullptr;
}

// What iterations leave as they find it is read, and not carried; the counter is the iteration's number. Rows that they
// write one after the other are stacked.
Result<Tensors> while_loop(OpImport& o) {
  if (o.op.regions.size() != 2) return o.mistaken(fmt::format("it has {} regions", o.op.regions.size()));
  const Region &condition = o.op.regions[0], &body = o.op.regions[1];
  const Op* end = last_op(body);
  if (!end || end->operands.size() != o.in.size() || body.blocks[0].arguments.size() != o.in.size())
    return o.mistaken("its body does not return what it takes");

  Scope* const around = &o.importer.scope();
  const bool has_effects = o.importer.has_effects(condition) || o.importer.has_effects(body);
  FETTLE_TRY(Value * first, condition_of(o, condition, o.in));
  Value *limit = nullptr, *begin = nullptr, *after = nullptr;  // of the counter
  std::optional<int64_t> iterations;
  const auto count = count_of(o);
  if (count) {
    FETTLE_TRY(const Tensor bound, o.importer.value_of(count->limit));
    begin = o.in[count->counter].re;
    if (bound.re && bound.re->dtype() == begin->dtype()) {
      limit = o.g("Max", {o.g("Sub", {o.g.cast(bound.re, kI64), o.g.cast(begin, kI64)}), o.g.index(0)});
      after = o.g("Max", {begin, bound.re});
      if (begin->is_constant() && bound.re->is_constant())
        iterations = bound.re->constant->int_at(0) - begin->constant->int_at(0);
    }
  }
  enum class Way : uint8_t { kCarried, kStays, kCounts, kStacked, kStackedBackwards };
  std::vector<Way> ways;
  for (size_t i = 0; i < o.in.size(); ++i)
    ways.push_back(limit && i == count->counter                      ? Way::kCounts
                   : end->operands[i] == body.blocks[0].arguments[i] ? Way::kStays
                                                                     : Way::kCarried);
  Value* effects_before = has_effects ? o.importer.effects() : nullptr;
  std::vector<Scope> bodies(1);
  bodies[0].repeats = true;
  Tensors carried;  // as they are before the first iteration
  Values rows;      // that iterations stack
  FETTLE_TRY_VOID(o.importer.in_body(bodies[0], "body", [&]() -> Result<> {
    Graph& graph = bodies[0].graph;
    Value* number = graph.add_input("i", {kI64, {}});
    Value* goes_on = graph.add_input("condition", {kBool, {}});
    Tensors arguments;
    for (size_t i = 0; i < o.in.size(); ++i) {
      Tensor& argument = arguments.emplace_back(o.in[i]);
      if (ways[i] == Way::kStays) {
        for_each_part(argument, [&](Value*& part) { part = o.importer.reach(part, around); });
      } else if (ways[i] == Way::kCounts) {
        passes::Lowering g(graph, o.node);
        Value* from = o.importer.reach(begin, around);
        const bool is_zero = from->is_constant() && from->constant->int_at(0) == 0;
        argument.re = g.cast(is_zero ? number : g("Add", {number, g.cast(from, kI64)}), begin->dtype());
        FETTLE_TRY_VOID(g.status());
        if (iterations) keep_progression(o.importer, argument.re, {number, *iterations, begin->constant->int_at(0), 1});
      } else {
        argument = as_inputs(o, graph, o.in[i]);
      }
    }
    if (has_effects) bodies[0].effects = graph.add_input("effects", *effects_before->type);
    FETTLE_TRY(const Tensors results, o.importer.import_region(body, arguments));
    if (!limit) {
      FETTLE_TRY(goes_on, condition_of(o, condition, results));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (ways[i] != Way::kCarried) continue;
      const RowUpdate* update = limit ? stacked_rows(o, arguments[i], results, i) : nullptr;
      if (!update) continue;
      ways[i] = update->at.step > 0 ? Way::kStacked : Way::kStackedBackwards;
      passes::Lowering g(graph, o.node);
      const Shape& shape = update->row->shape();
      rows.push_back(g.reshape(update->row, Shape(shape.begin() + 1, shape.end())));
      FETTLE_TRY_VOID(g.status());
      graph.erase(results[i].re->producer);
      graph.remove_input(
          static_cast<size_t>(std::ranges::find(graph.inputs(), arguments[i].re) - graph.inputs().begin()));
    }
    graph.add_output("condition", goes_on);
    for (size_t i = 0; i < results.size(); ++i) {
      if (ways[i] != Way::kCarried) continue;
      carried.push_back(o.in[i]);
      add_outputs(graph, {results[i]});
    }
    if (has_effects) {
      carried.push_back({.re = effects_before});
      graph.add_output("effects", bodies[0].effects);
    }
    for (Value* row : rows) graph.add_output("row", row);
    return {};
  }));
  Values inputs{limit, limit ? nullptr : first};
  std::vector<TensorType> types = types_of(carried);
  Attrs attrs{{"carried", std::ssize(types)}, {"keeps_shapes", int64_t{1}}};
  for (const Tensor& tensor : carried) for_each_part(tensor, [&](Value* part) { inputs.push_back(part); });
  for (const Value* row : rows) {
    Shape shape = row->shape();
    shape.insert(shape.begin(), Dim(*iterations));
    types.push_back({row->dtype(), std::move(shape)});
  }
  FETTLE_TRY(Values made, o.add("Loop", std::move(inputs), std::move(attrs), types, bodies));
  const Values stacks(made.end() - std::ssize(rows), made.end());
  made.resize(made.size() - rows.size());
  if (has_effects) around->effects = made.back();
  const Tensors left = with_parts(carried, made);
  Tensors results;
  size_t next = 0, next_stack = 0;
  for (size_t i = 0; i < o.in.size(); ++i) {
    Tensor& result = results.emplace_back(o.in[i]);
    if (ways[i] == Way::kCarried) result = left[next++];
    if (ways[i] == Way::kCounts) result.re = after;
    if (ways[i] == Way::kStacked) result.re = stacks[next_stack++];
    if (ways[i] == Way::kStackedBackwards) result.re = ops::reversed(o.g, stacks[next_stack++], {0});
  }
  return results;
}

// --- branches

// Those of [first, last): the lower half where the index is less than its end.
Result<Tensors> branch(OpImport& o, Value* index, size_t first, size_t last) {
  if (last - first == 1) return o.importer.import_region(o.op.regions[first], {});
  Scope* const around = &o.importer.scope();
  const size_t middle = first + (last - first) / 2;
  std::vector<Scope> bodies(2);
  const char* const names[] = {"then_branch", "else_branch"};
  const bool has_effects = std::any_of(o.op.regions.begin() + static_cast<ptrdiff_t>(first),
                                       o.op.regions.begin() + static_cast<ptrdiff_t>(last),
                                       [&](const Region& region) { return o.importer.has_effects(region); });
  Tensors results[2];
  for (const size_t k : {0, 1})
    FETTLE_TRY_VOID(o.importer.in_body(bodies[k], names[k], [&]() -> Result<> {
      Value* inside =
          index && (k == 0 ? middle - first : last - middle) > 1 ? o.importer.reach(index, around) : nullptr;
      FETTLE_TRY(results[k], branch(o, inside, k == 0 ? first : middle, k == 0 ? middle : last));
      if (has_effects) results[k].push_back({.re = o.importer.effects()});
      add_outputs(bodies[k].graph, results[k]);
      return {};
    }));
  const Node node{.name = o.node.name, .provenance = o.node.provenance};
  passes::Lowering g(around->graph, node);
  Value* is_lower = o.op.name == "stablehlo.if"
                        ? index
                        : g("Less", {index, g.cast(g.index(static_cast<int64_t>(middle)), index->dtype())});
  FETTLE_TRY_VOID(g.status());
  const std::vector<TensorType> types = types_of(results[0]);
  if (types != types_of(results[1])) return o.mistaken("its branches return tensors of different types");
  FETTLE_TRY(const Values made, o.add("If", {is_lower}, {}, types, bodies));
  if (has_effects) {
    around->effects = made.back();
    results[0].pop_back();
  }
  return with_parts(results[0], made);
}
Result<Tensors> if_branch(OpImport& o) {
  FETTLE_TRY(Value * condition, o.real(0));
  if (o.op.regions.size() != 2) return o.mistaken(fmt::format("it has {} regions", o.op.regions.size()));
  condition = o.g.reshape(condition, {});
  if (condition->is_constant())
    return o.importer.import_region(o.op.regions[condition->constant->int_at(0) != 0 ? 0 : 1], {});
  return branch(o, condition, 0, 2);
}
// An index outside is that of the last branch.
Result<Tensors> case_branch(OpImport& o) {
  FETTLE_TRY(Value * index, o.real(0));
  const size_t n = o.op.regions.size();
  if (n == 0) return o.mistaken("it has no branches");
  index = Elements(o).cast(o.g.reshape(index, {}), kI64);
  Value* last = o.g.index(static_cast<int64_t>(n) - 1);
  index = o.g("Where", {o.g("Less", {index, o.g.index(0)}), last, o.g("Min", {index, last})});
  FETTLE_TRY_VOID(o.g.status());
  if (index->is_constant())
    return o.importer.import_region(o.op.regions[static_cast<size_t>(index->constant->int_at(0))], {});
  return branch(o, index, 0, n);
}

// --- calls

Result<Tensors> function_call(OpImport& o) { return o.importer.call(o.text("callee"), o.in, o.op.location); }
// What it is called is known where it has an operator of its own; else it is what its decomposition does.
Result<Tensors> composite(OpImport& o) {
  if (o.text("decomposition").empty()) return o.refuse(fmt::format("\"{}\" without decomposition", o.text("name")));
  return o.importer.call(o.text("decomposition"), o.in, o.op.location);
}

constexpr OpEntry kControl[] = {
    {"func.call", function_call},       {"call", function_call},     {"stablehlo.case", case_branch},
    {"stablehlo.composite", composite}, {"stablehlo.if", if_branch}, {"stablehlo.while", while_loop},
};

}  // namespace

extern constinit const OpEntries control_operators{kControl};

}  // namespace fettle::stablehlo
