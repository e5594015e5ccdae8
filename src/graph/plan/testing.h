#pragma once
// For tests: what a plan computes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arith/int_eval.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "graph/strings.h"
#include "ir/interpret.h"

namespace fettle {

/// Optimises the graph, and plans it with its memory.
inline Result<Plan> optimised_plan(Graph& graph) {
  FETTLE_TRY_VOID(optimize(graph));
  FETTLE_TRY_VOID(require_sizes(graph));
  FETTLE_TRY(Plan plan, make_plan(graph));
  assign_memory(plan, [](int) { return true; });
  return plan;
}

/// Bytes that the plan's calls write to states, where sizes are these.
inline int64_t state_bytes_written(const Plan& plan, const std::map<std::string, int64_t>& sizes) {
  const auto number = [&](const Dim& dim) {
    return dim.substitute([&](std::string_view size) { return std::optional<Dim>(sizes.at(std::string(size))); })
        .value();
  };
  int64_t bytes = 0;
  for (const PlannedCall& call : plan.calls) {
    const Func& func = plan.workloads[static_cast<size_t>(call.workload)].func;
    IntEnv ints;
    for (size_t i = 0; i < call.sizes.size(); ++i) ints.set(func->int_params[i].var.get(), number(call.sizes[i]));
    for (size_t p = 0; p < call.operands.size(); ++p) {
      const Param& param = func->params[p];
      const Storage& written = plan.storages[static_cast<size_t>(whole_of(plan, call.operands[p].storage))];
      if (param.kind == ParamKind::kInput || written.kind != Storage::Kind::kState) continue;
      int64_t count = param.buffer->dtype.element_bytes();
      for (const Expr& extent : param.buffer->shape) count *= evaluate_int(extent, ints).value();
      bytes += count;
    }
  }
  return bytes;
}

/// Runs a plan's steps, each call by the interpreter, on one arena.
class PlanRunner {
 public:
  PlanRunner(const Graph& graph, const Plan& plan, const std::map<std::string, ConstantTensor>& inputs)
      : graph_(graph), plan_(plan), inputs_(inputs), counters_(static_cast<size_t>(plan.n_loops)) {
    for (const Value* input : graph.inputs())
      for (size_t d = 0; d < input->shape().size(); ++d)
        if (const auto size = input->shape()[d].symbol_name(); !size.empty())
          sizes_[std::string(size)] = inputs.at(input->name).shape[d];
    arenas_.resize(plan.stages.size() + 1);
    set_places(plan.places);
    arenas_[0].assign(static_cast<size_t>(number(plan.arena_bytes)), std::byte{0xff});
    outputs_.resize(graph.outputs().size());
  }

  /// The model's outputs.
  std::map<std::string, ConstantTensor> run() {
    run(plan_.steps);
    std::map<std::string, ConstantTensor> results;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      output(i);
      results[graph_.outputs()[i].name] = std::move(*outputs_[i]).finish();
    }
    return results;
  }

  /// Which of the graph's rules the inputs' sizes break, if any: then nothing may be run.
  std::optional<std::string> broken_rule() const {
    for (const SizeCheck& check : graph_.size_checks()) {
      bool is_known = true;
      check.value.for_each_symbol(
          [&](const Dim& size) { is_known = is_known && sizes_.contains(std::string(size.symbol_name())); });
      if (is_known && (check.is_zero ? number(check.value) != 0 : number(check.value) < 0)) return check.message;
    }
    return {};
  }

 private:
  void set_places(const std::vector<ArenaPlace>& places) {
    for (const ArenaPlace& place : places) {
      int64_t most = 0;
      for (const Dim& end : place.ends) most = std::max(most, number(end));
      sizes_[place.offset.to_string()] = most;
    }
  }

  // Made when it is first used: its sizes are known then. It has others after each iteration of a loop that carries it.
  TensorBuilder& output(size_t i) {
    const Value& value = *graph_.outputs()[i].value;
    std::vector<int64_t> shape;
    for (const Dim& dim : value.shape()) shape.push_back(number(dim));
    if (outputs_[i] && outputs_[i]->shape == shape) return *outputs_[i];
    TensorBuilder made = make_tensor(value.dtype(), std::move(shape)).value();
    if (outputs_[i])
      std::memcpy(made.bytes.get(), outputs_[i]->bytes.get(),
                  static_cast<size_t>(std::min(made.size_bytes, outputs_[i]->size_bytes)));
    outputs_[i] = std::move(made);
    return *outputs_[i];
  }

  int64_t number(const Dim& dim) const {
    return dim.substitute([&](std::string_view size) { return std::optional<Dim>(sizes_.at(std::string(size))); })
        .value();
  }

  std::byte* address_of(const Operand& operand) {
    const Storage& storage = plan_.storages[static_cast<size_t>(operand.storage)];
    if (storage.in_place_of >= 0) return address_of({storage.in_place_of, operand.offset_bytes});
    const std::byte* at = nullptr;
    switch (storage.kind) {
      case Storage::Kind::kInput:
        at = inputs_.at(graph_.inputs()[static_cast<size_t>(storage.index)]->name).bytes.get();
        break;
      case Storage::Kind::kOutput:
        at = output(static_cast<size_t>(storage.index)).bytes.get();
        break;
      case Storage::Kind::kArena:
        at = arenas_[static_cast<size_t>(storage.stage)].data() + number(storage.offset_bytes);
        break;
      case Storage::Kind::kState:
        states_[storage.index].resize(static_cast<size_t>(number(storage.size_bytes)));
        at = states_[storage.index].data();
        break;
      case Storage::Kind::kConstant:
        at = storage.content()->bytes.get();
        break;
      case Storage::Kind::kCounter:
        at = reinterpret_cast<const std::byte*>(&counters_[static_cast<size_t>(storage.index)]);
        break;
      case Storage::Kind::kWindow:
        at = address_of({storage.base, storage.offset_bytes});
        if (storage.loop >= 0) at += number(storage.step_bytes) * counters_[static_cast<size_t>(storage.loop)];
        break;
    }
    return const_cast<std::byte*>(at + number(operand.offset_bytes));
  }

  bool is_true(const Operand& operand) { return *address_of(operand) != std::byte{0}; }

  int64_t limit_of(const PlanStep& step) {
    if (step.limit) return number(*step.limit);
    if (step.limit_at.storage < 0) return INT64_MAX;
    int64_t limit = 0;
    std::memcpy(&limit, address_of(step.limit_at), sizeof limit);
    return limit;
  }

  void reach(const PlanStep& step) {
    const SizeStage& stage = plan_.stages[static_cast<size_t>(step.stage) - 1];
    std::vector<int64_t> read;
    for (const PlannedInteger& integer : step.read) {
      int64_t value = integer.number;
      if (integer.at.storage >= 0 && integer.bytes == 4) {
        int32_t narrow = 0;
        std::memcpy(&narrow, address_of(integer.at), sizeof narrow);
        value = narrow;
      } else if (integer.at.storage >= 0) {
        std::memcpy(&value, address_of(integer.at), sizeof value);
      }
      read.push_back(std::clamp(value, -kMaxDim, kMaxDim));
    }
    for (size_t i = 0; i < read.size(); ++i)
      if (!stage.sizes[i].symbol_name().empty()) sizes_[std::string(stage.sizes[i].symbol_name())] = read[i];
    for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(number(stage.sizes[i]), read[i]);
    set_places(stage.places);
    std::vector<std::byte>& arena = arenas_[static_cast<size_t>(step.stage)];
    if (!stage.keeps) arena.clear();
    arena.resize(static_cast<size_t>(number(stage.arena_bytes)), std::byte{0xff});
  }

  void run(const std::vector<PlanStep>& steps) {
    for (const PlanStep& step : steps) {
      if (step.kind == PlanStep::Kind::kSizes) reach(step);
      if (step.kind == PlanStep::Kind::kCall) {
        const PlannedCall& call = plan_.calls[static_cast<size_t>(step.call)];
        if (!copies_to_itself(plan_, call)) run(call);
      }
      if (step.kind == PlanStep::Kind::kHost) run(plan_.host_calls[static_cast<size_t>(step.call)]);
      if (step.kind == PlanStep::Kind::kBranch) run(is_true(step.condition) ? step.body : step.otherwise);
      if (step.kind == PlanStep::Kind::kSections || step.kind == PlanStep::Kind::kSection) run(step.body);
      if (step.kind != PlanStep::Kind::kLoop) continue;
      int64_t& counter = counters_[static_cast<size_t>(step.loop)];
      for (counter = 0; counter < limit_of(step) && (step.condition.storage < 0 || is_true(step.condition)); ++counter)
        run(step.body);
    }
  }

  void run(const PlannedCall& call) {
    std::vector<BufferArg> args;
    for (const Operand& operand : call.operands) {
      const Dim& size = plan_.storages[static_cast<size_t>(operand.storage)].size_bytes;
      args.push_back({address_of(operand), number(size - operand.offset_bytes)});
    }
    std::vector<int64_t> ints;
    for (const Dim& size : call.sizes) ints.push_back(number(size));
    const auto done = interpret(plan_.workloads[static_cast<size_t>(call.workload)].func, args, ints);
    EXPECT_TRUE(done) << call.name << ": " << (done ? "" : done.error().to_string());
  }

  void run(const PlannedHostCall& call) {
    std::vector<void*> buffers;
    for (const Operand& operand : call.operands) buffers.push_back(address_of(operand));
    std::vector<int64_t> integers;
    for (const Dim& dim : call.integers) integers.push_back(number(dim));
    const auto done = run_host_function(call.function, buffers, integers, call.name);
    EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::map<std::string, ConstantTensor>& inputs_;
  std::map<std::string, int64_t> sizes_;
  std::map<int, std::vector<std::byte>> states_;  // by number; they begin as zeros
  std::vector<std::vector<std::byte>> arenas_;    // by stage
  std::vector<std::optional<TensorBuilder>> outputs_;
  std::vector<int64_t> counters_;
};

inline std::map<std::string, ConstantTensor> run_plan(const Graph& graph, const Plan& plan,
                                                      const std::map<std::string, ConstantTensor>& inputs) {
  return PlanRunner(graph, plan, inputs).run();
}

}  // namespace fettle
