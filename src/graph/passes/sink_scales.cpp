#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/view.h"

namespace fettle::passes {
namespace {

// The scaling behind an operand of a product, seen through views that only lead here, if no kernel would take it along.
Node* lone_scale(const Graph& graph, const Value* operand) {
  while (operand->producer && graph.use_count(operand) == 1 && !is(operand->producer, "Mul")) {
    const Node* view = operand->producer;
    if (!may_be_view(*view) || view->inputs.size() != 1 || view->outputs.size() != 1) return nullptr;
    operand = view->input(0);
  }
  Node* scale = made_only_for_us(graph, operand, "Mul");
  const auto found = scale ? operands(scale, [](const Value* v) { return as_scalar(v).has_value(); }) : std::nullopt;
  if (!found || found->second->type != scale->output()->type || found->second->is_constant()) return nullptr;
  const Node* before = found->second->producer;
  const bool joins = before && before->op->fusion != FusionKind::kInjective && graph.use_count(found->second) == 1;
  return joins ? nullptr : scale;
}

}  // namespace

Result<> sink_scales(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (!is(node, "MatMul")) continue;
    const auto is_number = [](const Value* v) { return as_scalar(v).has_value(); };
    double factor = 1;
    std::vector<Node*> scales;
    for (const Value* operand : node->inputs)
      if (Node* scale = lone_scale(graph, operand)) {
        factor *= *as_scalar(operands(scale, is_number)->first);
        scales.push_back(scale);
      }
    if (scales.empty()) continue;
    // One factor where the type has it; else each by itself, which it has.
    const DType dtype = node->output()->dtype();
    std::vector<ConstantTensor> factors;
    if (auto one = exact_scalar(factor, dtype)) {
      factors.push_back(std::move(*one));
    } else {
      for (const Node* scale : scales) factors.push_back(reshaped(*operands(scale, is_number)->first->constant, {}));
    }
    for (Node* scale : scales) {
      graph.replace_uses(scale->output(), operands(scale, is_number)->second);
      graph.erase(scale);
    }
    for (ConstantTensor& constant : factors) {
      Value* product = node->output();
      Value* number = graph.add_constant(product->name + ".scale", std::move(constant));
      Node* scaled = graph.add_node(find_op("Mul"), product->name, {number, number});
      scaled->output()->type = product->type;
      graph.replace_uses(product, scaled->output());
      graph.set_input(scaled, 0, product);
      for (const Node* scale : scales) merge_provenance(scaled, scale);
      std::swap(product->name, scaled->output()->name);  // the model's name for the result stays
    }
  }
  return {};
}

}  // namespace fettle::passes
