#pragma once
// Operators that select: how much, data decide.

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace fettle::passes {

bool is_selection(const Node& node);  // NonZero, Compress, Unique, NonMaxSuppression

/// Everything at its largest, with a count, which becomes a size (late_sizes.h); then the part that is meant.
///   NonZero(x)   →  places, count = BoundedNonZero(x);  Slice(places) {axes=[1], ends=[count]}
///   Compress(x, which) {axis}  →  Gather(x, the places of which) {axis}
///   Unique(x) {axis, sorted}   →  first, inverse, counts, count = BoundedUnique(rows of x);  Gather(x, part of first)
///   NonMaxSuppression(…)       →  selected, count = BoundedNonMaxSuppression(…);  Slice(selected)
/// infer: types a node, whose inputs are typed. The other nodes that stand for this one are handed out, in order; they
/// are not typed.
/// E605 an input's type does not fit · E606 an attribute does not
Result<std::vector<Node*>> lower_selection(Graph& graph, Node* node, const std::function<Result<>(Node*)>& infer);

}  // namespace fettle::passes
