#include "graph/passes/broadcasts.h"

#include <algorithm>
#include <optional>

#include "graph/op_util.h"
#include "graph/passes/match.h"

namespace fettle::passes {
namespace {

// What an Expand whose shape is known has repeated; null for other values.
Value* repeated(const Value* value) {
  const Node* expand = made_by(value, "Expand");
  return expand && expand->inputs.size() == 1 ? expand->input(0) : nullptr;
}

std::optional<Shape> shape_of_all(const Node& node, const std::vector<Value*>& values) {
  Shape shape;
  for (const Value* value : values) {
    auto both = ops::broadcast(node, shape, value->shape());
    if (!both) return {};
    shape = std::move(*both);
  }
  return shape;
}

}  // namespace

bool reads_repeated(const Match& m) {
  return is_pointwise(m.root()) && m.root()->outputs.size() == 1 && m.root()->inputs.size() > 0 &&
         !is(m.root(), "Expand") && !m.root()->op->is_reshape && std::ranges::any_of(m.root()->inputs, repeated);
}

bool before_expand(Graph& graph, const Match& m) {
  Node* node = m.root();
  const Shape& shape = node->output()->shape();
  std::vector<Value*> inputs = node->inputs;
  bool changed = false, all = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value* const wide = inputs[i];
    Value* const narrow = repeated(wide);
    if (!narrow) continue;
    inputs[i] = narrow;
    const auto left = shape_of_all(*node, inputs);
    if (left && *left == shape)
      changed = true;
    else
      inputs[i] = wide;
  }
  if (changed) return replace_with(graph, node, node->op->name, std::move(inputs), node->attrs);

  for (Value*& input : inputs) {
    Value* const narrow = repeated(input);
    all = all && (narrow || element_count(input->shape()) == Dim(1));
    if (narrow) input = narrow;
  }
  const auto narrow = all ? shape_of_all(*node, inputs) : std::nullopt;
  if (!narrow || *narrow == shape) return false;
  const Node* made = insert(graph, node, node->op->name, std::move(inputs), node->attrs);
  return made && replace_with(graph, node, "Expand", {made->output()}, {{"shape", dims_attr(shape)}});
}

bool is_repeated_for_elements(const Graph& graph, const Node& expand) {
  const Value* wide = expand.output();
  return expand.op->name == "Expand" && element_count(expand.input(0)->shape()) == Dim(1) &&
         graph.use_count(wide) == wide->users.size() &&
         std::ranges::all_of(wide->users, [](const Node* user) { return is_pointwise(user) && !user->op->is_reshape; });
}

}  // namespace fettle::passes
