#include <algorithm>
#include <optional>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/view.h"

namespace fettle::passes {
namespace {

// The shape of something that broadcasts to `from`, where `from` is looked at as `to` of as many elements: groups of
// dims with equal products, in each of which it has all dims or none.
//   [768] under [1, 128, 768] → [128, 768]: [1, 768]      [512, 1] under [512, 508] → [1, 512, 508, 1]: [1, 512, 1, 1]
std::optional<Shape> shape_through(const Shape& shape, const Shape& from, const Shape& to) {
  if (shape.size() > from.size()) return {};
  const size_t missing = from.size() - shape.size();
  Shape result(to.size(), 1);
  const auto groups = equal_groups(from, to);
  if (!groups) return {};
  for (const DimGroup& group : *groups) {
    bool all = true, none = true;
    for (size_t d = group.from; d < group.from_end; ++d) {
      const Dim extent = d < missing ? Dim(1) : shape[d - missing];
      if (!(from[d] == Dim(1))) (extent == Dim(1) ? all : none) = false;
    }
    if (!all && !none) return {};
    for (size_t d = group.to; all && d < group.to_end; ++d) result[d] = to[d];
  }
  return result;
}

// An operand of an elementwise node after Reshape(x), as one before it. Null where there is none.
Value* before_reshape(Graph& graph, const Node* node, Value* operand, const Value* x, const Value* view) {
  if (operand->constant && operand->constant->n_elems() == 1 && operand->rank() <= x->rank()) return operand;
  const auto shape = shape_through(operand->shape(), view->shape(), x->shape());
  if (!shape) return nullptr;
  if (*shape == operand->shape()) return operand;
  if (operand->is_constant()) {
    auto extents = static_shape(*shape);
    return extents ? graph.add_constant(operand->name, reshaped(*operand->constant, std::move(*extents))) : nullptr;
  }
  return reshaped_value(graph, node, operand, *shape);
}

// The same after Transpose(x) {perm}.
Value* before_transpose(Graph& graph, const Node* node, Value* operand, const std::vector<int64_t>& perm) {
  if (operand->constant && operand->constant->n_elems() == 1) return operand;
  Shape shape = operand->shape();
  if (shape.size() > perm.size()) return nullptr;
  shape.insert(shape.begin(), perm.size() - shape.size(), 1);
  std::vector<int64_t> back(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  if (operand->is_constant() &&
      std::count(shape.begin(), shape.end(), Dim(1)) + 1 >= static_cast<std::ptrdiff_t>(shape.size())) {
    std::vector<int64_t> transposed;
    for (const int64_t d : back) transposed.push_back(shape[static_cast<size_t>(d)].value());
    return graph.add_constant(operand->name, reshaped(*operand->constant, std::move(transposed)));
  }
  operand = reshaped_value(graph, node, operand, shape);
  const Node* made = operand ? insert(graph, node, "Transpose", {operand}, {{"perm", back}}) : nullptr;
  return made ? made->output() : nullptr;
}

// Whether kernels take elementwise work of this kind: then it is better off before the view.
bool computes(const Node* node) {
  return node && node->outputs.size() == 1 && node->op->fusion != FusionKind::kInjective &&
         node->op->fusion != FusionKind::kOpaque;
}

// f(view(x), c) → view(f(x, c')), view = Reshape or Transpose
bool sink(Graph& graph, Node* node) {
  if (!is_pointwise(node)) return false;
  for (Value* view : node->inputs) {
    Node* renaming = made_by(view, "Reshape");
    if (!renaming) renaming = made_by(view, "Transpose");
    if (!renaming || renaming->inputs.size() != 1) continue;
    Value* x = renaming->input(0);
    const auto uses = static_cast<size_t>(std::count(node->inputs.begin(), node->inputs.end(), view));
    if (!computes(x->producer) || graph.use_count(x) != 1 || graph.use_count(view) != uses) continue;
    if (view->shape() != node->output()->shape()) continue;
    if (std::ranges::find(x->shape(), Dim(0)) != x->shape().end()) continue;
    const bool reshape = is(renaming, "Reshape");
    const std::vector<int64_t> perm = permutation(renaming);
    std::vector<Value*> inputs;
    for (Value* operand : node->inputs) {
      Value* before = operand == view ? x
                      : reshape       ? before_reshape(graph, node, operand, x, view)
                                      : before_transpose(graph, node, operand, perm);
      if (before) inputs.push_back(before);
    }
    if (inputs.size() != node->inputs.size()) continue;
    Node* moved = insert_again(graph, node, std::move(inputs), x->shape());
    if (!moved) continue;
    merge_provenance(moved, renaming);
    return replace_with(graph, node, renaming->op->name, {moved->output()}, renaming->attrs);
  }
  return false;
}

// How many of the last dims the node works along, each row for itself; 0: it is no such node.
size_t last_dims(const Node& node) {
  if (is(&node, "CausalMask")) return 2;
  const auto rank = static_cast<int64_t>(node.output()->shape().size());
  const int64_t axis = is(&node, "Softmax") && !node.attrs.has("coerced") ? node.attrs.get_int("axis", -1) : 0;
  return axis == -1 || (axis > 0 && axis == rank - 1) ? 1 : 0;
}

// f(reshape(x)) → reshape(f(x)), where f works along last dims that the reshape keeps.
bool sink_along_rows(Graph& graph, Node* node) {
  const size_t kept = node->outputs.size() == 1 ? last_dims(*node) : 0;
  Node* reshape = kept > 0 ? made_only_for_us(graph, node->input(0), "Reshape") : nullptr;
  if (!reshape || reshape->inputs.size() != 1) return false;
  Value* x = reshape->input(0);
  if (!computes(x->producer) || graph.use_count(x) != 1) return false;
  const Shape &from = x->shape(), &to = reshape->output()->shape();
  if (from.size() <= kept || to.size() <= kept ||
      !std::equal(from.end() - static_cast<std::ptrdiff_t>(kept), from.end(),
                  to.end() - static_cast<std::ptrdiff_t>(kept)))
    return false;
  Attrs attrs = node->attrs;
  if (attrs.has("axis")) attrs.set("axis", int64_t{-1});
  Node* moved = insert(graph, node, node->op->name, {x}, std::move(attrs));
  if (!moved) return false;
  merge_provenance(moved, reshape);
  return replace_with(graph, node, "Reshape", {moved->output()}, reshape->attrs);
}

}  // namespace

Result<> sink_views(Graph& graph, const PassContext& context) {
  // In topological order, so a view moves on through all that follows it.
  for (Node* node : std::vector<Node*>(graph.nodes()))
    if (!node->erased && !sink(graph, node)) sink_along_rows(graph, node);
  return drop_dead(graph, context);
}

}  // namespace fettle::passes
