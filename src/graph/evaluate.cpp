#include "graph/evaluate.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <unordered_map>

#include "graph/control.h"
#include "graph/op.h"
#include "graph/strings.h"

namespace fettle {

Executor interpreter_executor(int64_t steps) {
  return [left = std::make_shared<int64_t>(steps)](const Func& func, std::span<const BufferArg> buffers) {
    return interpret(func, buffers, {}, left.get());
  };
}

namespace {

Result<std::vector<ConstantTensor>> evaluate_host(const Node& node, std::span<const ConstantTensor> inputs) {
  std::vector<void*> buffers;
  for (const ConstantTensor& input : inputs) buffers.push_back(const_cast<void*>(input.data()));  // only read
  std::vector<TensorBuilder> outputs;
  for (const Value* output : node.outputs) {
    FETTLE_TRY(TensorBuilder tensor, make_tensor(output->dtype(), output->extents()));
    buffers.push_back(tensor.bytes.get());
    outputs.push_back(std::move(tensor));
  }
  std::vector<int64_t> integers;
  for (const Dim& dim : host_integers(node)) integers.push_back(dim.value());
  FETTLE_TRY_VOID(run_host_function(node.op->host->function, buffers, integers, node.name));
  std::vector<ConstantTensor> results;
  for (TensorBuilder& tensor : outputs) results.push_back(std::move(tensor).finish());
  return results;
}

}  // namespace

Result<std::vector<ConstantTensor>> evaluate_node(const Node& node, std::span<const ConstantTensor> inputs,
                                                  const Executor& run) {
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const Value* value : *list)
      if (value && !value->is_static())
        return fail(ErrorCode::E604, fmt::format("the extents of \"{}\" are not known", value->name), node.name);
  if (is_host(node)) return evaluate_host(node, inputs);
  if (!node.op->compute) return fail(ErrorCode::E604, "sizes that only a run tells", node.name);
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
  bool is_empty = true;
  for (const Value* output : node.outputs) {
    FETTLE_TRY(TensorBuilder tensor, make_tensor(output->type->dtype, output->extents()));
    args.push_back({tensor.bytes.get(), tensor.size_bytes});
    is_empty = is_empty && tensor.size_bytes == 0;
    outputs.push_back(std::move(tensor));
  }
  // Loops of many iterations may be around one of none.
  if (!is_empty) {
    if (auto status = run(func, args); !status) {
      if (status.error().where.empty()) status.error().where = node.name;
      return fail(std::move(status.error()));
    }
  }
  std::vector<ConstantTensor> results;
  for (TensorBuilder& tensor : outputs) results.push_back(std::move(tensor).finish());
  return results;
}

namespace {

Result<std::vector<ConstantTensor>> evaluate_graph(const Graph& graph, const std::vector<ConstantTensor>& inputs,
                                                   const Executor& run);

bool truth(const ConstantTensor& value) { return value.int_at(0) != 0; }

Result<std::vector<ConstantTensor>> evaluate_loop(const LoopParts& loop,
                                                  const std::vector<std::optional<ConstantTensor>>& inputs,
                                                  const Executor& run) {
  const int64_t limit = inputs[0] ? inputs[0]->int_at(0) : INT64_MAX;
  FETTLE_TRY(TensorBuilder always, make_tensor(kBool, std::vector<int64_t>{}));
  always.elems<uint8_t>()[0] = 1;
  std::vector<ConstantTensor> values = {int_list(std::vector<int64_t>{0}),
                                        inputs[1] ? *inputs[1] : std::move(always).finish()};
  for (size_t i = 2; i < inputs.size(); ++i) values.push_back(*inputs[i]);
  std::vector<std::vector<ConstantTensor>> scanned(static_cast<size_t>(loop.n_scans));
  for (int64_t iteration = 0; iteration < limit && truth(values[1]); ++iteration) {
    values[0] = reshaped(int_list(std::vector<int64_t>{iteration}), {});
    FETTLE_TRY(std::vector<ConstantTensor> results, evaluate_graph(loop.body(), values, run));
    for (size_t i = 0; i < static_cast<size_t>(1 + loop.n_carried); ++i) values[1 + i] = std::move(results[i]);
    for (size_t i = 0; i < scanned.size(); ++i)
      scanned[i].push_back(std::move(results[static_cast<size_t>(1 + loop.n_carried) + i]));
  }
  std::vector<ConstantTensor> outputs(values.begin() + 2, values.begin() + 2 + loop.n_carried);
  for (size_t i = 0; i < scanned.size(); ++i) {
    const Value& row = *loop.scan_out(static_cast<int>(i));
    std::vector<int64_t> shape = row.extents();
    shape.insert(shape.begin(), static_cast<int64_t>(scanned[i].size()));
    FETTLE_TRY(TensorBuilder whole, make_tensor(row.dtype(), shape));
    int64_t offset = 0;
    for (const ConstantTensor& part : scanned[i]) {
      std::memcpy(whole.bytes.get() + offset, part.bytes.get(), static_cast<size_t>(part.size_bytes));
      offset += part.size_bytes;
    }
    outputs.push_back(std::move(whole).finish());
  }
  return outputs;
}

// What a node with bodies returns, from its inputs' contents (none where an input is null).
Result<std::vector<ConstantTensor>> evaluate_control(const Node& node,
                                                     const std::vector<std::optional<ConstantTensor>>& inputs,
                                                     const Executor& run) {
  if (is_loop(node)) return evaluate_loop(LoopParts(node), inputs, run);
  std::vector<ConstantTensor> arguments;
  for (size_t i = kFirstArgument; i < inputs.size(); ++i) arguments.push_back(*inputs[i]);
  return evaluate_graph(*node.bodies[truth(*inputs[0]) ? 0 : 1], arguments, run);
}

// The graph's outputs, from its inputs', each in its order.
Result<std::vector<ConstantTensor>> evaluate_graph(const Graph& graph, const std::vector<ConstantTensor>& inputs,
                                                   const Executor& run) {
  std::unordered_map<const Value*, ConstantTensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values.emplace(graph.inputs()[i], inputs[i]);
  std::unordered_map<const Value*, size_t> uses_left;
  const auto content = [&](const Value* value) -> const ConstantTensor& {
    return value->is_constant() ? *value->constant : values.at(value);
  };
  for (const Node* node : graph.nodes()) {
    std::vector<std::optional<ConstantTensor>> arguments;
    for (const Value* input : node->inputs) arguments.push_back(input ? std::optional(content(input)) : std::nullopt);
    Result<std::vector<ConstantTensor>> results;
    if (node->bodies.empty()) {
      std::vector<ConstantTensor> given;
      for (std::optional<ConstantTensor>& argument : arguments)
        if (argument) given.push_back(std::move(*argument));
      results = evaluate_node(*node, given, run);
    } else {
      results = evaluate_control(*node, arguments, run);
    }
    if (!results) return fail(std::move(results.error()));
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      uses_left[node->outputs[i]] = graph.use_count(node->outputs[i]);
      values.emplace(node->outputs[i], std::move((*results)[i]));
    }
    // What nothing needs any more is dropped.
    for (const Value* input : node->inputs)
      if (input && input->producer && --uses_left[input] == 0) values.erase(input);
  }
  std::vector<ConstantTensor> outputs;
  for (const GraphOutput& output : graph.outputs()) outputs.push_back(content(output.value));
  return outputs;
}

}  // namespace

Result<std::map<std::string, ConstantTensor>> evaluate(const Graph& graph,
                                                       const std::map<std::string, ConstantTensor>& inputs,
                                                       const Executor& run) {
  std::vector<ConstantTensor> given;
  for (const Value* input : graph.inputs()) {
    const auto it = inputs.find(input->name);
    if (it == inputs.end()) return fail(ErrorCode::E704, fmt::format("input \"{}\" is missing", input->name));
    if (!input->is_static() || it->second.dtype != input->dtype() || it->second.shape != input->extents())
      return fail(ErrorCode::E705, fmt::format("input \"{}\" is {}", input->name, input->type->to_string()));
    given.push_back(it->second);
  }
  for (const auto& [name, tensor] : inputs)
    if (!graph.find_input(name)) return fail(ErrorCode::E704, fmt::format("there is no input \"{}\"", name));
  FETTLE_TRY(std::vector<ConstantTensor> results, evaluate_graph(graph, given, run));
  std::map<std::string, ConstantTensor> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.emplace(graph.outputs()[i].name, std::move(results[i]));
  return outputs;
}

}  // namespace fettle
