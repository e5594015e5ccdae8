#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// 0, 1, …, n-1 along the last dim, the others being 1 → n
std::optional<int64_t> counts_up(const Value* value) {
  if (!value->is_constant() || !value->dtype().is_int() || value->rank() == 0) return {};
  const int64_t n = value->extent(-1);
  if (n < 1 || value->constant->n_elems() != n) return {};
  for (int64_t i = 0; i < n; ++i)
    if (value->constant->int_at(i) != i) return {};
  return n;
}

// cast(i[…, 1] == [0, 1, …, n-1]) @ w → w[i]. An index outside finds a row of zeros, which is put below w: Gather takes
// -1 for the last row, and n is the last row.
bool one_hot_product(Graph& graph, Node* node) {
  if (!is(node, "MatMul")) return false;
  Value* w = node->input(1);
  const Node* cast = made_by(node->input(0), "Cast");
  const Node* equal = cast ? made_by(cast->input(0), "Equal") : nullptr;
  if (!equal || !w->is_constant() || w->rank() != 2) return false;
  const auto found = operands(equal, [](const Value* v) { return counts_up(v).has_value(); });
  if (!found || *counts_up(found->first) != w->extent(0)) return false;
  Value* index = found->second;
  const int64_t n = w->extent(0), width = w->extent(1);
  if (index->is_constant() || index->rank() != equal->output()->rank() || !(index->shape().back() == Dim(1)))
    return false;

  auto table = make_tensor(w->dtype(), {n + 1, width});
  if (!table) return false;
  std::memcpy(table->bytes.get(), w->constant->bytes.get(), static_cast<size_t>(w->constant->size_bytes));
  Value* rows = graph.add_constant(w->name, std::move(*table).finish());
  Shape shape = index->shape();
  shape.pop_back();
  index = reshaped_value(graph, equal, index, shape);
  Attrs bounds{{"min", -1.0}, {"max", static_cast<double>(n)}};
  Node* clipped = index ? insert(graph, equal, "Clip", {index}, std::move(bounds)) : nullptr;
  if (!clipped) return false;
  Node* made = replace_with(graph, node, "Gather", {rows, clipped->output()}, {{"axis", int64_t{0}}});
  if (made) merge_provenance(made, cast);
  return made;
}

// f(table[i], c) → f(table, c)[i], where c does not vary with i: the work is done once, when the model is compiled.
bool into_table(Graph& graph, Node* node) {
  if (!is_pointwise(node)) return false;
  for (Value* looked_up : node->inputs) {
    const Node* gather = made_only_for_us(graph, looked_up, "Gather");
    if (!gather || !gather->input(0)->is_constant()) continue;
    Value* table = gather->input(0);
    const int64_t axis = gather->attrs.get_int("axis", 0), rank = table->rank();
    const auto before = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    const auto indices = static_cast<size_t>(gather->input(1)->rank());
    if (looked_up->shape() != node->output()->shape() ||
        element_count(table->shape()).typical() > element_count(looked_up->shape()).typical())
      continue;
    std::vector<Value*> inputs;
    for (Value* operand : node->inputs) {
      if (operand == looked_up) {
        inputs.push_back(table);
        continue;
      }
      if (!operand->is_constant()) break;
      Shape shape = operand->shape();
      if (shape.size() > looked_up->shape().size()) break;
      shape.insert(shape.begin(), looked_up->shape().size() - shape.size(), 1);
      const auto first = shape.begin() + static_cast<std::ptrdiff_t>(before);
      const auto last = first + static_cast<std::ptrdiff_t>(indices);
      if (std::any_of(first, last, [](const Dim& d) { return !(d == Dim(1)); })) break;
      shape.erase(first, last);
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(before), 1);
      Value* constant = graph.add_constant(operand->name, reshaped(*operand->constant, *static_shape(shape)));
      inputs.push_back(constant);
    }
    if (inputs.size() != node->inputs.size()) continue;
    Node* made = insert_again(graph, node, std::move(inputs), table->shape());
    if (!made) continue;
    Node* moved = replace_with(graph, node, "Gather", {made->output(), gather->input(1)}, gather->attrs);
    if (moved) merge_provenance(moved, gather);
    return moved;
  }
  return false;
}

}  // namespace

Result<> fold_gathers(Graph& graph, const PassContext& context) {
  for (Node* node : std::vector<Node*>(graph.nodes()))
    if (!node->erased) one_hot_product(graph, node);
  graph.sort();
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (node->erased || !into_table(graph, node)) continue;
    // What the next node sees is a constant again.
    graph.sort();
    FETTLE_TRY_VOID(fold_constants(graph, context));
  }
  return drop_dead(graph, context);
}

}  // namespace fettle::passes
