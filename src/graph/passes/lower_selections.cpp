#include "graph/passes/lower_selections.h"

#include <algorithm>
#include <string_view>

#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/node_builder.h"

namespace fettle::passes {
namespace {

using Ints = std::vector<int64_t>;

// One selection: a node that computes everything, with a count; and those that take the part.
class Selection {
 public:
  Selection(Graph& graph, Node* node)
      : graph_(graph), node_(*node), nodes_(graph, node->name + ".", node->provenance) {}

  Result<> make() {
    const std::string_view op = node_.op->name;
    if (op == "NonZero") return non_zero();
    if (op == "Compress") return compress();
    if (op == "Unique") return unique();
    return suppression();
  }

  Result<std::vector<Node*>> typed(const std::function<Result<>(Node*)>& infer) {
    const std::vector<Node*>& added = nodes_.added();
    const auto rest = std::ranges::find(added, all_) + 1;
    for (auto n = added.begin(); n != rest; ++n)
      if (!(*n)->erased) FETTLE_TRY_VOID(infer(*n));
    // A constant by now, or a size.
    const Dim most = all_->erased ? Dim(0) : all_->outputs[0]->shape()[static_cast<size_t>(counted_axis_)];
    define_sizes(graph_, count_->inputs[0], 0, most.max());
    return std::vector<Node*>(rest, added.end());
  }

 private:
  /// The last output is the count of what the others have along an axis.
  void add_all(std::string_view op, std::vector<Value*> inputs, size_t n_outputs, int64_t axis, Attrs attrs = {}) {
    all_ = nodes_.add(op, "all", std::move(inputs), std::move(attrs), n_outputs);
    counted_axis_ = axis;
    count_ = nodes_.add("Reshape", "count", {all_->outputs.back()}, {{"shape", Ints{1}}});
  }
  Value* part(std::string_view what, size_t output) {
    return nodes_.value("Slice", what,
                        {all_->outputs[output], nodes_.constant("begin", int_list(Ints{0})), count_->output(),
                         nodes_.constant("axes", int_list(Ints{counted_axis_}))});
  }
  Value* list(Value* x, std::string_view what) { return nodes_.value("Reshape", what, {x}, {{"shape", Ints{-1}}}); }
  void replace(size_t output, Value* by) {
    if (output < node_.outputs.size()) graph_.replace_uses(node_.outputs[output], by);
  }

  Result<> non_zero() {
    Value* x = node_.inputs[0];
    add_all("BoundedNonZero", {x->rank() == 0 ? list(x, "list") : x}, 2, 1);
    replace(0, part("places", 0));
    return {};
  }

  // What there is no condition for is not taken, nor a condition for which there is nothing.
  Result<> compress() {
    Value *x = node_.inputs[0], *which = node_.inputs[1];
    FETTLE_TRY_VOID(ops::check_rank(node_, 1, 1, 1));
    const bool is_flat = !node_.attrs.has("axis");
    FETTLE_TRY(const int64_t axis, ops::axis_of(node_, 0, is_flat ? 1 : x->rank()));
    const Dim extent = is_flat ? element_count(x->shape()) : x->shape()[static_cast<size_t>(axis)];
    if ((which->shape()[0] - extent).max() > 0)
      which = nodes_.value("Slice", "conditions", {which},
                           {{"starts", Ints{0}}, {"ends", dims_attr({extent})}, {"axes", Ints{0}}});
    add_all("BoundedNonZero", {which}, 2, 1);
    Value* places = nodes_.value("Squeeze", "places", {part("rows", 0)}, {{"axes", Ints{0}}});
    replace(0, nodes_.value("Gather", "taken", {is_flat ? list(x, "list") : x, places}, {{"axis", axis}}));
    return {};
  }

  Result<> unique() {
    Value* x = node_.inputs[0];
    const bool is_flat = !node_.attrs.has("axis");
    FETTLE_TRY(const int64_t axis, ops::axis_of(node_, 0, is_flat ? 1 : x->rank()));
    Value* source = is_flat ? list(x, "list") : x;
    Value* rows = source;
    if (is_flat) {
      rows = nodes_.value("Unsqueeze", "rows", {source}, {{"axes", Ints{1}}});
    } else {
      Ints perm = ops::first_numbers(static_cast<size_t>(x->rank()));
      std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
      rows = nodes_.value("Flatten", "rows", {axis == 0 ? x : nodes_.transposed(x, perm)}, {{"axis", int64_t{1}}});
    }
    add_all("BoundedUnique", {rows}, 4, 0, {{"sorted", node_.attrs.get_int("sorted", 1)}});
    Value* first = part("first", 0);
    replace(0, nodes_.value("Gather", "values", {source, first}, {{"axis", axis}}));
    replace(1, first);
    replace(2, all_->outputs[1]);
    replace(3, part("counts", 2));
    return {};
  }

  Result<> suppression() {
    add_all("BoundedNonMaxSuppression", node_.inputs, 2, 0,
            {{"center_point_box", node_.attrs.get_int("center_point_box", 0)}});
    replace(0, part("selected", 0));
    return {};
  }

  Graph& graph_;
  Node& node_;
  NodeBuilder nodes_;
  Node *all_ = nullptr, *count_ = nullptr;
  int64_t counted_axis_ = 0;
};

}  // namespace

bool is_selection(const Node& node) {
  const std::string_view op = node.op->name;
  return op == "NonZero" || op == "Compress" || op == "Unique" || op == "NonMaxSuppression";
}

Result<std::vector<Node*>> lower_selection(Graph& graph, Node* node, const std::function<Result<>(Node*)>& infer) {
  Selection selection(graph, node);
  FETTLE_TRY_VOID(selection.make());
  graph.erase(node);
  return selection.typed(infer);
}

}  // namespace fettle::passes
