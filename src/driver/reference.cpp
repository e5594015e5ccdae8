#include "driver/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <unordered_map>

#include "base/random.h"
#include "graph/control.h"
#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/passes/optional_passes.h"
#include "graph/work.h"

namespace fettle {
namespace {

using OperandValues = std::vector<std::optional<ConstantTensor>>;  // none: an input that is left out

Diagnostic too_much(const Node& node, double operations) {
  return {ErrorCode::E608, fmt::format("{:.0f} operations are too many to be interpreted", operations), node.name};
}

class Interpretation {
 public:
  explicit Interpretation(const ReferenceOptions& options) : options_(options), random_{options.seed} {}

  /// Called with each node at the top and what it makes, or why nothing.
  using Observer = std::function<void(const Node& node, const Result<std::vector<ConstantTensor>>& made, double depth)>;

  Result<std::vector<ConstantTensor>> run(const Graph& graph, const std::vector<ConstantTensor>& inputs,
                                          const Observer& told = {}) {
    std::unordered_map<const Value*, ConstantTensor> values;
    for (size_t i = 0; i < inputs.size(); ++i) values.emplace(graph.inputs()[i], inputs[i]);
    const auto content = [&](const Value* value) -> const ConstantTensor* {
      if (value->is_constant()) return &*value->constant;
      const auto found = values.find(value);
      return found == values.end() ? nullptr : &found->second;
    };
    for (const Node* node : graph.nodes()) {
      OperandValues given;
      bool known = true;
      for (const Value* input : node->inputs) {
        const ConstantTensor* data = input ? content(input) : nullptr;
        known = known && (!input || data);
        given.push_back(data ? std::optional(*data) : std::nullopt);
      }
      depth_ = 1;
      Result<std::vector<ConstantTensor>> made =
          known ? compute(*node, given) : Result<std::vector<ConstantTensor>>(fail(ErrorCode::E604, "", node->name));
      if (told) told(*node, made, depth_);
      if (!made && !told) return made;
      if (made)
        for (size_t i = 0; i < node->outputs.size() && i < made->size(); ++i)
          values.emplace(node->outputs[i], std::move((*made)[i]));
    }
    std::vector<ConstantTensor> results;
    for (const GraphOutput& output : graph.outputs()) {
      const ConstantTensor* data = content(output.value);
      if (!data && !told) return fail(ErrorCode::E604, "", output.name);
      if (data) results.push_back(*data);
    }
    return results;
  }

 private:
  Result<std::vector<ConstantTensor>> compute(const Node& node, const OperandValues& given) {
    if (is_branch(node)) {
      std::vector<ConstantTensor> arguments;
      for (size_t i = kFirstArgument; i < given.size(); ++i) arguments.push_back(*given[i]);
      return run(*node.bodies[given[0]->int_at(0) != 0 ? 0 : 1], arguments);
    }
    return is_loop(node) ? compute_loop(node, given) : compute_alone(node, given);
  }

  Result<std::vector<ConstantTensor>> compute_loop(const Node& node, const OperandValues& given) {
    const LoopParts loop(node);
    const int64_t limit = given[0] ? given[0]->int_at(0) : INT64_MAX;
    FETTLE_TRY(ConstantTensor go, filled(1, kBool, {}));
    if (given[1]) go = *given[1];
    std::vector<ConstantTensor> state;
    for (size_t i = 2; i < given.size(); ++i) state.push_back(*given[i]);  // carried, and captured behind them
    const auto n_carried = static_cast<size_t>(loop.n_carried), n_scans = static_cast<size_t>(loop.n_scans);
    std::vector<std::vector<ConstantTensor>> rows(n_scans);
    for (int64_t i = 0; i < limit && go.int_at(0) != 0; ++i) {
      std::vector<ConstantTensor> arguments = {reshaped(int_list(std::vector<int64_t>{i}), {}), go};
      arguments.insert(arguments.end(), state.begin(), state.end());
      FETTLE_TRY(std::vector<ConstantTensor> results, run(loop.body(), arguments));
      go = results[0];
      for (size_t k = 0; k < n_carried; ++k) state[k] = results[1 + k];
      for (size_t k = 0; k < n_scans; ++k) rows[k].push_back(results[1 + n_carried + k]);
    }
    std::vector<ConstantTensor> outputs(state.begin(), state.begin() + static_cast<int64_t>(n_carried));
    for (const auto& parts : rows) {
      if (parts.empty())
        return fail(ErrorCode::E604, "a loop of no iterations does not tell what it stacks", node.name);
      std::vector<int64_t> shape = parts[0].shape;
      shape.insert(shape.begin(), static_cast<int64_t>(parts.size()));
      FETTLE_TRY(TensorBuilder whole, make_tensor(parts[0].dtype, shape));
      int64_t at = 0;
      for (const ConstantTensor& part : parts) {
        if (part.shape != parts[0].shape) return fail(ErrorCode::E605, "rows of other shapes", node.name);
        std::memcpy(whole.bytes.get() + at, part.bytes.get(), static_cast<size_t>(part.size_bytes));
        at += part.size_bytes;
      }
      outputs.push_back(std::move(whole).finish());
    }
    return outputs;
  }

  Result<std::vector<ConstantTensor>> compute_alone(const Node& node, const OperandValues& given) {
    auto made = compute_alone(node, given, /*known=*/false);
    return made || made.error().code != ErrorCode::E604 ? std::move(made) : compute_alone(node, given, /*known=*/true);
  }

  // A graph of the node alone. Its inputs are constants where they may say what is computed; or all of them.
  Result<std::vector<ConstantTensor>> compute_alone(const Node& node, const OperandValues& given, bool known) {
    Graph alone("alone");
    std::map<std::string, ConstantTensor> contents;
    std::vector<Value*> inputs;
    std::map<const Value*, Value*> made;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i]) {
        inputs.push_back(nullptr);
        continue;
      }
      Value*& value = made[node.inputs[i]];
      if (!value) {
        const bool is_exact = node.inputs[i]->is_constant() || node.op->work == ElementWork::kMoves;
        FETTLE_TRY(ConstantTensor data, is_exact ? Result<ConstantTensor>(*given[i]) : with_noise(*given[i]));
        if (known || node.inputs[i]->is_constant() || !data.dtype.is_float()) {
          value = alone.add_constant(node.inputs[i]->name, std::move(data));
        } else {
          value = alone.add_input(node.inputs[i]->name, {data.dtype, Shape(data.shape.begin(), data.shape.end())});
          contents.emplace(value->name, std::move(data));
        }
      }
      inputs.push_back(value);
    }
    Node* copy = alone.add_copy(node, inputs);
    for (size_t i = 0; i < copy->outputs.size(); ++i) alone.add_output(fmt::format("{}", i), copy->outputs[i]);
    PassContext context;
    context.without = optional_passes();
    FETTLE_TRY_VOID(optimize(alone, context));
    FETTLE_TRY(const GraphWork work, work_of(alone));
    const double operations = work.operations.typical();
    if (operations > options_.max_operations) return fail(too_much(node, operations));
    auto results = evaluate(alone, contents, interpreter_executor());
    // What defines sizes is constant, and was computed on the way: then they are known.
    context.without.erase("fold_constants");
    for (int round = 0; known && !results && results.error().code == ErrorCode::E604 && round < kRounds; ++round) {
      FETTLE_TRY_VOID(optimize(alone, context));
      results = evaluate(alone, {}, interpreter_executor());
    }
    if (!results) return fail(std::move(results.error()));
    std::vector<ConstantTensor> outputs;
    int64_t elements = 1;
    for (size_t i = 0; i < copy->outputs.size(); ++i) {
      outputs.push_back(results->at(fmt::format("{}", i)));
      elements = std::max(elements, outputs.back().n_elems());
    }
    depth_ = std::max(1.0, operations / static_cast<double>(elements));
    return outputs;
  }

  Result<ConstantTensor> with_noise(const ConstantTensor& data) {
    if (options_.noise == 0 || !data.dtype.is_float()) return data;
    const double epsilon = options_.noise * (data.dtype == kF64   ? 0x1p-53
                                             : data.dtype == kF32 ? 0x1p-24
                                             : data.dtype == kF16 ? 0x1p-10
                                                                  : 0x1p-7);
    std::vector<double> values = to_doubles(data);
    for (double& x : values) x *= 1 + epsilon * (2 * random_.uniform() - 1);
    return to_tensor(values, data.dtype, data.shape);
  }

  static constexpr int kRounds = 3;
  const ReferenceOptions& options_;
  RandomStream random_;
  double depth_ = 1;  // of the node that was computed last
};

}  // namespace

Result<ReferenceRun> run_reference(const Graph& graph, const std::map<std::string, ConstantTensor>& inputs,
                                   const ReferenceOptions& options) {
  std::vector<ConstantTensor> given;
  for (const Value* input : graph.inputs()) {
    const auto found = inputs.find(input->name);
    if (found == inputs.end()) return fail(ErrorCode::E704, fmt::format("input \"{}\" is missing", input->name));
    given.push_back(found->second);
  }
  ReferenceRun run;
  Interpretation interpretation(options);
  const auto note = [&](const Node& node, const Result<std::vector<ConstantTensor>>& made, double depth) {
    if (!made) {
      run.left_out.push_back(&node);
      return;
    }
    for (size_t i = 0; i < node.outputs.size() && i < made->size(); ++i) {
      run.values.emplace(node.outputs[i]->name, (*made)[i]);
      run.depth.emplace(node.outputs[i]->name, depth);
    }
  };
  FETTLE_TRY_VOID(interpretation.run(graph, given, note));
  return run;
}

}  // namespace fettle
