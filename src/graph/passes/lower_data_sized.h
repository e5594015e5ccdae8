#pragma once
// Operators whose results are as long as data say.

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace fettle::passes {

/// Where the size of the node's result depends on what its inputs hold, which nobody knows: nodes that compute this
/// size, and the operator with it. Then it becomes a size of the graph (late_sizes.h).
///   Range(start, limit, delta)  →  Range(start, limit, delta, max(⌈(limit - start) / delta⌉, 0))
///   OneHot(x, depth, values)    →  OneHot(x, Cast(depth), values)
///   Reshape(x, shape)           →  DefineSizes(shape without 0 and -1) {defines=[a, b]}; Reshape(x) {shape=[a, b]}
/// They are in order, and not typed. Nothing for other nodes.
std::optional<std::vector<Node*>> lower_data_sized(Graph& graph, Node* node);

}  // namespace fettle::passes
