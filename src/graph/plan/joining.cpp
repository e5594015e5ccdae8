#include "graph/plan/joining.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "graph/late_sizes.h"

namespace fettle {
namespace {

/// Of each result of elementwise groups that become one. Calls of larger ones take little of their time.
constexpr int64_t kMostJoinedBytes = 64 << 10;

/// Arrays that a joined group reads and writes, and its nodes, at most.
constexpr size_t kMostArrays = 12, kMostJoinedNodes = 256;

/// Users of a value among which none is sought that may join, and groups between two of which no way is sought.
constexpr size_t kMostReaders = 16, kMostBetween = 512;

class Joiner {
 public:
  Joiner(const Graph& graph, const Iterations& iterations) : graph_(graph), iterations_(iterations) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) position_[graph.nodes()[i]] = i;
    for (const GraphOutput& output : graph.outputs()) outputs_.insert(output.value);
  }

  void run(std::vector<Group>& groups) const {
    // What reads sizes that a node defines stays behind it, without reading its result.
    if (std::ranges::any_of(graph_.nodes(), [](const Node* node) { return !defined_sizes(*node).empty(); })) return;
    std::unordered_map<const Node*, size_t> group_of;
    for (size_t g = 0; g < groups.size(); ++g)
      for (const Node* node : groups[g].nodes) group_of[node] = g;
    // Before each group those whose order stays: the host's, which may have effects, also in bodies.
    std::vector<size_t> n_fixed = {0};
    for (const Group& group : groups)
      n_fixed.push_back(n_fixed.back() + (is_host(*group.anchor) || !group.anchor->bodies.empty() ? 1 : 0));
    bool has_joined = false;
    for (size_t b = 1; b < groups.size(); ++b) {
      if (!may_join(groups[b])) continue;
      for (const size_t a : neighbours(groups, group_of, b)) {
        if (!may_join(groups[a]) || !(shape_of(groups[a]) == shape_of(groups[b])) || n_fixed[a] != n_fixed[b]) continue;
        if (!fits_registers(groups[a], groups[b]) || is_between(groups, group_of, a, b) ||
            is_between(groups, group_of, b, a))
          continue;
        join(groups[a], groups[b]);
        for (const Node* node : groups[a].nodes) group_of[node] = b;
        groups[a].nodes.clear();
        has_joined = true;
      }
    }
    if (!has_joined) return;
    std::erase_if(groups, [](const Group& group) { return group.nodes.empty(); });
    order_by_use(groups);
  }

 private:
  static const Shape& shape_of(const Group& group) { return group.nodes.back()->output()->shape(); }

  static bool may_join(const Group& group) {
    return !group.nodes.empty() && !group.may_be_view && !group.is_row && !group.is_concatenation &&
           std::ranges::all_of(group.nodes, [](const Node* node) { return node->op->is_pointwise && !is_host(*node); });
  }

  /// Groups before one that it may join: those that make what it reads, or read the same, the nearest first; then, of
  /// small ones in a loop, all others.
  std::vector<size_t> neighbours(const std::vector<Group>& groups,
                                 const std::unordered_map<const Node*, size_t>& group_of, size_t b) const {
    std::set<size_t, std::greater<>> found;
    const auto add = [&](const Node* node) {
      if (const auto g = group_of.find(node); g != group_of.end() && g->second < b) found.insert(g->second);
    };
    for (const Value* input : groups[b].inputs) {
      if (!(input->shape() == shape_of(groups[b]))) continue;
      if (input->producer) add(input->producer);
      if (input->users.size() > kMostReaders) continue;
      for (const Node* user : input->users) add(user);
    }
    std::vector<size_t> all(found.begin(), found.end());
    if (iterations_.number && is_small(groups[b]))
      for (size_t a = 0; a < b; ++a)
        if (may_join(groups[a]) && is_small(groups[a]) && !found.contains(a)) all.push_back(a);
    return all;
  }

  static bool is_small(const Group& group) {
    const Value& made = *group.nodes.back()->output();
    return (element_count(made.shape()) * made.dtype().element_bytes()).typical() <= kMostJoinedBytes;
  }

  /// Few enough arrays are walked through at once.
  static bool fits_registers(const Group& a, const Group& b) {
    const auto is_wide = [&](const Value* value) { return value->shape() == shape_of(b); };
    std::set<const Value*> arrays;
    for (const Group* group : {&a, &b}) {
      std::ranges::copy_if(group->inputs, std::inserter(arrays, arrays.end()), is_wide);
      arrays.insert(group->outputs.begin(), group->outputs.end());
    }
    return arrays.size() <= kMostArrays && a.nodes.size() + b.nodes.size() <= kMostJoinedNodes;
  }

  /// `b` becomes both.
  void join(const Group& a, Group& b) const {
    const Node* anchor = b.anchor;
    b.nodes.insert(b.nodes.end(), a.nodes.begin(), a.nodes.end());
    b.notes.insert(b.notes.begin(), a.notes.begin(), a.notes.end());
    b.notes.push_back({anchor, true, "elementwise work of one shape goes through memory once"});
    std::ranges::sort(b.nodes, {}, [&](const Node* node) { return position_.at(node); });
    b.anchor = b.nodes.front();
    b.inputs.clear();
    b.outputs.clear();
    find_boundary(b, outputs_);
  }

  /// Whether what one group makes comes to another through groups between them, as far as can be told soon.
  static bool is_between(const std::vector<Group>& groups, const std::unordered_map<const Node*, size_t>& group_of,
                         size_t from, size_t to) {
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
      if (group == to || seen.size() > kMostBetween) return true;
      if (seen.insert(group).second) add_users(group);
    }
    return false;
  }

  /// Each group behind those whose results it reads, else as they are.
  static void order_by_use(std::vector<Group>& groups) {
    std::unordered_map<const Value*, size_t> maker;
    for (size_t g = 0; g < groups.size(); ++g)
      for (const Node* node : groups[g].nodes)
        for (const Value* output : node->outputs) maker[output] = g;
    std::vector<size_t> waits_for(groups.size());
    std::vector<std::vector<size_t>> readers(groups.size());
    for (size_t g = 0; g < groups.size(); ++g)
      for (const Value* input : groups[g].inputs)
        if (const auto made = maker.find(input); made != maker.end()) {
          ++waits_for[g];
          readers[made->second].push_back(g);
        }
    std::set<size_t> ready;
    for (size_t g = 0; g < groups.size(); ++g)
      if (waits_for[g] == 0) ready.insert(g);
    std::vector<Group> ordered;
    while (!ready.empty()) {
      const size_t g = *ready.begin();
      ready.erase(ready.begin());
      for (const size_t reader : readers[g])
        if (--waits_for[reader] == 0) ready.insert(reader);
      ordered.push_back(std::move(groups[g]));
    }
    FETTLE_CHECK(ordered.size() == groups.size());
    groups = std::move(ordered);
  }

  const Graph& graph_;
  const Iterations& iterations_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_set<const Value*> outputs_;
};

}  // namespace

void find_boundary(Group& group, const std::unordered_set<const Value*>& handed_out) {
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
      if (outside || handed_out.contains(output) || output->users.empty()) group.outputs.push_back(output);
    }
  }
}

void join_elementwise(std::vector<Group>& groups, const Graph& graph, const Iterations& iterations) {
  Joiner(graph, iterations).run(groups);
}

}  // namespace fettle
