#pragma once
// Partition: which nodes become one kernel.

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace fettle {

/// Nodes that become one kernel, or none where the group only renames memory.
struct Group {
  std::vector<Node*> nodes;      // in topological order
  Node* anchor = nullptr;        // the node that decides: a convolution, a reduction, or the first
  FusionKind kind = FusionKind::kElementwise;  // of the anchor
  std::vector<Value*> inputs;    // from outside, constants included, in order of first use; each once
  std::vector<Value*> outputs;   // used outside, or graph outputs
  bool may_be_view = false;      // a single node that moves no element where strides allow it: see view.h
  bool is_join = false;          // a Concat, which moves no element where its inputs are made in place: see placement.h

  /// "Conv_Add_HardSwish"
  std::string name() const;
};

/// Every node of a sorted, typed, static graph in exactly one group; groups in an order in which they can run.
///
/// A group begins with an anchor and takes in what follows it:
///   conv → add(·, bias) → hardswish → add(·, residual)                       one group (residual from outside)
///   mean → sub → mul → mean → add → sqrt → div                               one group (a norm)
///   relu → add → mul                                                         one group
/// A follower is elementwise or a broadcast to the anchor's output shape; around a reduction also to the shape that
/// was reduced, and a further reduction over the same axes. Several users of a value are taken in together where they
/// meet again (x * sigmoid(x)). Elementwise groups also take in a Resize to the nearest pixel that only they read. What a group hands out is one value, so no two groups can wait for each other.
std::vector<Group> partition(const Graph& graph);

}  // namespace fettle
