#include "graph/plan/partition.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/late_sizes.h"
#include "graph/op_registry.h"
#include "graph/plan/joining.h"
#include "graph/view.h"

namespace fettle {
namespace {

/// More nodes than this are not taken in at once to find where the users of a value meet.
constexpr size_t kMaxStretch = 24;

/// Keys and queries from which on attention may pay as one kernel of a CPU: the scores of fewer keys stay in the
/// caches, and its lanes are queries.
constexpr int64_t kFewestKeys = 96, kFewestQueries = 32;

class Partitioner {
 public:
  explicit Partitioner(const Graph& graph, const Iterations& iterations = {}) : graph_(graph), iterations_(iterations) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) position_[graph.nodes()[i]] = i;
    for (const GraphOutput& output : graph.outputs()) outputs_.insert(output.value);
  }

  std::vector<Group> run(const std::vector<const Node*>& fused) {
    std::vector<Group> groups = grow_all();
    for (const Node* node : fused) fuse(groups, *node);
    take_in_bytes(groups);
    for (Group& group : groups) find_boundary(group, outputs_);
    absorb_index_maps(groups);
    std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
      return position_.at(a.nodes.back()) < position_.at(b.nodes.back());
    });
    join_elementwise(groups, graph_, iterations_);
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
      if (node->erased || taken_.contains(node) || widens_for_one(*node)) continue;
      groups.push_back(grow(node));
    }
    return groups;
  }

  /// Whether a node makes numbers of bytes for elementwise work that alone reads them, and had better read the bytes.
  bool widens_for_one(const Node& node) const {
    if (node.op->work != ElementWork::kConverts || node.inputs.size() < 2 || !node.input(0) || node.outputs.size() != 1)
      return false;
    const Value &from = *node.input(0), &to = *node.output();
    if (!from.dtype().is_int() || from.dtype().bits != 8 || to.dtype().bits <= 8) return false;
    if (to.users.size() != 1 || outputs_.contains(&to)) return false;
    const Node& user = *to.users.front();
    const FusionKind kind = fusion_kind(user);
    return (kind == FusionKind::kElementwise || kind == FusionKind::kBroadcast) && user.outputs.size() == 1 &&
           !may_be_view(user) && !is_host(user) && user.output()->shape() == to.shape();
  }

  /// Nodes of which widens_for_one() holds join whoever reads them.
  ///   conv | dequantize | add   →   conv_dequantize_add, which reads bytes
  void take_in_bytes(std::vector<Group>& groups) {
    const auto has = [](const Group& group, const Node* node) {
      return std::ranges::find(group.nodes, node) != group.nodes.end();
    };
    for (size_t i = graph_.nodes().size(); i-- > 0;) {  // what reads comes first
      Node* node = graph_.nodes()[i];
      if (node->erased || taken_.contains(node) || !widens_for_one(*node)) continue;
      const Node* user = node->output()->users.front();
      const auto group = std::ranges::find_if(groups, [&](const Group& g) { return has(g, user); });
      FETTLE_CHECK(group != groups.end());
      group->nodes.insert(std::ranges::find(group->nodes, user), node);
      group->notes.insert(group->notes.begin(), {node, true, "only this group reads what it makes of bytes"});
      taken_.insert(node);
    }
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
    const DType dtype = node.output()->dtype();
    if (rank < 2 || (axis != -1 && axis != rank - 1) || computed_dtype(dtype) != kF32) return {};
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
    std::vector<GroupNote> notes;
    for (const Group* part : before(groups, node)) {
      nodes.insert(nodes.end(), part->nodes.begin(), part->nodes.end());
      gone.insert(part->anchor);
      std::ranges::copy_if(part->notes, std::back_inserter(notes), &GroupNote::joins);
    }
    notes.push_back({&node, true, "one kernel costs less than several and what they hand over"});
    group->nodes.insert(group->nodes.begin(), nodes.begin(), nodes.end());
    group->notes.insert(group->notes.begin(), notes.begin(), notes.end());
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
    if (const std::string_view why = stands_alone(group); !why.empty()) {
      group.notes.push_back({nullptr, false, why});
      return group;
    }
    const Value* frontier = first->output();
    while (const auto stretch = next_stretch(group, frontier)) {
      for (Node* node : *stretch) {
        taken_.insert(node);
        group.nodes.push_back(node);
        group.notes.push_back({node, true,
                               fusion_kind(*node) == FusionKind::kReduction
                                   ? "it reduces as the group's anchor does"
                                   : "it works on elements of what the group makes"});
      }
      frontier = stretch->back()->output();
    }
    return group;
  }

  /// Why a node takes nothing along that follows it; empty where it may.
  static std::string_view stands_alone(const Group& group) {
    if (group.may_be_view) return "it only renames memory, where strides allow that";
    if (group.is_row) return "it only says where an iteration finds its row";
    if (group.is_concatenation) return "it only says where its parts are made";
    if (group.kind == FusionKind::kOpaque) return "work of its kind takes nothing along";
    if (group.anchor->outputs.size() != 1) return "it makes several values";
    return {};
  }

  /// The fewest nodes after `frontier` that use it up, so that only the last one's output is used further on. Where
  /// there are none, the group notes why.
  std::optional<std::vector<Node*>> next_stretch(Group& group, const Value* frontier) const {
    const auto end = [&](const Node* node, std::string_view reason) {
      if (node && frontier->users.size() > 1)
        group.notes.push_back({nullptr, false, "several nodes read its result, and one of them does not follow"});
      group.notes.push_back({node, false, reason});
      return std::nullopt;
    };
    if (outputs_.contains(frontier)) return end(nullptr, "its result is handed out");
    if (frontier->users.empty()) return end(nullptr, "nobody reads its result");
    const auto by_position = [&](Node* a, Node* b) { return position_.at(a) < position_.at(b); };
    std::set<Node*, decltype(by_position)> waiting(by_position);
    std::vector<Node*> stretch;
    std::unordered_set<const Node*> inside;
    waiting.insert(frontier->users.begin(), frontier->users.end());
    while (stretch.size() < kMaxStretch) {
      Node* next = *waiting.begin();
      waiting.erase(waiting.begin());
      if (const std::string_view why = refusal(group, *next); !why.empty()) return end(next, why);
      stretch.push_back(next);
      inside.insert(next);
      if (waiting.empty()) return stretch;  // all that was used so far is used by what is inside
      if (outputs_.contains(next->output()))
        return end(next, "its result is handed out, and a group returns one value");
      if (next->output()->users.empty()) return end(next, "nobody reads its result, and a group returns one value");
      waiting.insert(next->output()->users.begin(), next->output()->users.end());
    }
    return end(nullptr, "the users of its result meet again too far behind it");
  }

  /// Why the node does not follow the group; empty where it may.
  std::string_view refusal(const Group& group, const Node& node) const {
    if (taken_.contains(&node)) return "it is in a group already";
    if (node.outputs.size() != 1) return "it makes several values";
    if (may_be_view(node)) return "it only renames memory, where strides allow that";
    if (places_rows(node)) return "it only says where an iteration finds its row";
    const FusionKind kind = fusion_kind(node);
    const Shape& shape = node.output()->shape();
    const Shape& produced = group.anchor->output()->shape();
    const bool maps = kind == FusionKind::kElementwise || kind == FusionKind::kBroadcast;
    if (!maps && kind != FusionKind::kReduction) return begins_its_own(kind);
    if (group.kind != FusionKind::kReduction) {
      if (!maps) return begins_its_own(kind);
      return shape == produced ? "" : "its shape is another than that of what the group makes";
    }
    const Shape& reduced = group.anchor->input(0)->shape();
    const bool keeps_rank = reduced.size() == produced.size();
    if (maps)
      return shape == produced || (keeps_rank && shape == reduced)
                 ? ""
                 : "its shape is neither that of what the group reduces nor that of what it makes";
    const bool alike = keeps_rank && node.inputs.size() == 1 && node.op == group.anchor->op &&
                       node.attrs == group.anchor->attrs && node.input(0)->shape() == reduced && shape == produced;
    return alike ? "" : "it reduces otherwise than the group's anchor";
  }
  static std::string_view begins_its_own(FusionKind kind) {
    switch (kind) {
      case FusionKind::kReduction:
        return "a reduction begins a group of its own";
      case FusionKind::kComplexOutFusable:
        return "a convolution or a product begins a group of its own";
      case FusionKind::kInjective:
        return "it moves elements, which begins a group of its own";
      default:
        return "work of its kind is a group of its own";
    }
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
        if (found == by_node.end() || !maps_pixels(*input->producer)) continue;
        if (input->users.size() != 1 || outputs_.contains(input)) {
          found->second->notes.push_back(
              {group.anchor, false, "it is not the only one to read the pixels' new places"});
          continue;
        }
        group.notes.insert(group.notes.begin(),
                           {input->producer, true, "only this group reads the pixels' new places"});
        group.nodes.insert(group.nodes.begin(), input->producer);
        group.inputs.clear();
        group.outputs.clear();
        find_boundary(group, outputs_);
        found->second->nodes.clear();
      }
    }
    std::erase_if(groups, [](const Group& group) { return group.nodes.empty(); });
  }

  static bool maps_pixels(const Node& node) { return node.op->maps_pixels && node.op->maps_pixels(node); }

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

bool may_pay_in_caches(const Node& fusible) {
  if (fusible.op->image != ImageWork::kNone) return true;
  const Shape& shares = fusible.input(0)->shape();
  return fusible.output()->dtype() == kF32 && shares.back().typical() >= kFewestKeys &&
         shares[shares.size() - 2].typical() >= kFewestQueries;
}

std::vector<Group> partition(const Graph& graph, const std::vector<const Node*>& fused, const Iterations& iterations) {
  return Partitioner(graph, iterations).run(fused);
}

std::vector<const Node*> fusible_nodes(const Graph& graph) { return Partitioner(graph).fusible(); }

}  // namespace fettle
