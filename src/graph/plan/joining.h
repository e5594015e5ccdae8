#pragma once
// Groups of elementwise work that become one.

#include <unordered_set>
#include <vector>

#include "graph/plan/partition.h"

namespace fettle {

/// Elementwise groups of one shape become one of several results, where nothing lies between them: those that hand
/// on values of that shape, or read the same ones, since memory takes longer than the work; and small ones in a loop,
/// where calls do. Here alone a group returns several.
///   c' = f * c + i * g | h = o * tanh(c')          →   one group, which returns c' and h
///   m' = a * m + b * g | w' = w - rate * m'        →   one group, which returns m' and w'
void join_elementwise(std::vector<Group>& groups, const Graph& graph, const Iterations& iterations);

/// Sets what a group reads from outside, and which of its values are used there. `handed_out`: what the graph returns.
void find_boundary(Group& group, const std::unordered_set<const Value*>& handed_out);

}  // namespace fettle
