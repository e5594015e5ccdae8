#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// Moves what a loop's body computes from captured values alone before the loop; what must not run where nothing needs
// it, only if there is an iteration.
void hoist(Graph& graph, Node* loop) {
  Graph& body = *loop->bodies[0];
  const size_t first = LoopParts(*loop).first_captured();
  const bool may_have_none = LoopParts(*loop).iterations().min() < 1;
  // What speaks of sizes that the body alone has stays there.
  std::set<std::string, std::less<>> inner_sizes = sizes_of_body(*loop, 0);
  std::unordered_map<const Value*, Value*> outside;
  for (size_t i = first; i < loop->inputs.size(); ++i) outside[body.inputs()[i]] = loop->inputs[i];
  for (Node* node : std::vector<Node*>(body.nodes())) {
    if (may_have_none && node->op->is_partial && node->op->is_partial(*node)) continue;
    bool reads_captured = false, invariant = !node->erased && node->bodies.empty();
    for (const Value* input : node->inputs) {
      if (!input || input->is_constant()) continue;
      reads_captured = true;
      invariant = invariant && outside.contains(input);
    }
    if (!invariant || !reads_captured) continue;
    for (const Dim& size : defined_sizes(*node)) inner_sizes.erase(std::string(size.symbol_name()));
    for_each_size(*node, [&](std::string_view size) { invariant = invariant && !inner_sizes.contains(size); });
    if (!invariant) continue;
    std::vector<Value*> inputs;
    for (Value* input : node->inputs)
      inputs.push_back(!input                 ? nullptr
                       : input->is_constant() ? graph.add_constant(input->name, *input->constant)
                                              : outside.at(input));
    const Node* made = graph.add_copy(*node, std::move(inputs));
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      Value* output = node->outputs[i];
      Value* taken = body.add_input(output->name, *output->type);
      taken->content = output->content;
      graph.set_input(loop, loop->inputs.size(), made->outputs[i]);
      outside[taken] = made->outputs[i];
      body.replace_uses(output, taken);
    }
    body.erase(node);
  }
}

// A condition that is always true is one in the body; one that isn't has a beginning.
void settle_condition(Graph& graph, Node* node) {
  const LoopParts loop(*node);
  Graph& body = *node->bodies[0];
  const ConstantTensor yes = scalar(1, kBool);
  if (loop.is_counted()) {
    if (body.use_count(loop.condition_in()) > 0) body.replace_uses(loop.condition_in(), body.add_constant("true", yes));
  } else if (!loop.first_condition()) {
    graph.set_input(node, 1, graph.add_constant("true", yes));
  }
}

}  // namespace

Result<> settle_bodies(Graph& graph, const PassContext& context) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (node->erased || node->bodies.empty()) continue;
    settle_captured(graph, node);
    for (const auto& body : node->bodies) {
      FETTLE_TRY_VOID(settle_bodies(*body, context));
      body->sort();
    }
    if (is_loop(*node)) {
      settle_condition(graph, node);
      hoist(graph, node);
    }
    settle_captured(graph, node);
    for (const auto& body : node->bodies) body->sort();
  }
  return {};
}

}  // namespace fettle::passes
