#include <algorithm>
#include <set>

#include "graph/late_sizes.h"
#include "graph/loop_kernel.h"
#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/passes.h"
#include "graph/size_vars.h"

namespace fettle::passes {
namespace {

// Whether rules are looked at where the loop runs; a kernel looks at none.
bool has_rules(const Graph& model, const Node& loop) {
  std::set<std::string, std::less<>> runs;
  for (const Dim& dim : dims_of_attr(loop, kRunsKey)) runs.emplace(dim.symbol_name());
  return std::ranges::any_of(model.size_checks(),
                             [&](const SizeCheck& check) { return mentions_any(check.value, runs); });
}

// A kernel is given all that it reads.
void give_constants(Graph& graph, Node* loop) {
  Graph& body = *loop->bodies[0];
  std::vector<Value*> constants;
  const auto note = [&](Value* value) {
    if (value && value->is_constant() && std::ranges::find(constants, value) == constants.end())
      constants.push_back(value);
  };
  for (const Node* node : body.nodes())
    for (Value* input : node->inputs) note(input);
  for (size_t i = 1; i < body.outputs().size(); ++i) note(body.outputs()[i].value);
  for (Value* constant : constants) {
    Value* given = graph.add_constant(constant->name, *constant->constant);
    Value* taken = body.add_input(constant->name, *given->type);
    graph.set_input(loop, loop->inputs.size(), given);
    body.replace_uses(constant, taken);
  }
}

}  // namespace

Result<> fuse_loops(Graph& model, const PassContext&) {
  for_each_graph(model, [&](Graph& graph) {
    for (Node* node : std::vector<Node*>(graph.nodes())) {
      if (node->erased || !is_loop(*node) || has_rules(model, *node)) continue;
      if (!can_be_loop_kernel(*node)) continue;
      Value* limit = node->inputs[0];
      if (!ops::content_of(*limit) && !define_sizes(graph, limit, -kMaxDim, kMaxDim)) continue;
      node->attrs.erase(kRunsKey);
      give_constants(graph, node);
      node->attrs.set(std::string(kStepsKey), dims_attr({LoopParts(*node).iterations()}));
      node->bodies[0]->sort();
    }
    graph.sort();
  });
  return {};
}

}  // namespace fettle::passes
