#include "graph/ops/bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/control.h"

namespace fettle::ops {
namespace {

using passes::LoopBuilder;
using passes::NodeBuilder;

bool is_elementwise(const Graph& body, const Values& captured) {
  const auto is_one = [](const Value* value) { return value && value->rank() == 0; };
  const auto may_be_read = [](const Value* value) {
    return !value || !value->is_constant() || value->constant->shape.empty();
  };
  // What an operator takes as a parameter, as Clip does its limits, is one number for all elements.
  const auto has_parameters = [](const Node* node) {
    return std::ranges::all_of(node->op->params, [&](const ParamInput& param) {
      const Value* input = node->input(static_cast<size_t>(param.index));
      return !input || input->is_constant();
    });
  };
  const auto is_plain = [&](const Node* node) {
    return node->erased ||
           (node->op->is_pointwise && has_parameters(node) && std::ranges::all_of(node->inputs, may_be_read));
  };
  return std::ranges::all_of(captured, is_one) && std::ranges::all_of(body.nodes(), is_plain) &&
         std::ranges::all_of(body.outputs(), [&](const GraphOutput& out) { return may_be_read(out.value); });
}

Values inlined(NodeBuilder& nodes, const ElementBody& body, const Values& arguments) {
  std::vector<Node*> added;
  Values results = inline_body(nodes.graph(), *body.graph, arguments, body.node->provenance, &added);
  for (Node* made : added) {
    nodes.remember(made);
    // What the model says of values is for one element.
    for (Value* output : made->outputs) output->declared.reset();
  }
  return results;
}

Value* in_shape(NodeBuilder& nodes, Value* x, const Shape& shape, const char* op = "Expand") {
  Attrs attrs{{"shape", dims_attr(shape)}};
  if (op == std::string_view("Reshape")) attrs.set("allowzero", int64_t{1});
  return nodes.value(op, "result", {x}, std::move(attrs));
}

// One element of a result that goes through what changes nothing.
const Value* beneath(const Value* value) {
  while (value->producer && value->producer->op->name == "Identity") value = value->producer->input(0);
  return value;
}
struct Converted {
  const Value* value;
  std::optional<DType> to;  // nothing: it is not converted
};
Converted conversion(const Value* value) {
  value = beneath(value);
  if (!value->producer || value->producer->op->name != "Cast") return {value, {}};
  return {beneath(value->producer->input(0)), element_type(value->producer->attrs.get_int("to", 0))};
}
// All numbers of `from` are numbers of `to`, and what is computed of them there rounds, or wraps, to what it is.
bool holds_all(DType from, DType to) {
  if (from == to) return true;
  if (from.is_float() && to.is_float()) return !from.is_small_float() && from.bits < 32 && to.bits >= 32;
  return from.is_int() && to.is_int() && from.code == to.code && from.bits >= 8 && from.bits < to.bits;
}
std::optional<size_t> input_number(const Graph& body, const Value* value) {
  const auto found = std::ranges::find(body.inputs(), value);
  if (found == body.inputs().end()) return {};
  return static_cast<size_t>(found - body.inputs().begin());
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kReducers{{{"Add", "ReduceSum"},
                                                                                  {"Mul", "ReduceProd"},
                                                                                  {"Min", "ReduceMin"},
                                                                                  {"Max", "ReduceMax"},
                                                                                  {"And", "ReduceMin"},
                                                                                  {"Or", "ReduceMax"}}};

}  // namespace

Result<ElementBody> element_body(const Node& node, std::string_view name, size_t n_inputs, size_t n_elements,
                                 size_t n_results) {
  const auto found = std::ranges::find_if(node.bodies, [&](const auto& body) { return body->name() == name; });
  if (found == node.bodies.end()) return bad_attribute(node, fmt::format("it has no graph \"{}\"", name));
  const Graph& graph = **found;
  const size_t captured = node.inputs.size() - std::min(n_inputs, node.inputs.size());
  if (graph.inputs().size() != n_elements + captured || graph.outputs().size() != n_results)
    return bad_attribute(node, fmt::format("\"{}\" takes {} elements and returns {}, not {} and {}", graph.name(),
                                           graph.inputs().size() - std::min(captured, graph.inputs().size()),
                                           graph.outputs().size(), n_elements, n_results));
  Values values(node.inputs.end() - static_cast<int64_t>(captured), node.inputs.end());
  const bool elementwise = is_elementwise(graph, values);
  return ElementBody{&node, &graph, std::move(values), elementwise};
}

ElementBody captured_by(LoopBuilder& loop, ElementBody body) {
  for (Value*& value : body.captured) value = loop.capture("captured", value);
  return body;
}

Values of_elements(NodeBuilder& nodes, const ElementBody& body, const Values& elements, const Shape& shape) {
  if (body.is_elementwise || shape.empty()) {
    Values results = inlined(nodes, body, joined(elements, body.captured));
    for (Value*& result : results) result = in_shape(nodes, result, shape, shape.empty() ? "Reshape" : "Expand");
    return results;
  }
  const Dim count = element_count(shape);
  LoopBuilder loop(nodes, size_value(nodes, count));
  Values arguments;
  for (Value* x : elements)
    arguments.push_back(loop.body().pick("element", loop.capture("elements", in_shape(nodes, x, {count}, "Reshape")),
                                         loop.iteration()));
  arguments = joined(arguments, captured_by(loop, body).captured);
  std::vector<LoopBuilder::Result> rows;
  for (Value* result : inlined(loop.body(), body, arguments))
    rows.push_back({"row", in_shape(loop.body(), result, {}, "Reshape")});
  Values results;
  for (Value* made : loop.finish(body.node->name + ".elements", {}, rows)->outputs)
    results.push_back(in_shape(nodes, made, shape, "Reshape"));
  return results;
}

std::optional<Operation> operation_of(const ElementBody& body, size_t i, size_t left, size_t right, DType dtype) {
  const Converted result = conversion(body.graph->outputs()[i].value);
  const Node* node = result.value->producer;
  if (!node || node->inputs.size() != 2 || !node->inputs[0] || !node->inputs[1]) return {};
  const auto known = std::ranges::find(kReducers, node->op->name == "Sum" ? "Add" : node->op->name,
                                       &std::pair<std::string_view, std::string_view>::first);
  const bool of_truths = known != kReducers.end() && (known->first == "And" || known->first == "Or");
  if (known == kReducers.end() || of_truths != dtype.is_bool()) return {};
  const Converted a = conversion(node->inputs[0]), b = conversion(node->inputs[1]);
  const auto x = input_number(*body.graph, a.value), y = input_number(*body.graph, b.value);
  const bool in_order = x == left && y == right, swapped = x == right && y == left;
  if (!in_order && !swapped) return {};
  const DType inside = a.to.value_or(dtype);
  if (b.to.value_or(dtype) != inside || result.to.value_or(inside) != dtype || !holds_all(dtype, inside)) return {};
  return Operation{known->first, inside};
}

std::optional<size_t> chosen_element(const ElementBody& body, size_t i) {
  return input_number(*body.graph, beneath(body.graph->outputs()[i].value));
}

std::optional<Comparison> comparison_of(const ElementBody& body) {
  const Node* node = beneath(body.graph->outputs()[0].value)->producer;
  if (!node || (node->op->name != "Less" && node->op->name != "Greater")) return {};
  const auto x = input_number(*body.graph, beneath(node->inputs[0])),
             y = input_number(*body.graph, beneath(node->inputs[1]));
  if (!x || !y || *x == *y) return {};
  return Comparison{*x, *y, node->op->name == "Less"};
}

bool is_neutral(const Value& x, std::string_view op) {
  if (!x.is_constant() || x.constant->n_elems() != 1) return false;
  const DType dtype = x.constant->dtype;
  const double value = x.constant->at(0);
  if (op == "Add") return value == 0;
  if (op == "Mul" || op == "And") return value == 1;
  if (op == "Or") return value == 0;
  const Expr limit = op == "Max" ? te::lowest(dtype) : te::highest(dtype);
  const auto* number = limit.as<FloatImmNode>();
  return dtype.is_float() && number && value == number->value;
}

std::string_view reducer_of(std::string_view op) {
  return std::ranges::find(kReducers, op, &std::pair<std::string_view, std::string_view>::first)->second;
}

Value* size_value(NodeBuilder& nodes, const Dim& dim) {
  if (dim.is_number()) return nodes.number("size", dim.value());
  Value* list = nodes.value("SizeList", "sizes", {}, {{"sizes", dims_attr({dim})}});
  return in_shape(nodes, list, {}, "Reshape");
}

Values typed(const Node* node, const std::vector<TensorType>& types) {
  for (size_t i = 0; i < types.size(); ++i) node->outputs[i]->type = types[i];
  return node->outputs;
}

}  // namespace fettle::ops
