#pragma once
// Partition decides which nodes become one kernel.

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/plan/rows.h"

namespace fettle {

/// What partition decided of a node, for people: that it joins a group, or that it does not follow the group's last.
struct GroupNote {
  const Node* node = nullptr;  // null: whoever might follow
  bool joins = false;
  std::string_view reason;  // a clause: "it only renames memory"
};

/// Nodes that become one kernel, or none where the group only renames memory.
struct Group {
  std::vector<Node*> nodes;                    // in topological order
  Node* anchor = nullptr;                      // the node that decides: a convolution, a reduction, or the first
  FusionKind kind = FusionKind::kElementwise;  // of the anchor
  std::vector<Value*> inputs;                  // from outside, constants included, in order of first use; each once
  std::vector<Value*> outputs;                 // used outside, or graph outputs
  bool may_be_view = false;                    // a single node that moves no element where strides allow it: see view.h
  bool is_row = false;                         // a single node that reads an iteration's row, or places it: see rows.h
  bool is_concatenation = false;               // moves no element where its inputs are made in place: see placement.h
  std::vector<GroupNote> notes;                // in the order of the decisions

  /// "Conv_Add_HardSwish"
  std::string name() const;
};

/// Every node of a sorted, typed, static graph in exactly one group; groups in an order in which they can run.
///
/// A group begins with an anchor and takes in what follows it:
///   conv → add(·, bias) → hardswish → add(·, residual)   one group (residual from outside)
///   mean → sub → mul → mean → add → sqrt → div           one group (a norm)
///   relu → add → mul                                     one group
/// A follower is elementwise or a broadcast to the anchor's output shape; around a reduction also to the shape that
/// was reduced, and a further reduction over the same axes. Several users of a value are taken in together where they
/// meet again (x * sigmoid(x)). Elementwise groups also take in a Resize to the nearest pixel or a
/// DepthToSpace that only they read. A group returns one value, so no two groups can wait for each other. Then
/// elementwise groups of one shape become one of several values where that pays (joining.h).
///
/// `fused`: nodes that begin no group but go on with those that make what they read (of fusible_nodes):
///   conv (depthwise) → relu → conv (1x1) → add           one group, if the 1x1 convolution is fused
///   matmul → mul → add(·, mask) → softmax → matmul       one group (attention), if the second product is fused
///
/// `iterations`: of the loop that the graph is a body of. Nodes that read a row of each iteration are groups of their
/// own, and no kernels.
std::vector<Group> partition(const Graph& graph, const std::vector<const Node*>& fused = {},
                             const Iterations& iterations = {});

/// Nodes that may go on with what makes what they read, since nothing else reads what lies between, in the order of the
/// graph: 1x1 convolutions with the group of the depthwise convolution before them, and products of a softmax along
/// keys with it and with the product that makes its scores.
std::vector<const Node*> fusible_nodes(const Graph& graph);

/// Of a fusible node: whether one kernel may cost less where what lies between could stay in a CPU's caches. Attention
/// must have many keys, and be of singles, which its registers hold as they lie.
bool may_pay_in_caches(const Node& fusible);

/// Whether a node is a convolution of single pixels, all channels with all: a product of matrices, in either order of
/// the dimensions.
bool is_matrix_product(const Node& node);

}  // namespace fettle
