#include <algorithm>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

/// Dimension `axis` of `source`, of extent 1, was repeated `group` times and joined to the one before it.
struct Repetition {
  Value* source = nullptr;
  size_t axis = 0;
  bool transposed = false;  // the last two dims were swapped after that
};

bool swaps_last_two(const Node* transpose) {
  std::vector<int64_t> perm = permutation(transpose);
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 2], perm.back());
  return std::ranges::is_sorted(perm);
}

std::optional<Repetition> repetition_of(Value* value) {
  Repetition found;
  if (const Node* transpose = made_by(value, "Transpose")) {
    if (!swaps_last_two(transpose)) return {};
    value = transpose->input(0);
    found.transposed = true;
  }
  const Node* reshape = made_by(value, "Reshape");
  const Node* expand = reshape ? made_by(reshape->input(0), "Expand") : nullptr;
  if (!expand || expand->inputs.size() != 1) return {};
  found.source = expand->input(0);
  const Shape &from = found.source->shape(), &to = expand->output()->shape(), &joined = value->shape();
  if (from.size() != to.size() || joined.size() + 1 != to.size() || from.size() < 4) return {};
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    if (found.axis > 0 || !(from[d] == Dim(1))) return {};
    found.axis = d;
  }
  if (found.axis == 0 || found.axis + 2 >= to.size()) return {};
  for (size_t d = 0; d < joined.size(); ++d) {
    const Dim wanted = d + 1 == found.axis ? to[d] * to[d + 1] : to[d < found.axis ? d : d + 1];
    if (!(joined[d] == wanted)) return {};
  }
  return found;
}

bool group(Graph& graph, Node* node) {
  if (!is(node, "MatMul")) return false;
  const auto repeated = repetition_of(node->input(1));
  Value* x = node->input(0);
  if (!repeated || x->rank() != node->input(1)->rank()) return false;
  const size_t heads = repeated->axis - 1;
  const Dim extent = repeated->source->shape()[heads], all = node->input(1)->shape()[heads];
  const auto group = exact_quotient(all, extent);
  Shape parted = x->shape();
  if (!group || !(parted[heads] == all)) return false;
  // One row of each head: the heads of a group are rows of one product.
  const bool are_rows = heads + 3 == parted.size() && parted[heads + 1] == Dim(1);
  parted[heads] = extent;
  if (are_rows)
    parted[heads + 1] = *group;
  else
    parted.insert(parted.begin() + static_cast<std::ptrdiff_t>(heads) + 1, *group);
  Value* y = repeated->source;
  if (are_rows) {
    Shape without = y->shape();
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(repeated->axis));
    y = reshaped_value(graph, node, y, without);
  }
  if (y && repeated->transposed) {
    std::vector<int64_t> perm(static_cast<size_t>(y->rank()));
    for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
    std::swap(perm[perm.size() - 2], perm.back());
    const Node* transposed = insert(graph, node, "Transpose", {y}, {{"perm", perm}});
    y = transposed ? transposed->output() : nullptr;
  }
  Value* rows = reshaped_value(graph, node, x, parted);
  Node* product = rows && y ? insert(graph, node, "MatMul", {rows, y}, node->attrs) : nullptr;
  if (!product) return false;
  const Shape shape = node->output()->shape();
  return replace_with(graph, node, "Reshape", {product->output()}, reshape_attrs(shape));
}

}  // namespace

Result<> group_heads(Graph& graph, const PassContext& context) {
  for (Node* node : std::vector<Node*>(graph.nodes()))
    if (!node->erased) group(graph, node);
  return drop_dead(graph, context);
}

}  // namespace fettle::passes
