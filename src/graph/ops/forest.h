#pragma once
// Tree ensembles of ai.onnx.ml: what the attributes of all their operators say, and how trees lie in memory.

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/op_util.h"

namespace fettle::ops {

/// Which comparisons of x with a split lead to the true branch: one bit each.
enum Outcome : uint8_t { kLess = 1, kSame = 2, kGreater = 4, kUnordered = 8 };

/// What a branch or a root leads to.
struct TreeRef {
  bool is_leaf = false;
  size_t index = 0;  // among the branches or the leaves
};
struct TreeBranch {
  uint8_t outcomes = 0;  // those that lead to the true branch
  int64_t feature = 0;
  double split = 0;
  std::vector<double> members;  // where it is not empty: x equal to any of these, instead of the split
  TreeRef on_true, on_false;
};
/// Weights by target.
using TreeLeaf = std::vector<std::pair<int64_t, double>>;

struct Forest {
  DType dtype;  // of splits and weights: f32 or f64
  int64_t n_targets = 0;
  std::vector<TreeBranch> branches;
  std::vector<TreeLeaf> leaves;
  std::vector<TreeRef> roots;
};

inline constexpr int64_t kMostTargets = 1 << 24;

/// Of TreeEnsembleRegressor and TreeEnsembleClassifier. prefix: "target" or "class", as in "class_ids".
/// E606 lists of other lengths · a mode that is none · a child, feature or target that is not there · a tree without a
/// root, with a cycle, or with a leaf that has no weight
Result<Forest> read_forest(const Node& node, std::string_view prefix, int64_t n_targets, DType dtype);
/// Of TreeEnsemble. Errors as above.
Result<Forest> read_forest_of_leaves(const Node& node, DType dtype);

/// A forest as arrays. The nodes of a tree lie breadth first, branches before the leaves of all trees. A leaf leads to
/// itself, so that a walk may take more steps than it needs. After as many as the tree says, most walks are at a leaf;
/// in a tree whose lowest leaf is not far below, all are. Sets of members have become a binary search.
struct ForestArrays {
  std::vector<int64_t> features;  // [nodes]
  std::vector<double> splits;     // [nodes]
  std::vector<int64_t> outcomes;  // [nodes]
  std::vector<int64_t> children;  // [nodes, 2]: true, false
  std::vector<int64_t> trees;     // [trees, 3]: root, steps, first target
  std::vector<double> weights;    // [leaves, width]: of targets from the tree's first on
  int64_t first_leaf = 0, width = 1, most_feature = -1;
};
/// otherwise: the weight of a target of which a leaf says nothing. E606 as above.
Result<ForestArrays> lay_out(const Node& node, const Forest& forest, double otherwise);

}  // namespace fettle::ops
