#include "graph/plan/partition.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/late_sizes.h"
#include "graph/op_registry.h"
#include "graph/view.h"

namespace fettle {
namespace {

/// More nodes than this are not taken in at once to find where the users of a value meet.
constexpr size_t kMaxStretch = 24;

/// Of each result of elementwise groups that become one. Calls of larger ones take little of their time.
constexpr int64_t kMostJoinedBytes = 64 << 10;

/// Keys and queries from which on attention may be one kernel: the scores of fewer keys stay in the caches, and its
/// lanes are queries.
constexpr int64_t kFewestKeys = 256, kFewestQueries = 32;

class Partitioner {
 public:
  explicit Partitioner(const Graph& graph, const Iterations& iterations = {}) : graph_(graph), iterations_(iterations) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) position_[graph.nodes()[i]] = i;
    for (const GraphOutput& output : graph.outputs()) outputs_.insert(output.value);
  }

  std::vector<Group> run(const std::vector<const Node*>& fused) {
    std::vector<Group> groups = grow_all();
    for (const Node* node : fused) fuse(groups, *node);
    for (Group& group : groups) find_boundary(group);
    absorb_index_maps(groups);
    std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
      return position_.at(a.nodes.back()) < position_.at(b.nodes.back());
    });
    if (iterations_.number) join_elementwise(groups);
    return groups;
  }

  std::vector<const Node*> fusible() {
    std::vector<Group> groups = grow_all();
    std::vector<const Node*> found;
    for (const Group& group : groups) {
      const Node& anchor = *group.anchor;
      const Group* convolution = convolution_before(groups, anchor);
      // A wider window keeps a padded copy of the image, of which each strip would have to make its own.
      const bool is_chain = convolution && is_depthwise(*convolution->anchor) && is_matrix_product(anchor);
      if (is_chain || !attention_before(groups, anchor).empty()) found.push_back(&anchor);
    }
    return found;
  }

 private:
  std::vector<Group> grow_all() {
    std::vector<Group> groups;
    for (Node* node : graph_.nodes()) {
      if (node->erased || taken_.contains(node)) continue;
      groups.push_back(grow(node));
    }
    return groups;
  }

  /// The group whose only result this is, if one node alone reads it; or null.
  Group* maker_for_one(std::vector<Group>& groups, const Value* value) const {
    if (!value->producer || value->users.size() != 1 || outputs_.contains(value)) return nullptr;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.nodes.back()->output() == value && group.nodes.back()->outputs.size() == 1;
    });
    return found != groups.end() ? &*found : nullptr;
  }

  /// The group of a convolution whose result the convolution `node` alone reads, or null.
  Group* convolution_before(std::vector<Group>& groups, const Node& node) const {
    if (node.op->image != ImageWork::kConvolution) return nullptr;
    Group* group = maker_for_one(groups, node.input(0));
    return group && group->anchor->op->image == ImageWork::kConvolution ? group : nullptr;
  }

  /// Whether a softmax is followed by what makes 0 of shares that are no numbers, and nothing else.
  static bool guards_nan(const Group& group) {
    if (group.nodes.size() != 3 || group.nodes[1]->op->name != "IsNaN" || group.nodes[2]->op->name != "Where")
      return false;
    const Node &asks = *group.nodes[1], &chooses = *group.nodes[2];
    const Value* shares = group.anchor->output();
    const Value* zero = chooses.input(1);
    return asks.input(0) == shares && chooses.input(0) == asks.output() && chooses.input(2) == shares &&
           zero->is_constant() && zero->constant->n_elems() == 1 && zero->constant->at(0) == 0;
  }

  /// The groups of scores and of their softmax along keys, whose result the product `node` alone reads; or none.
  std::vector<Group*> attention_before(std::vector<Group>& groups, const Node& node) const {
    if (node.op->name != "MatMul") return {};
    Group* shares = maker_for_one(groups, node.input(0));
    if (!shares || shares->anchor->op->name != "Softmax" || (shares->nodes.size() != 1 && !guards_nan(*shares)))
      return {};
    const Shape& shape = shares->anchor->output()->shape();
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = shares->anchor->attrs.get_int("axis", -1);
    if (rank < 2 || (axis != -1 && axis != rank - 1) || !(node.output()->dtype() == kF32)) return {};
    if (shape.back().typical() < kFewestKeys || shape[shape.size() - 2].typical() < kFewestQueries) return {};
    Group* scores = maker_for_one(groups, shares->anchor->input(0));
    if (!scores || scores->anchor->op->name != "MatMul" || !(scores->anchor->output()->shape() == shape)) return {};
    // What its registers hold of a query and of a value is of constant size.
    if (!scores->anchor->input(0)->shape().back().is_number() || !node.output()->shape().back().is_number()) return {};
    return {scores, shares};
  }

  /// The groups, in order, that the one of `node` may go on with.
  std::vector<Group*> before(std::vector<Group>& groups, const Node& node) const {
    if (Group* convolution = convolution_before(groups, node)) return {convolution};
    return attention_before(groups, node);
  }

  /// The group that `node` begins goes on with those before it.
  void fuse(std::vector<Group>& groups, const Node& node) const {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.anchor == &node; });
    if (group == groups.end()) return;
    std::vector<Node*> nodes;
    std::unordered_set<const Node*> gone;
    for (const Group* part : before(groups, node)) {
      nodes.insert(nodes.end(), part->nodes.begin(), part->nodes.end());
      gone.insert(part->anchor);
    }
    group->nodes.insert(group->nodes.begin(), nodes.begin(), nodes.end());
    std::erase_if(groups, [&](const Group& g) { return gone.contains(g.anchor); });
  }

  bool places_rows(const Node& node) const {
    return only_places_rows(node, iterations_) && !outputs_.contains(node.output());
  }

  static bool is_depthwise(const Node& node) {
    const int64_t groups = node.attrs.get_int("group", 1);
    constexpr int64_t kWidest = 3;
    const Shape& weights = node.input(1)->shape();
    return groups > 1 && node.input(0)->shape()[1] == Dim(groups) && node.output()->shape()[1] == Dim(groups) &&
           std::all_of(weights.begin() + 2, weights.end(), [](const Dim& extent) { return extent.max() <= kWidest; });
  }

  Group grow(Node* first) {
    Group group;
    group.anchor = first;
    group.kind = fusion_kind(*first);
    group.nodes = {first};
    taken_.insert(first);
    group.may_be_view = may_be_view(*first);
    group.is_row = is_row(*first, iterations_) || places_rows(*first);
    group.is_concatenation = is_concatenation(*first);
    if (group.may_be_view || group.is_row || group.is_concatenation || group.kind == FusionKind::kOpaque ||
        first->outputs.size() != 1)
      return group;
    const Value* frontier = first->output();
    while (const auto stretch = next_stretch(group, frontier)) {
      for (Node* node : *stretch) {
        taken_.insert(node);
        group.nodes.push_back(node);
      }
      frontier = stretch->back()->output();
    }
    return group;
  }

  /// The fewest nodes after `frontier` that use it up, so that only the last one's output is used further on.
  std::optional<std::vector<Node*>> next_stretch(const Group& group, const Value* frontier) const {
    if (outputs_.contains(frontier) || frontier->users.empty()) return {};
    const auto by_position = [&](Node* a, Node* b) { return position_.at(a) < position_.at(b); };
    std::set<Node*, decltype(by_position)> waiting(by_position);
    std::vector<Node*> stretch;
    std::unordered_set<const Node*> inside;
    waiting.insert(frontier->users.begin(), frontier->users.end());
    while (stretch.size() < kMaxStretch) {
      Node* next = *waiting.begin();
      waiting.erase(waiting.begin());
      if (!may_follow(group, *next)) return {};
      stretch.push_back(next);
      inside.insert(next);
      if (waiting.empty()) return stretch;  // all that was used so far is used by what is inside
      if (outputs_.contains(next->output()) || next->output()->users.empty()) return {};
      waiting.insert(next->output()->users.begin(), next->output()->users.end());
    }
    return {};
  }

  bool may_follow(const Group& group, const Node& node) const {
    if (taken_.contains(&node) || node.outputs.size() != 1 || may_be_view(node)) return false;
    if (places_rows(node)) return false;
    const FusionKind kind = fusion_kind(node);
    const Shape& shape = node.output()->shape();
    const Shape& produced = group.anchor->output()->shape();
    const bool maps = kind == FusionKind::kElementwise || kind == FusionKind::kBroadcast;
    if (group.kind != FusionKind::kReduction) return maps && shape == produced;
    const Shape& reduced = group.anchor->input(0)->shape();
    const bool keeps_rank = reduced.size() == produced.size();
    if (maps) return shape == produced || (keeps_rank && shape == reduced);
    return kind == FusionKind::kReduction && keeps_rank && node.inputs.size() == 1 && node.op == group.anchor->op &&
           node.attrs == group.anchor->attrs && node.input(0)->shape() == reduced && shape == produced;
  }

  /// Elementwise work reads an image that is enlarged or spread out through the map of its indices: nothing is moved in
  /// memory.
  ///   Resize | Add   →   Resize_Add      DepthToSpace | Sigmoid   →   DepthToSpace_Sigmoid
  void absorb_index_maps(std::vector<Group>& groups) const {
    std::unordered_map<const Node*, Group*> by_node;
    for (Group& group : groups)
      if (group.nodes.size() == 1) by_node[group.anchor] = &group;
    for (Group& group : groups) {
      if (group.kind != FusionKind::kElementwise && group.kind != FusionKind::kBroadcast) continue;
      for (const Value* input : std::vector<Value*>(group.inputs)) {
        const auto found = input->producer ? by_node.find(input->producer) : by_node.end();
        if (found == by_node.end() || !maps_pixels(*input->producer) || input->users.size() != 1 ||
            outputs_.contains(input))
          continue;
        group.nodes.insert(group.nodes.begin(), input->producer);
        group.inputs.clear();
        group.outputs.clear();
        find_boundary(group);
        found->second->nodes.clear();
      }
    }
    std::erase_if(groups, [](const Group& group) { return group.nodes.empty(); });
  }

  /// In a loop calls of small kernels take longer than their work. Elementwise groups of one shape become one of
  /// several results, where nothing lies between them. Here alone a group returns several.
  ///   c' = f * c + i * g | h = o * tanh(c')   →   one group, which returns c' and h
  void join_elementwise(std::vector<Group>& groups) const {
    // What reads sizes that a node defines stays behind it, without reading its result.
    if (std::ranges::any_of(graph_.nodes(), [](const Node* node) { return !defined_sizes(*node).empty(); })) return;
    const auto may_join = [&](const Group& group) {
      const Value& made = *group.nodes.back()->output();
      return !group.may_be_view && !group.is_row && !group.is_concatenation &&
             std::ranges::all_of(group.nodes,
                                 [](const Node* node) { return node->op->is_pointwise && !is_host(*node); }) &&
             (element_count(made.shape()) * made.dtype().element_bytes()).typical() <= kMostJoinedBytes;
    };
    for (size_t b = 1; b < groups.size(); ++b) {
      if (!may_join(groups[b])) continue;
      for (size_t a = 0; a < b; ++a) {
        if (!may_join(groups[a]) || is_between(groups, a, b) || is_between(groups, b, a) ||
            !(groups[a].nodes.back()->output()->shape() == groups[b].nodes.back()->output()->shape()))
          continue;
        Group joined = groups[a];
        joined.nodes.insert(joined.nodes.end(), groups[b].nodes.begin(), groups[b].nodes.end());
        std::ranges::sort(joined.nodes, {}, [&](const Node* node) { return position_.at(node); });
        joined.anchor = joined.nodes.front();
        joined.inputs.clear();
        joined.outputs.clear();
        find_boundary(joined);
        groups[b] = std::move(joined);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(a));
        --b;
        a = static_cast<size_t>(-1);  // what it has become may join more
      }
    }
    order_by_use(groups);
  }

  /// Whether what one group makes comes to another through groups between them.
  static bool is_between(const std::vector<Group>& groups, size_t from, size_t to) {
    std::unordered_map<const Node*, size_t> group_of;
    for (size_t g = 0; g < groups.size(); ++g)
      for (const Node* node : groups[g].nodes) group_of[node] = g;
    std::vector<size_t> next;
    std::unordered_set<size_t> seen = {from};
    const auto add_users = [&](size_t group) {
      for (const Value* output : groups[group].outputs)
        for (const Node* user : output->users)
          if (const size_t g = group_of.at(user); (group != from || g != to) && !seen.contains(g)) next.push_back(g);
    };
    add_users(from);
    while (!next.empty()) {
      const size_t group = next.back();
      next.pop_back();
      if (group == to) return true;
      if (seen.insert(group).second) add_users(group);
    }
    return false;
  }

  /// Each group behind those whose results it reads.
  static void order_by_use(std::vector<Group>& groups) {
    std::vector<Group> ordered;
    std::unordered_set<const Value*> waiting;
    for (const Group& group : groups)
      for (const Node* node : group.nodes) waiting.insert(node->outputs.begin(), node->outputs.end());
    while (!groups.empty()) {
      const auto next = std::ranges::find_if(groups, [&](const Group& group) {
        return std::ranges::none_of(group.inputs, [&](const Value* input) { return waiting.contains(input); });
      });
      for (const Node* node : next->nodes)
        for (const Value* output : node->outputs) waiting.erase(output);
      ordered.push_back(std::move(*next));
      groups.erase(next);
    }
    groups = std::move(ordered);
  }

  static bool maps_pixels(const Node& node) { return node.op->maps_pixels && node.op->maps_pixels(node); }

  void find_boundary(Group& group) const {
    const std::unordered_set<const Node*> inside(group.nodes.begin(), group.nodes.end());
    std::unordered_set<const Value*> seen;
    for (Node* node : group.nodes) {
      for (Value* input : node->inputs)
        if (input && !(input->producer && inside.contains(input->producer)) && seen.insert(input).second)
          group.inputs.push_back(input);
      for (Value* output : node->outputs) {
        const bool outside = std::any_of(output->users.begin(), output->users.end(),
                                         [&](const Node* user) { return !inside.contains(user); });
        // A node's outputs are all computed together, so what nobody uses is handed out as well.
        if (outside || outputs_.contains(output) || output->users.empty()) group.outputs.push_back(output);
      }
    }
  }

  const Graph& graph_;
  const Iterations iterations_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_set<const Value*> outputs_;
  std::unordered_set<const Node*> taken_;
};

}  // namespace

bool is_matrix_product(const Node& node) {
  const auto all = [](const std::vector<int64_t>& list, int64_t value) {
    return std::ranges::all_of(list, [&](int64_t x) { return x == value; });
  };
  if (node.op->image != ImageWork::kConvolution) return false;
  const Shape& weights = node.input(1)->shape();
  return node.attrs.get_int("group", 1) == 1 &&
         std::all_of(weights.begin() + 2, weights.end(), [](const Dim& extent) { return extent == Dim(1); }) &&
         all(node.attrs.get_ints("strides", {}), 1) && all(node.attrs.get_ints("pads", {}), 0);
}

std::string Group::name() const {
  std::string text;
  for (const Node* node : nodes) {
    if (!text.empty()) text += '_';
    text += short_name(*node->op);
  }
  return text;
}

std::vector<Group> partition(const Graph& graph, const std::vector<const Node*>& fused, const Iterations& iterations) {
  return Partitioner(graph, iterations).run(fused);
}

std::vector<const Node*> fusible_nodes(const Graph& graph) { return Partitioner(graph).fusible(); }

}  // namespace fettle
