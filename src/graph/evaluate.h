#pragma once
// Runs programs while compiling, for constant folding. Whole graphs, run node by node, are the reference for all else.

#include <functional>
#include <map>
#include <span>
#include <string>

#include "graph/graph.h"
#include "ir/interpret.h"

namespace fettle {

/// Runs a program over dense row-major buffers, in the order of its params.
using Executor = std::function<Result<>(const Func& func, std::span<const BufferArg> buffers)>;

/// The interpreter: right and slow. Of all that it runs: at most `steps` iterations of loops, then E608.
Executor interpreter_executor(int64_t steps = INT64_MAX);

/// The outputs of one node from its inputs' contents (one a non-null input, in order).
Result<std::vector<ConstantTensor>> evaluate_node(const Node& node, std::span<const ConstantTensor> inputs,
                                                  const Executor& run);

/// The graph's outputs, by their names, from its inputs'; every shape must be static. Node by node, nothing fused.
/// E704 an input is missing or unknown · E705 an input's type differs
Result<std::map<std::string, ConstantTensor>> evaluate(const Graph& graph,
                                                       const std::map<std::string, ConstantTensor>& inputs,
                                                       const Executor& run);

}  // namespace fettle
