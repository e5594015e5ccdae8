#pragma once
// Computes one node while compiling.

#include "graph/passes/pipeline.h"

namespace fettle::passes {

/// True where every input is constant and the outputs take at most max(the inputs', context.limits.folded_bytes) bytes.
bool can_fold(const Node& node, int64_t max_bytes);
/// Of constants, and so small that it is computed when its type is inferred.
bool folds_at_once(const Node& node);

/// Computes the node, replaces its outputs by constants of their names and erases it. Nodes that cannot be run (an
/// element type that the executor lacks) stay; the result says whether the node is gone.
Result<bool> fold_node(Graph& graph, Node* node, const PassContext& context);

/// A small output, of integers or truth values, that is known from the operator's rule alone.
std::optional<std::vector<Dim>> known_content(const Node& node);

}  // namespace fettle::passes
