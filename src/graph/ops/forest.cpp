#include "graph/ops/forest.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "graph/ops/scores.h"

namespace fettle::ops {
namespace {

constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",   "BRANCH_GT",
                                       "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER"};
constexpr uint8_t kOutcomes[] = {kLess | kSame, kLess, kSame | kGreater, kGreater, kSame, kLess | kGreater | kUnordered,
                                 kSame};
constexpr size_t kMember = 6;

Result<> check_length(const Node& node, std::string_view name, size_t length, size_t wanted) {
  if (length == wanted) return {};
  return bad_attribute(node, fmt::format("{} has {} elements instead of {}", name, length, wanted));
}

Result<> set_mode(const Node& node, size_t mode, bool tracks_missing, TreeBranch& branch) {
  if (mode >= std::size(kModes)) return bad_attribute(node, fmt::format("a node's mode is {}", mode));
  branch.outcomes = static_cast<uint8_t>(kOutcomes[mode] | (tracks_missing ? kUnordered : 0));
  return {};
}

Result<> check_branch(const Node& node, const TreeBranch& branch) {
  if (branch.feature < 0 || branch.feature > kMaxDim)
    return bad_attribute(node, fmt::format("a node asks for feature {}", branch.feature));
  if (std::isnan(branch.split)) return bad_attribute(node, "a node splits at NaN");
  return {};
}

struct NodeLists {
  std::vector<int64_t> trees, nodes, features, on_true, on_false, tracks;
  std::vector<double> splits;
  std::vector<std::string> modes;
};

Result<NodeLists> read_lists(const Node& node) {
  NodeLists all;
  all.trees = node.attrs.get_ints("nodes_treeids");
  all.nodes = node.attrs.get_ints("nodes_nodeids");
  all.features = node.attrs.get_ints("nodes_featureids");
  all.on_true = node.attrs.get_ints("nodes_truenodeids");
  all.on_false = node.attrs.get_ints("nodes_falsenodeids");
  all.tracks = node.attrs.get_ints("nodes_missing_value_tracks_true");
  FETTLE_TRY(all.splits, number_list(node, "nodes_values"));
  if (const AttrValue* modes = node.attrs.find("nodes_modes"))
    if (const auto* list = std::get_if<std::vector<std::string>>(modes)) all.modes = *list;
  const size_t n = all.trees.size();
  if (n == 0) return bad_attribute(node, "it has no nodes: nodes_treeids is empty");
  FETTLE_TRY_VOID(check_length(node, "nodes_nodeids", all.nodes.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_featureids", all.features.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_truenodeids", all.on_true.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_falsenodeids", all.on_false.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_values", all.splits.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_modes", all.modes.size(), n));
  if (!all.tracks.empty()) FETTLE_TRY_VOID(check_length(node, "nodes_missing_value_tracks_true", all.tracks.size(), n));
  return all;
}

std::string place(int64_t tree, int64_t node) { return fmt::format("node {} of tree {}", node, tree); }

// No node that a root leads to is reached twice, as one in a cycle is.
Result<> check_trees(const Node& node, const Forest& forest) {
  std::vector<bool> met(forest.branches.size());
  std::vector<TreeRef> open = forest.roots;
  while (!open.empty()) {
    const TreeRef next = open.back();
    open.pop_back();
    if (next.is_leaf) continue;
    if (met[next.index])
      return bad_attribute(node,
                           fmt::format("its trees have a cycle, or a node with two parents: branch {}", next.index));
    met[next.index] = true;
    open.push_back(forest.branches[next.index].on_true);
    open.push_back(forest.branches[next.index].on_false);
  }
  return {};
}

}  // namespace

Result<Forest> read_forest(const Node& node, std::string_view prefix, int64_t n_targets, DType dtype) {
  FETTLE_TRY(const NodeLists all, read_lists(node));
  Forest forest{.dtype = dtype, .n_targets = n_targets};
  const size_t n = all.nodes.size();
  std::map<std::pair<int64_t, int64_t>, size_t> by_id;
  std::vector<TreeRef> refs(n);
  for (size_t i = 0; i < n; ++i) {
    if (!by_id.emplace(std::pair(all.trees[i], all.nodes[i]), i).second)
      return bad_attribute(node, place(all.trees[i], all.nodes[i]) + " is there twice");
    const bool is_leaf = all.modes[i] == "LEAF";
    refs[i] = {is_leaf, is_leaf ? forest.leaves.size() : forest.branches.size()};
    if (is_leaf)
      forest.leaves.emplace_back();
    else
      forest.branches.emplace_back();
  }

  std::vector<bool> has_parent(n);
  for (size_t i = 0; i < n; ++i) {
    if (refs[i].is_leaf) continue;
    TreeBranch& branch = forest.branches[refs[i].index];
    const size_t mode = static_cast<size_t>(std::ranges::find(kModes, all.modes[i]) - std::begin(kModes));
    if (mode >= kMember)
      return bad_attribute(node,
                           fmt::format("{} has the mode \"{}\"", place(all.trees[i], all.nodes[i]), all.modes[i]));
    FETTLE_TRY_VOID(set_mode(node, mode, !all.tracks.empty() && all.tracks[i] == 1, branch));
    branch.feature = all.features[i];
    branch.split = all.splits[i];
    FETTLE_TRY_VOID(check_branch(node, branch));
    for (const bool side : {true, false}) {
      const int64_t child = (side ? all.on_true : all.on_false)[i];
      const auto found = by_id.find({all.trees[i], child});
      if (found == by_id.end())
        return bad_attribute(
            node, fmt::format("{} has a child {} that is not there", place(all.trees[i], all.nodes[i]), child));
      if (has_parent[found->second]) return bad_attribute(node, place(all.trees[i], child) + " has two parents");
      has_parent[found->second] = true;
      (side ? branch.on_true : branch.on_false) = refs[found->second];
    }
  }
  // A tree begins with the first of its nodes that is listed.
  std::map<int64_t, bool> begun;
  for (size_t i = 0; i < n; ++i) {
    if (!begun.emplace(all.trees[i], true).second) continue;
    if (has_parent[i])
      return bad_attribute(node, fmt::format("tree {} has no root: its first node, {}, is the child of another",
                                             all.trees[i], all.nodes[i]));
    forest.roots.push_back(refs[i]);
  }

  const auto name = [&](const char* suffix) { return std::string(prefix) + suffix; };
  const auto of_trees = node.attrs.get_ints(name("_treeids")), of_nodes = node.attrs.get_ints(name("_nodeids"));
  const auto targets = node.attrs.get_ints(name("_ids"));
  FETTLE_TRY(const std::vector<double> weights, number_list(node, name("_weights")));
  FETTLE_TRY_VOID(check_length(node, name("_treeids"), of_trees.size(), targets.size()));
  FETTLE_TRY_VOID(check_length(node, name("_nodeids"), of_nodes.size(), targets.size()));
  FETTLE_TRY_VOID(check_length(node, name("_weights"), weights.size(), targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto found = by_id.find({of_trees[i], of_nodes[i]});
    if (found == by_id.end())
      return bad_attribute(node,
                           fmt::format("a weight is that of {}, which is not there", place(of_trees[i], of_nodes[i])));
    if (targets[i] < 0 || targets[i] >= n_targets)
      return bad_attribute(node,
                           fmt::format("{} has the element {}, and there are {}", name("_ids"), targets[i], n_targets));
    // Old converters give weights to branches, too: nothing reads them.
    if (const TreeRef ref = refs[found->second]; ref.is_leaf)
      forest.leaves[ref.index].emplace_back(targets[i], weights[i]);
  }
  for (size_t i = 0; i < n; ++i)
    if (refs[i].is_leaf && forest.leaves[refs[i].index].empty())
      return bad_attribute(node, place(all.trees[i], all.nodes[i]) + " is a leaf without a weight");
  return forest;
}

Result<Forest> read_forest_of_leaves(const Node& node, DType dtype) {
  const auto tensor = [&](const char* name) {
    const ConstantTensor* data = node.attrs.get_tensor(name);
    return data ? to_doubles(*data) : std::vector<double>{};
  };
  Forest forest{.dtype = dtype, .n_targets = node.attrs.get_int("n_targets", 0)};
  if (forest.n_targets < 1 || forest.n_targets > kMostTargets)
    return bad_attribute(node, fmt::format("n_targets is {}", forest.n_targets));
  const auto features = node.attrs.get_ints("nodes_featureids"), roots = node.attrs.get_ints("tree_roots");
  const auto on_true = node.attrs.get_ints("nodes_truenodeids"), on_false = node.attrs.get_ints("nodes_falsenodeids");
  const auto true_leaves = node.attrs.get_ints("nodes_trueleafs"),
             false_leaves = node.attrs.get_ints("nodes_falseleafs");
  const auto tracks = node.attrs.get_ints("nodes_missing_value_tracks_true");
  const auto targets = node.attrs.get_ints("leaf_targetids");
  const std::vector<double> modes = tensor("nodes_modes"), splits = tensor("nodes_splits");
  const std::vector<double> weights = tensor("leaf_weights"), members = tensor("membership_values");
  const size_t n = features.size();
  FETTLE_TRY_VOID(check_length(node, "nodes_truenodeids", on_true.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_falsenodeids", on_false.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_trueleafs", true_leaves.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_falseleafs", false_leaves.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_modes", modes.size(), n));
  FETTLE_TRY_VOID(check_length(node, "nodes_splits", splits.size(), n));
  if (!tracks.empty()) FETTLE_TRY_VOID(check_length(node, "nodes_missing_value_tracks_true", tracks.size(), n));
  FETTLE_TRY_VOID(check_length(node, "leaf_weights", weights.size(), targets.size()));
  if (roots.empty()) return bad_attribute(node, "it has no trees: tree_roots is empty");

  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= forest.n_targets)
      return bad_attribute(
          node, fmt::format("leaf_targetids has the element {}, and there are {}", targets[i], forest.n_targets));
    forest.leaves.push_back({{targets[i], weights[i]}});
  }
  const auto child = [&](size_t i, int64_t index, bool is_leaf) -> Result<TreeRef> {
    if (index < 0 || static_cast<size_t>(index) >= (is_leaf ? targets.size() : n))
      return bad_attribute(node, fmt::format("node {} has a child {} that is not there", i, index));
    return TreeRef{is_leaf, static_cast<size_t>(index)};
  };
  size_t member = 0;  // the next one
  for (size_t i = 0; i < n; ++i) {
    TreeBranch branch{.feature = features[i], .split = splits[i]};
    // Whatever is no mode is one beyond the last.
    const bool is_mode = modes[i] >= 0 && modes[i] < static_cast<double>(std::size(kModes));
    const size_t mode = is_mode ? static_cast<size_t>(modes[i]) : std::size(kModes);
    FETTLE_TRY_VOID(set_mode(node, mode, !tracks.empty() && tracks[i] == 1, branch));
    if (mode == kMember) {
      branch.split = 0;
      for (; member < members.size() && !std::isnan(members[member]); ++member)
        branch.members.push_back(members[member]);
      ++member;
      if (branch.members.empty()) return bad_attribute(node, fmt::format("membership_values has none for node {}", i));
    }
    FETTLE_TRY_VOID(check_branch(node, branch));
    FETTLE_TRY(branch.on_true, child(i, on_true[i], true_leaves[i] != 0));
    FETTLE_TRY(branch.on_false, child(i, on_false[i], false_leaves[i] != 0));
    forest.branches.push_back(std::move(branch));
  }
  for (const int64_t root : roots) {
    if (root < 0 || static_cast<size_t>(root) >= n)
      return bad_attribute(node, fmt::format("a tree's root is {}", root));
    forest.roots.push_back({false, static_cast<size_t>(root)});
  }
  FETTLE_TRY_VOID(check_trees(node, forest));
  return forest;
}

namespace {

/// Gives places to nodes, tree by tree.
class Layout {
 public:
  Layout(const Forest& forest, double otherwise) : forest_(forest), otherwise_(otherwise) {}

  Result<ForestArrays> run(const Node& node) {
    for (const TreeRef& root : forest_.roots) add_tree(root);
    constexpr int64_t kMostNodes = int64_t{1} << 30;  // two children each, counted by 32 bits
    if (std::ssize(made_.features) + std::ssize(leaves_) > kMostNodes)
      return bad_attribute(node, "it has more than 2^30 nodes");
    const int64_t n_branches = std::ssize(made_.features), n_leaves = std::ssize(leaves_);
    made_.first_leaf = n_branches;
    // Leaves were counted from -1 downwards.
    const auto settled = [&](int64_t id) { return id >= 0 ? id : n_branches - 1 - id; };
    for (int64_t& child : made_.children) child = settled(child);
    for (size_t i = 0; i < made_.trees.size(); i += 3) made_.trees[i] = settled(made_.trees[i]);
    for (int64_t i = 0; i < n_leaves; ++i) {
      made_.features.push_back(0);
      made_.splits.push_back(0);
      made_.outcomes.push_back(0);
      made_.children.insert(made_.children.end(), 2, n_branches + i);
    }
    made_.width = width();
    constexpr int64_t kMostWeights = kMaxTensorBytes / static_cast<int64_t>(sizeof(double));
    if (made_.width > kMostWeights / n_leaves)
      return bad_attribute(node, fmt::format("its {} leaves have weights of {} targets", n_leaves, made_.width));
    set_weights();
    return std::move(made_);
  }

 private:
  struct Open {
    TreeRef ref;
    int64_t id, depth;
  };
  struct Span {
    int64_t first, last;
  };

  int64_t add_branch(int64_t feature, double split, int64_t outcomes) {
    made_.features.push_back(feature);
    made_.splits.push_back(split);
    made_.outcomes.push_back(outcomes);
    made_.children.insert(made_.children.end(), 2, 0);
    made_.most_feature = std::max(made_.most_feature, feature);
    return std::ssize(made_.features) - 1;
  }
  void set_children(int64_t id, int64_t on_true, int64_t on_false) {
    made_.children[static_cast<size_t>(2 * id)] = on_true;
    made_.children[static_cast<size_t>(2 * id + 1)] = on_false;
  }

  int64_t add(const TreeRef& ref, int64_t depth) {
    if (ref.is_leaf) {
      leaves_.push_back(ref.index);
      tree_of_leaf_.push_back(std::ssize(made_.trees) / 3);
      lowest_ = std::max(lowest_, depth);
      mean_ += static_cast<double>(depth) * std::exp2(-static_cast<double>(depth));
      return -std::ssize(leaves_);
    }
    const TreeBranch& branch = forest_.branches[ref.index];
    const int64_t id = add_branch(branch.feature, branch.split, branch.outcomes);
    open_.push_back({ref, id, depth});
    return id;
  }

  // members[first, last): x is one of them → on_true
  void search(int64_t id, const TreeBranch& branch, const std::vector<double>& members, int64_t on_true,
              int64_t on_false) {
    struct Part {
      int64_t id;
      size_t first, last;
    };
    std::vector<Part> parts{{id, 0, members.size()}};
    while (!parts.empty()) {
      const auto [at, first, last] = parts.back();
      parts.pop_back();
      const auto slot = static_cast<size_t>(at);
      if (last - first == 1) {
        made_.splits[slot] = members[first];
        made_.outcomes[slot] = branch.outcomes;
        set_children(at, on_true, on_false);
        continue;
      }
      const size_t middle = first + (last - first) / 2;
      made_.splits[slot] = members[middle - 1];
      made_.outcomes[slot] = kLess | kSame;
      const int64_t low = add_branch(branch.feature, 0, 0), high = add_branch(branch.feature, 0, 0);
      set_children(at, low, high);
      parts.push_back({low, first, middle});
      parts.push_back({high, middle, last});
    }
  }

  void add_tree(const TreeRef& root) {
    lowest_ = 0;
    mean_ = 0;
    const auto first_leaf = static_cast<std::ptrdiff_t>(leaves_.size());
    const int64_t id = add(root, 0);
    while (!open_.empty()) {
      const Open next = open_.front();
      open_.pop_front();
      const TreeBranch& branch = forest_.branches[next.ref.index];
      std::vector<double> members = branch.members;
      std::ranges::sort(members);
      members.erase(std::ranges::unique(members).begin(), members.end());
      const auto searched = static_cast<int64_t>(std::bit_width(members.empty() ? 0 : members.size() - 1));
      const int64_t below = next.depth + searched + 1;
      const int64_t on_true = add(branch.on_true, below), on_false = add(branch.on_false, below);
      if (members.empty())
        set_children(next.id, on_true, on_false);
      else
        search(next.id, branch, members, on_true, on_false);
    }
    Span span{std::numeric_limits<int64_t>::max(), 0};
    for (auto leaf = leaves_.begin() + first_leaf; leaf != leaves_.end(); ++leaf)
      for (const auto& [target, weight] : forest_.leaves[*leaf])
        span = {std::min(span.first, target), std::max(span.last, target)};
    spans_.push_back(span);
    made_.trees.insert(made_.trees.end(), {id, steps(), 0});
  }

  // To look whether a walk is at a leaf costs as much as several steps, where the answer differs from row to row.
  int64_t steps() const {
    constexpr double kStepsOfACheck = 8;
    const double most = static_cast<double>(lowest_);
    return most - mean_ <= kStepsOfACheck ? lowest_ : static_cast<int64_t>(std::ceil(mean_));
  }

  int64_t width() const {
    int64_t width = 1;
    for (const auto& [first, last] : spans_) width = std::max(width, last - first + 1);
    return width;
  }

  void set_weights() {
    for (size_t t = 0; t < spans_.size(); ++t)
      made_.trees[3 * t + 2] = std::min(spans_[t].first, forest_.n_targets - made_.width);
    made_.weights.assign(leaves_.size() * static_cast<size_t>(made_.width), otherwise_);
    std::vector<bool> said(made_.weights.size());
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const int64_t first = made_.trees[static_cast<size_t>(3 * tree_of_leaf_[i] + 2)];
      for (const auto& [target, weight] : forest_.leaves[leaves_[i]]) {
        const size_t slot = i * static_cast<size_t>(made_.width) + static_cast<size_t>(target - first);
        made_.weights[slot] = said[slot] ? made_.weights[slot] + weight : weight;
        said[slot] = true;
      }
    }
  }

  const Forest& forest_;
  double otherwise_;
  ForestArrays made_;
  std::deque<Open> open_;
  std::vector<size_t> leaves_;  // in their order in memory
  std::vector<int64_t> tree_of_leaf_;
  std::vector<Span> spans_;  // of targets, by tree
  int64_t lowest_ = 0;       // of the tree's leaves
  double mean_ = 0;          // steps to a leaf, where each branch is as likely as the other
};

}  // namespace

Result<ForestArrays> lay_out(const Node& node, const Forest& forest, double otherwise) {
  return Layout(forest, otherwise).run(node);
}

}  // namespace fettle::ops
