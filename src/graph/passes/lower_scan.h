#pragma once
// Scan as a Loop.

#include <vector>

#include "graph/graph.h"

namespace fettle::passes {

/// Types the inputs of a scan's body: state, slices and captured values.
void type_scan_body(const Node& scan);

/// A Loop whose body picks its slices, and whose results are reversed and transposed where the scan asks for that:
///   Scan(state…, x…) {body}   →   Loop(length, , state…, x…) {i, _, state…, x… → body(state…, Gather(x, i)…)}
/// The body must be typed. The nodes that stand for the scan, in order; they are not typed.
/// E605 its inputs do not fit · E606 an attribute does not fit
Result<std::vector<Node*>> lower_scan(Graph& graph, Node* scan);

}  // namespace fettle::passes
