#include <optional>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/view.h"

namespace fettle::passes {
namespace {

// x * factor, or x / (1 / factor).
struct Scaling {
  Node* node = nullptr;
  Value* x = nullptr;
  double factor = 1;
};

std::optional<Scaling> scaling_of(Node* node) {
  if (is(node, "Div"))
    if (const auto by = as_scalar(node->inputs[1])) return Scaling{node, node->inputs[0], 1 / *by};
  if (!is(node, "Mul")) return std::nullopt;
  const auto found = operands(node, [](const Value* v) { return as_scalar(v).has_value(); });
  return found ? std::optional(Scaling{node, found->second, *as_scalar(found->first)}) : std::nullopt;
}

// The scaling behind an operand of a product, seen through views that only lead here, if no kernel would take it along.
std::optional<Scaling> lone_scaling(const Graph& graph, const Value* operand) {
  while (operand->producer && graph.use_count(operand) == 1 && !is(operand->producer, "Mul") &&
         !is(operand->producer, "Div")) {
    const Node* view = operand->producer;
    if (!may_be_view(*view) || view->inputs.size() != 1 || view->outputs.size() != 1) return std::nullopt;
    operand = view->input(0);
  }
  if (!operand->producer || graph.use_count(operand) != 1) return std::nullopt;
  const auto found = scaling_of(operand->producer);
  if (!found || found->x->type != operand->type || found->x->is_constant()) return std::nullopt;
  const Node* before = found->x->producer;
  const bool joins = before && before->op->fusion != FusionKind::kInjective && graph.use_count(found->x) == 1;
  return joins ? std::nullopt : found;
}

}  // namespace

Result<> sink_scales(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (!is(node, "MatMul")) continue;
    std::vector<Scaling> scalings;
    for (const Value* operand : node->inputs)
      if (const auto scaling = lone_scaling(graph, operand)) scalings.push_back(*scaling);
    if (scalings.empty()) continue;
    // One factor where the type has it; else each by itself.
    const DType dtype = node->output()->dtype();
    double whole = 1;
    for (const Scaling& scaling : scalings) whole *= scaling.factor;
    std::vector<ConstantTensor> factors;
    if (auto one = exact_scalar(whole, dtype)) {
      factors.push_back(std::move(*one));
    } else {
      for (const Scaling& scaling : scalings)
        if (auto own = exact_scalar(scaling.factor, dtype)) factors.push_back(std::move(*own));
      if (factors.size() != scalings.size()) continue;
    }
    for (const Scaling& scaling : scalings) {
      graph.replace_uses(scaling.node->output(), scaling.x);
      graph.erase(scaling.node);
    }
    for (ConstantTensor& constant : factors) {
      Value* product = node->output();
      Value* number = graph.add_constant(product->name + ".scale", std::move(constant));
      Node* scaled = graph.add_node(find_op("Mul"), product->name, {number, number});
      scaled->output()->type = product->type;
      graph.replace_uses(product, scaled->output());
      graph.set_input(scaled, 0, product);
      for (const Scaling& scaling : scalings) merge_provenance(scaled, scaling.node);
      std::swap(product->name, scaled->output()->name);  // the model's name for the result stays
    }
  }
  return {};
}

}  // namespace fettle::passes
