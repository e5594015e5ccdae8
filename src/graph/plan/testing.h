#pragma once
// For tests: what a plan computes.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "graph/plan/plan.h"
#include "ir/interpret.h"

namespace fettle {

/// The model's outputs by its plan: each call by the interpreter, on one arena.
inline std::map<std::string, ConstantTensor> run_plan(const Graph& graph, const Plan& plan,
                                                      const std::map<std::string, ConstantTensor>& inputs) {
  std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes), std::byte{0xff});
  std::vector<TensorBuilder> outputs;
  for (const GraphOutput& output : graph.outputs())
    outputs.push_back(make_tensor(output.value->dtype(), output.value->extents()).value());
  for (const PlannedCall& call : plan.calls) {
    std::vector<BufferArg> args;
    for (const Operand& operand : call.operands) {
      const Storage& storage = plan.storages[static_cast<size_t>(operand.storage)];
      const std::byte* at = nullptr;
      switch (storage.kind) {
        case Storage::Kind::kInput:
          at = inputs.at(graph.inputs()[static_cast<size_t>(storage.index)]->name).bytes.get();
          break;
        case Storage::Kind::kOutput:
          at = outputs[static_cast<size_t>(storage.index)].bytes.get();
          break;
        case Storage::Kind::kArena:
          at = arena.data() + storage.offset_bytes;
          break;
        case Storage::Kind::kConstant:
          at = storage.constant->constant->bytes.get();
          break;
      }
      args.push_back({const_cast<std::byte*>(at + operand.offset_bytes), storage.size_bytes - operand.offset_bytes});
    }
    const auto done = interpret(plan.workloads[static_cast<size_t>(call.workload)].func, args);
    EXPECT_TRUE(done) << call.name << ": " << (done ? "" : done.error().to_string());
  }
  std::map<std::string, ConstantTensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) results[graph.outputs()[i].name] = std::move(outputs[i]).finish();
  return results;
}

}  // namespace fettle
