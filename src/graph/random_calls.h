#pragma once
// The number of a model's calls, which random numbers without a seed are drawn by (docs/operators.md).

#include <cstdint>

#include "graph/graph.h"

namespace fettle {

/// What the state is called that counts the calls of a context from 0: an input of the model, i64 {}.
inline constexpr const char* kRandomCalls = "random.calls";

Value* add_random_calls(Graph& graph);
/// The state takes the number of the next call: once, when all other outputs are there.
void count_random_calls(Graph& graph, Value* calls);

}  // namespace fettle
