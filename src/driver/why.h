#pragma once
// Why a node of a model file ends up in the kernel that it is in, or in none.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/open.h"
#include "graph/plan/plan.h"

namespace fettle {

/// What stands for the node after a pass over the graph that changed that.
struct WhyPass {
  std::string pass, what;          // its name, and what it does
  std::vector<std::string> nodes;  // of the graph: "Conv conv1"; none: nothing needs it
};

/// A node of the graph, and why it is where it is.
struct WhyNode {
  std::string node;                 // "Conv conv1"; empty: any node
  Provenance origins;               // the file's nodes that it does the work of
  std::string call;                 // of the group that it is in; empty where that is no kernel
  std::string reason;               // a clause; empty for the one that begins a group
  std::optional<FusionCost> costs;  // where these decided
};

/// A group of nodes of the graph, at least one of which does the work of the node that was asked for.
struct WhyGroup {
  PlannedGroup::Kind kind = PlannedGroup::Kind::kKernel;
  std::string call;              // its kernel's; empty: it has none
  std::vector<WhyNode> members;  // in order
  std::vector<WhyNode> before;   // groups whose results it reads, by their last nodes: why it does not go on with them
  std::vector<WhyNode> behind;   // why it ends where it does
};

struct Why {
  Origin node;
  std::vector<WhyPass> passes;  // the first has what the file's node was imported as
  std::vector<WhyGroup> groups;
};

/// Imports and plans the model. `name`: of a node, with or without its operator before it, or of a value that it makes.
/// Errors: those of plan_source · E709 there is no such node; the nearest names are told
Result<Why> explain_node(const ModelFile& file, const std::string& name, const OpenOptions& options);

}  // namespace fettle
