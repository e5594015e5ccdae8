#pragma once
// Nodes of a loop's body for all iterations at once.

#include <functional>
#include <vector>

#include "graph/passes/lowering.h"

namespace fettle::passes {

/// A value for all iterations: [n, …], a row each, or one that all of them read.
struct Batched {
  Value* value = nullptr;
  bool has_rows = false;
  bool counts = false;  // 0, 1, …, n - 1
};

/// Whether a node has such a form, where `varies` tells which of its inputs have rows. At least one has.
bool can_be_batched(const Node& node, const std::function<bool(const Value*)>& varies);
/// The node's outputs with rows, n of them. inputs: one a node input.
std::vector<Value*> batched(Lowering& g, const Node& node, const Dim& n, const std::vector<Batched>& inputs);

}  // namespace fettle::passes
