#include "graph/evaluate.h"

#include <fmt/format.h>

#include <unordered_map>

#include "graph/op.h"

namespace fettle {

Executor interpreter_executor() {
  return [](const Func& func, std::span<const BufferArg> buffers) { return interpret(func, buffers); };
}

Result<std::vector<ConstantTensor>> evaluate_node(const Node& node, std::span<const ConstantTensor> inputs,
                                                  const Executor& run) {
  FETTLE_TRY(const Func func, node_func(node));
  std::vector<BufferArg> args;
  std::unordered_map<const Value*, bool> seen;
  size_t next = 0;
  for (const Value* input : node.inputs) {
    if (!input) continue;
    const ConstantTensor& data = inputs[next++];
    FETTLE_CHECK(data.dtype == input->type->dtype && data.shape == input->extents());
    if (!seen.emplace(input, true).second) continue;
    args.push_back({const_cast<std::byte*>(data.bytes.get()), data.size_bytes});  // inputs are only read
  }
  FETTLE_CHECK(next == inputs.size());
  std::vector<TensorBuilder> outputs;
  for (const Value* output : node.outputs) {
    FETTLE_TRY(TensorBuilder tensor, make_tensor(output->type->dtype, output->extents()));
    args.push_back({tensor.bytes.get(), tensor.size_bytes});
    outputs.push_back(std::move(tensor));
  }
  if (auto status = run(func, args); !status) {
    if (status.error().where.empty()) status.error().where = node.name;
    return fail(std::move(status.error()));
  }
  std::vector<ConstantTensor> results;
  for (TensorBuilder& tensor : outputs) results.push_back(std::move(tensor).finish());
  return results;
}

Result<std::map<std::string, ConstantTensor>> evaluate(const Graph& graph,
                                                       const std::map<std::string, ConstantTensor>& inputs,
                                                       const Executor& run) {
  std::unordered_map<const Value*, ConstantTensor> values;
  for (const Value* input : graph.inputs()) {
    const auto it = inputs.find(input->name);
    if (it == inputs.end()) return fail(ErrorCode::E704, fmt::format("input \"{}\" is missing", input->name));
    if (!input->is_static() || it->second.dtype != input->dtype() || it->second.shape != input->extents())
      return fail(ErrorCode::E705, fmt::format("input \"{}\" is {}", input->name, input->type->to_string()));
    values.emplace(input, it->second);
  }
  for (const auto& [name, tensor] : inputs)
    if (!graph.find_input(name)) return fail(ErrorCode::E704, fmt::format("there is no input \"{}\"", name));

  std::unordered_map<const Value*, size_t> uses_left;
  const auto content = [&](const Value* value) -> const ConstantTensor& {
    return value->is_constant() ? *value->constant : values.at(value);
  };
  for (const Node* node : graph.nodes()) {
    std::vector<ConstantTensor> arguments;
    for (const Value* input : node->inputs)
      if (input) arguments.push_back(content(input));
    FETTLE_TRY(auto results, evaluate_node(*node, arguments, run));
    for (size_t i = 0; i < results.size(); ++i) {
      uses_left[node->outputs[i]] = graph.use_count(node->outputs[i]);
      values.emplace(node->outputs[i], std::move(results[i]));
    }
    // What nothing needs any more is dropped.
    for (const Value* input : node->inputs)
      if (input && input->producer && --uses_left[input] == 0) values.erase(input);
  }
  std::map<std::string, ConstantTensor> outputs;
  for (const GraphOutput& output : graph.outputs()) outputs.emplace(output.name, content(output.value));
  return outputs;
}

}  // namespace fettle
