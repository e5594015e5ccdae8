#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph.h"
#include "graph/op.h"

namespace fettle {
namespace {

tl::unexpected<Diagnostic> broken(const Node& node, std::string message) {
  return fail(ErrorCode::E605, std::move(message), node.name);
}

Result<> check_links(const Graph& graph) {
  std::unordered_set<const Value*> made(graph.inputs().begin(), graph.inputs().end());
  std::unordered_set<std::string> names;
  for (const Value* input : graph.inputs()) names.insert(input->name);
  std::unordered_map<const Value*, std::unordered_map<const Node*, int>> uses;
  for (const Node* node : graph.nodes()) {
    const int n_inputs = static_cast<int>(node->inputs.size());
    if (n_inputs < node->op->min_inputs || (node->op->max_inputs >= 0 && n_inputs > node->op->max_inputs))
      return broken(*node, fmt::format("{} has {} inputs", node->op->name, n_inputs));
    if (node->op->n_outputs >= 0 && static_cast<int>(node->outputs.size()) > node->op->n_outputs)
      return broken(*node, fmt::format("{} has {} outputs", node->op->name, node->outputs.size()));
    for (int i = 0; i < n_inputs; ++i) {
      const Value* input = node->inputs[static_cast<size_t>(i)];
      if (!input) {
        if (i < node->op->min_inputs) return broken(*node, fmt::format("{} lacks input {}", node->op->name, i));
        continue;
      }
      if (!input->is_constant() && !made.count(input))
        return broken(*node, fmt::format("{} is used before it is made", input->name));
      ++uses[input][node];
    }
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const Value* output = node->outputs[i];
      if (output->producer != node || output->producer_output != static_cast<int>(i))
        return broken(*node, fmt::format("{} does not know its producer", output->name));
      if (!names.insert(output->name).second) return broken(*node, fmt::format("{} is made twice", output->name));
      made.insert(output);
    }
  }
  for (const auto& [value, by_node] : uses)
    for (const auto& [node, count] : by_node)
      if (std::count(value->users.begin(), value->users.end(), node) != count)
        return broken(*node, fmt::format("{} does not know its users", value->name));
  for (const GraphOutput& output : graph.outputs())
    if (!output.value || (!output.value->is_constant() && !made.count(output.value)))
      return fail(ErrorCode::E605, fmt::format("nothing makes the output {}", output.name), graph.name());
  return {};
}

// A value's type must be what its operator's rule says; a dim that is a symbol there may have been found since.
bool agrees(const TensorType& stated, const TensorType& inferred) {
  if (stated.dtype != inferred.dtype || stated.shape.size() != inferred.shape.size()) return false;
  for (size_t i = 0; i < stated.shape.size(); ++i)
    if (stated.shape[i].is_number() && inferred.shape[i].is_number() && !(stated.shape[i] == inferred.shape[i]))
      return false;
  return true;
}

Result<> check_types(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    for (const Value* input : node->inputs)
      if (input && !input->type) return broken(*node, fmt::format("{} has no type", input->name));
    FETTLE_TRY(const auto types, node->op->infer(*node));
    if (types.size() < node->outputs.size()) return broken(*node, "an output has no type");
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const Value& output = *node->outputs[i];
      if (!output.type) return broken(*node, fmt::format("{} has no type", output.name));
      if (!agrees(*output.type, types[i]))
        return broken(*node, fmt::format("{} is {}, but {} makes {}", output.name, output.type->to_string(),
                                         node->op->name, types[i].to_string()));
    }
  }
  return {};
}

}  // namespace

Result<> validate(const Graph& graph, bool typed) {
  for (const Node* node : graph.nodes())
    for (const auto& body : node->bodies) {
      FETTLE_TRY_VOID(validate(*body, typed));
      if (typed)
        for (const Value* input : body->inputs())
          if (!input->type) return broken(*node, fmt::format("{} of its body has no type", input->name));
    }
  FETTLE_TRY_VOID(check_links(graph));
  if (typed) FETTLE_TRY_VOID(check_types(graph));
  return {};
}

}  // namespace fettle
