#include "graph/plan/placement.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "graph/control.h"
#include "graph/loop_kernel.h"
#include "graph/op.h"
#include "graph/plan/growing.h"
#include "graph/stride.h"

namespace fettle {
namespace {

class Placer {
 public:
  Placer(const Graph& graph, const std::vector<Group>& groups, const std::unordered_map<const Value*, View>& views,
         const MayLieIn& may_lie_in)
      : graph_(graph), groups_(groups), views_(views), may_lie_in_(may_lie_in) {
    for (const GraphOutput& output : graph.outputs()) outputs_.insert(output.value);
    for (const Group& group : groups) {
      for (const Value* output : group.outputs)
        if (is_stack(*group.anchor, *output)) stacks_.insert(output);
      if (!group.may_be_view && !group.is_row && !group.is_concatenation && group.anchor->bodies.empty() &&
          !is_host(*group.anchor))
        for (const Value* output : group.outputs) made_.insert(output);
    }
  }

  Placement run() {
    for (const GraphOutput& output : graph_.outputs()) place_output(*output.value);
    // What is concatenated last decides first, so that a part may itself be a concatenation.
    for (size_t g = groups_.size(); g-- > 0;) {
      if (groups_[g].is_concatenation)
        place_parts(groups_[g]);
      else if (groups_[g].may_be_view)
        straighten(*groups_[g].anchor);
    }
    return std::move(placement_);
  }

 private:
  /// Rows that as many iterations stack as there are.
  static bool is_stack(const Node& node, const Value& output) {
    return is_loop(node) && !is_loop_kernel(node) && output.producer_output >= LoopParts(node).n_carried &&
           !growing_rows(node, output);
  }
  /// Whether what makes the value can write it there: a kernel upwards, a loop dense rows in any order.
  bool may_write(const Value& value, const View& place) const {
    if (made_.contains(&value)) return std::ranges::none_of(place.strides, runs_backwards);
    const Shape row(value.shape().begin() + 1, value.shape().end());
    return is_row_major(row, {place.strides.begin() + 1, place.strides.end()});
  }

  /// The output of a group or the concatenation whose memory `value` is, all of it, and where that has to lie for
  /// `value` to lie at `place`; null where there is none that may still be placed.
  const Value* root_of(const Value* value, View& place, bool only_use) const {
    for (;;) {
      if (value->is_constant() || !value->producer || outputs_.contains(value) || placement_.places.contains(value))
        return nullptr;
      if (only_use && value->users.size() != 1) return nullptr;
      if (made_.contains(value) || stacks_.contains(value)) return may_write(*value, place) ? value : nullptr;
      const Node& node = *value->producer;
      if (is_concatenation(node)) return only_use ? nullptr : value;
      if (!may_be_view(node) || node.inputs.size() != 1) return nullptr;
      const auto before = view_input(node, place);
      if (!before) return nullptr;
      // Nobody else reads what lies backwards.
      only_use = only_use || std::ranges::any_of(before->strides, runs_backwards);
      place = *before;
      value = node.input(0);
    }
  }

  void place_parts(const Group& group) {
    const Node& concat = *group.anchor;
    const Value* whole = concat.output();
    View base;
    if (const auto placed = placement_.places.find(whole); placed != placement_.places.end()) {
      base = placed->second;
    } else {
      base = {static_cast<int>(placement_.wholes.size()), 0, views_.at(whole).strides};
    }
    std::vector<std::pair<const Value*, View>> parts;
    for (size_t i = 0; i < concat.inputs.size(); ++i) {
      View place = part_of(concat, i, base);
      const Value* root = root_of(concat.input(i), place, false);
      if (root && may_lie_in_(*root, *whole, place) &&
          std::none_of(parts.begin(), parts.end(), [&](const auto& part) { return part.first == root; }))
        parts.emplace_back(root, place);
    }
    if (parts.empty()) return;  // one kernel for all of it
    if (!placement_.places.contains(whole)) {
      placement_.wholes.push_back(whole);
      placement_.places[whole] = base;
    }
    placement_.places.insert(parts.begin(), parts.end());
  }

  /// A node that should be a view, but finds its input in another order.
  void straighten(const Node& node) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1 || node.input(0)->is_constant()) return;
    const Value* input = node.input(0);
    if (view_outputs(node, views_.at(input))) return;
    const int whole = static_cast<int>(placement_.wholes.size());
    View place{whole, 0, dense_strides(input->shape())};
    if (const auto before = view_input(node, {whole, 0, dense_strides(node.output()->shape())})) place = *before;
    const Value* root = root_of(input, place, true);
    if (!root || !may_lie_in_(*root, *input, place)) return;
    if (scatters(*root, place)) return;
    placement_.wholes.push_back(root);
    placement_.places[root] = place;
  }

  /// An output of the model that is a view of something in another order.
  void place_output(const Value& output) {
    if (output.is_constant() || !output.producer || made_.contains(&output) || placement_.places.contains(&output))
      return;
    const Node& node = *output.producer;
    const View dense{static_cast<int>(placement_.wholes.size()), 0, dense_strides(output.shape())};
    if (!may_be_view(node) || node.inputs.size() != 1 || output.users.size() != 0) return;
    auto place = view_input(node, dense);
    const Value* root = place ? root_of(node.input(0), *place, true) : nullptr;
    if (!root || !may_lie_in_(*root, output, *place)) return;
    if (scatters(*root, *place)) return;
    placement_.wholes.push_back(&output);
    placement_.places[root] = *place;
  }

  bool scatters(const Value& root, const View& place) const {
    return made_.contains(&root) && innermost(root, place) != innermost(root, views_.at(&root));
  }
  static int innermost(const Value& value, const View& view) {
    const std::vector<int> order = memory_order(value.shape(), view.strides);
    return order.empty() ? -1 : order.back();
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  const std::unordered_map<const Value*, View>& views_;
  const MayLieIn& may_lie_in_;
  std::unordered_set<const Value*> outputs_, made_, stacks_;
  Placement placement_;
};

}  // namespace

View part_of(const Node& concat, size_t i, const View& whole) {
  const int64_t axis = concat.attrs.get_int("axis", 0);
  const auto d = static_cast<size_t>(axis < 0 ? axis + concat.output()->rank() : axis);
  View part = whole;
  for (size_t k = 0; k < i; ++k) part.offset_elems = part.offset_elems + concat.input(k)->shape()[d] * whole.strides[d];
  return part;
}

Placement place_values(const Graph& graph, const std::vector<Group>& groups,
                       const std::unordered_map<const Value*, View>& views, const MayLieIn& may_lie_in) {
  return Placer(graph, groups, views, may_lie_in).run();
}

}  // namespace fettle
