#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace fettle {
namespace {

tl::unexpected<Diagnostic> broken(const Node& node, std::string message) {
  return fail(ErrorCode::E605, std::move(message), node.name);
}

// Each name once. Tables of texts would take longer than all else here.
Result<> check_names(const std::vector<const Value*>& values) {
  std::vector<std::pair<size_t, const Value*>> hashes;
  hashes.reserve(values.size());
  for (const Value* value : values) hashes.emplace_back(std::hash<std::string_view>()(value->name), value);
  std::ranges::sort(hashes);
  for (size_t i = 0; i < hashes.size(); ++i)
    for (size_t k = i + 1; k < hashes.size() && hashes[k].first == hashes[i].first; ++k)
      if (hashes[k].second->name == hashes[i].second->name)
        return fail(ErrorCode::E605, fmt::format("{} is made twice", hashes[i].second->name));
  return {};
}

Result<> check_links(const Graph& graph) {
  std::vector<const Value*> inputs(graph.inputs().begin(), graph.inputs().end());
  std::ranges::sort(inputs);
  const auto& nodes = graph.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->position = i;
  const auto is_made_before = [&](const Value* value, size_t position) {
    const Node* producer = value->producer;
    if (value->is_constant()) return true;
    if (!producer) return std::ranges::binary_search(inputs, value);
    return producer->position < position && nodes[producer->position] == producer;
  };
  std::vector<std::pair<const Value*, const Node*>> uses;
  std::vector<const Value*> named = inputs;
  for (const Node* node : nodes) {
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
      if (!is_made_before(input, node->position))
        return broken(*node, fmt::format("{} is used before it is made", input->name));
      uses.emplace_back(input, node);
    }
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const Value* output = node->outputs[i];
      if (output->producer != node || output->producer_output != static_cast<int>(i))
        return broken(*node, fmt::format("{} does not know its producer", output->name));
      named.push_back(output);
    }
  }
  FETTLE_TRY_VOID(check_names(named));
  std::ranges::sort(uses);
  std::vector<const Node*> users, known;
  for (size_t i = 0; i < uses.size(); i += users.size()) {
    const Value* value = uses[i].first;
    users.clear();
    for (size_t k = i; k < uses.size() && uses[k].first == value; ++k) users.push_back(uses[k].second);
    known.assign(value->users.begin(), value->users.end());
    std::ranges::sort(known);
    if (users != known) return broken(*users[0], fmt::format("{} does not know its users", value->name));
  }
  std::unordered_map<const Value*, int> output_uses;
  for (const GraphOutput& output : graph.outputs())
    if (!output.value || !is_made_before(output.value, nodes.size()))
      return fail(ErrorCode::E605, fmt::format("nothing makes the output {}", output.name), graph.name());
    else
      ++output_uses[output.value];
  for (const auto& [value, count] : output_uses)
    if (value->output_uses != count)
      return fail(ErrorCode::E605, fmt::format("{} does not know its uses as an output", value->name), graph.name());
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
