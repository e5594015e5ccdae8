#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {

Result<> drop_second_abs(Graph& graph, const PassContext&) {
  for (const Node* node : graph.nodes())
    if (is(node, "Abs") && made_by(node->inputs[0], "Abs")) graph.replace_uses(node->outputs[0], node->inputs[0]);
  return {};
}

}  // namespace fettle::passes
