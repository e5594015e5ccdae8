#include "graph/passes/match.h"

#include <numeric>

#include "graph/passes/fold_node.h"

namespace fettle::passes {

std::optional<ConstantTensor> exact_constant(std::span<const double> values, DType dtype, std::vector<int64_t> shape) {
  if (!dtype.is_float()) return {};
  auto made = to_tensor(values, dtype, std::move(shape));
  if (!made) return {};
  if (computed_dtype(dtype) != dtype)
    for (size_t i = 0; i < values.size(); ++i)
      if (made->at(static_cast<int64_t>(i)) != values[i]) return {};
  return std::move(*made);
}

std::vector<int64_t> permutation(const Node* node) {
  std::vector<int64_t> perm(static_cast<size_t>(node->inputs[0]->rank()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  return node->attrs.get_ints("perm", perm);
}

Value* reshaped_value(Graph& graph, const Node* near, Value* value, const Shape& shape) {
  if (value->shape() == shape) return value;
  const Node* made = insert(graph, near, "Reshape", {value}, reshape_attrs(shape));
  return made ? made->output() : nullptr;
}

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
  node->outputs[0]->content = known_content(*node);
  node->provenance = near->provenance;
  return node;
}

Node* insert_again(Graph& graph, const Node* node, std::vector<Value*> inputs, const Shape& shape) {
  Node* made = insert(graph, node, node->op->name, std::move(inputs), node->attrs);
  if (!made || made->output()->shape() == shape) return made;
  graph.erase(made);
  return nullptr;
}

Node* replace_with(Graph& graph, Node* old, std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
  Node* node = insert(graph, old, op, std::move(inputs), std::move(attrs));
  if (!node) return nullptr;
  const TensorType &made = *node->outputs[0]->type, &wanted = *old->outputs[0]->type;
  if (made.dtype != wanted.dtype || made.shape.size() != wanted.shape.size()) {
    graph.erase(node);
    return nullptr;
  }
  return put_in_place(graph, old, node);
}

Node* put_in_place(Graph& graph, Node* old, Node* node) {
  graph.replace_node(old, node->outputs[0]);
  if (old->erased) std::swap(old->outputs[0]->name, node->outputs[0]->name);  // the model's name for it stays
  return node;
}

}  // namespace fettle::passes
