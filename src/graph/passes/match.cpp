#include "graph/passes/match.h"

namespace fettle::passes {

Node* insert(Graph& graph, const Node* near, std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
  const OpDef* def = find_op(op);
  FETTLE_CHECK(def);
  const std::string name = near->outputs.empty() ? near->name : near->outputs[0]->name;
  Node* node = graph.add_node(def, name, std::move(inputs), std::move(attrs));
  auto types = def->infer(*node);
  if (!types) {
    graph.erase(node);
    return nullptr;
  }
  node->outputs[0]->type = std::move(types->front());
  node->provenance = near->provenance;
  return node;
}

Node* replace_with(Graph& graph, Node* old, std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
  Node* node = insert(graph, old, op, std::move(inputs), std::move(attrs));
  if (!node) return nullptr;
  const TensorType &made = *node->outputs[0]->type, &wanted = *old->outputs[0]->type;
  if (made.dtype != wanted.dtype || made.shape.size() != wanted.shape.size()) {
    graph.erase(node);
    return nullptr;
  }
  graph.replace_node(old, node->outputs[0]);
  if (old->erased) std::swap(old->outputs[0]->name, node->outputs[0]->name);  // the model's name for it stays
  return node;
}

}  // namespace fettle::passes
