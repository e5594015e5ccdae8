#include <algorithm>
#include <numeric>

#include "graph/op_util.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// A rule looks at one node and says whether it changed the graph; the node may then be gone.
using Rule = bool (*)(Graph& graph, Node* node);

bool same_type(const Value* a, const Value* b) { return a->type == b->type; }

// Every use of the node's output becomes one of `value`, if the types agree.
bool becomes(Graph& graph, Node* node, Value* value) {
  if (!value || !same_type(node->outputs[0], value)) return false;
  graph.replace_node(node, value);
  return true;
}

bool is_float(const Node* node) { return node->outputs[0]->dtype().is_float(); }

// Identity(x), Cast to its own type, Dropout, Max(x), Concat(x), Expand, Tile, Slice and Pad that change nothing → x
bool drop_copies(Graph& graph, Node* node) {
  return node->op->is_copy && node->op->is_copy(*node) && becomes(graph, node, node->inputs[0]);
}

// x*1, x+0, x-0, x/1, x^1 → x
bool neutral_element(Graph& graph, Node* node) {
  const std::string_view op = node->op->name;
  const auto is_exactly = [](double wanted) { return [wanted](const Value* v) { return as_scalar(v) == wanted; }; };
  if (op == "Mul" || op == "Add") {
    const auto found = operands(node, is_exactly(op == "Mul" ? 1 : 0));
    return found && becomes(graph, node, found->second);
  }
  if (op == "Sub" || op == "Div" || op == "Pow")
    return as_scalar(node->inputs[1]) == (op == "Sub" ? 0.0 : 1.0) && becomes(graph, node, node->inputs[0]);
  return false;
}

// x^2 → x*x, x^3 → x*x*x, x^0.5 → sqrt(x), x^-1 → 1/x
bool small_powers(Graph& graph, Node* node) {
  if (!is(node, "Pow") || node->inputs[0]->is_constant()) return false;
  const auto exponent = as_scalar(node->inputs[1]);
  Value* x = node->inputs[0];
  if (!exponent || node->outputs[0]->shape() != x->shape()) return false;
  if (*exponent == 2) return replace_with(graph, node, "Mul", {x, x});
  if (*exponent == 0.5 && is_float(node)) return replace_with(graph, node, "Sqrt", {x});
  if (*exponent == -1 && is_float(node)) return replace_with(graph, node, "Reciprocal", {x});
  if (*exponent == 3) {
    Node* square = insert(graph, node, "Mul", {x, x});
    return square && replace_with(graph, node, "Mul", {square->outputs[0], x});
  }
  return false;
}

// x / c → x * (1/c), x - c → x + (-c) for float constants: one form for the rules that follow.
bool constant_operand(Graph& graph, Node* node) {
  const bool division = is(node, "Div");
  if ((!division && !is(node, "Sub")) || !is_float(node)) return false;
  const Value* c = node->inputs[1];
  if (!c->is_constant() || node->inputs[0]->is_constant()) return false;
  std::vector<double> values = to_doubles(*c->constant);
  for (double& v : values) {
    if (division && v == 0) return false;
    v = division ? 1.0 / v : -v;
  }
  auto made = exact_constant(values, c->constant->dtype, c->constant->shape);
  if (!made) return false;
  Value* constant = graph.add_constant(c->name, std::move(*made));
  return replace_with(graph, node, division ? "Mul" : "Add", {node->inputs[0], constant});
}

// (x * a) * b → x * (a*b), (x + a) + b → x + (a+b) for scalars
bool constant_chain(Graph& graph, Node* node) {
  const bool product = is(node, "Mul");
  if (!product && !is(node, "Add")) return false;
  const auto scalar_input = [](const Value* v) { return as_scalar(v).has_value(); };
  const auto outer = operands(node, scalar_input);
  if (!outer) return false;
  Node* before = made_only_for_us(graph, outer->second, node->op->name);
  const auto inner = before ? operands(before, scalar_input) : std::nullopt;
  if (!inner || inner->second->is_constant()) return false;
  const double a = *as_scalar(inner->first), b = *as_scalar(outer->first);
  Value* x = inner->second;
  if (x->shape() != node->outputs[0]->shape()) return false;
  auto both = exact_scalar(product ? a * b : a + b, node->outputs[0]->dtype());
  if (!both) return false;
  Value* constant = graph.add_constant(outer->first->name, std::move(*both));
  Node* made = replace_with(graph, node, product ? "Mul" : "Add", {x, constant});
  if (made) merge_provenance(made, before);
  return made;
}

std::vector<int64_t> permutation(const Node* node) {
  std::vector<int64_t> perm(static_cast<size_t>(node->inputs[0]->rank()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  return node->attrs.get_ints("perm", perm);
}

Attrs shape_attr(const Shape& shape) {
  Attrs attrs;
  attrs.set("allowzero", int64_t{1});
  attrs.set("shape", *static_shape(shape));
  return attrs;
}

// Transposes in a row are one; one that keeps the order of the dims larger than 1 is a Reshape; the identity is none.
bool transposes(Graph& graph, Node* node) {
  if (!is(node, "Transpose")) return false;
  const auto perm = permutation(node);
  if (std::is_sorted(perm.begin(), perm.end())) return becomes(graph, node, node->inputs[0]);
  if (const Node* before = made_by(node->inputs[0], "Transpose")) {
    const auto first = permutation(before);
    std::vector<int64_t> both;
    for (const int64_t d : perm) both.push_back(first[static_cast<size_t>(d)]);
    Attrs attrs;
    attrs.set("perm", both);
    Node* made = replace_with(graph, node, "Transpose", {before->inputs[0]}, std::move(attrs));
    if (made) merge_provenance(made, before);
    return made;
  }
  const Value* x = node->inputs[0];
  if (!x->is_static() || !node->outputs[0]->is_static()) return false;
  int64_t last = -1;
  for (const int64_t d : perm) {
    if (x->extent(static_cast<int>(d)) == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return replace_with(graph, node, "Reshape", {node->inputs[0]}, shape_attr(node->outputs[0]->shape()));
}

// slice(transpose(x)) → transpose(slice(x)): less is moved, and slices of one transposed tensor no longer share it.
bool slice_of_transpose(Graph& graph, Node* node) {
  if (!is(node, "Slice") || node->inputs.size() != 1 || !node->attrs.has("starts")) return false;
  Node* before = made_by(node->inputs[0], "Transpose");
  if (!before) return false;
  const auto perm = permutation(before);
  const size_t n = node->attrs.get_ints("starts").size();
  std::vector<int64_t> axes(n);
  std::iota(axes.begin(), axes.end(), 0);
  axes = node->attrs.get_ints("axes", axes);
  for (int64_t& axis : axes)
    axis = perm[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(perm.size()) : axis)];
  Attrs sliced = node->attrs;
  sliced.set("axes", axes);
  Node* slice = insert(graph, node, "Slice", {before->inputs[0]}, std::move(sliced));
  if (!slice) return false;
  Attrs attrs;
  attrs.set("perm", perm);
  Node* made = replace_with(graph, node, "Transpose", {slice->outputs[0]}, std::move(attrs));
  if (made) merge_provenance(made, before);
  return made;
}

// Flatten, Squeeze, Unsqueeze, and Reshape of any wording → Reshape {shape = the output's}; in a row they are one; one
// that changes nothing is none.
bool reshapes(Graph& graph, Node* node) {
  if (!node->op->is_reshape) return false;
  const bool special = !is(node, "Reshape");
  if (becomes(graph, node, node->inputs[0])) return true;
  if (!node->outputs[0]->is_static() || node->inputs.size() > 1) return false;
  const Shape& shape = node->outputs[0]->shape();
  const Node* before = made_by(node->inputs[0], "Reshape");
  if (!before && !special && node->attrs.get_ints("shape") == *static_shape(shape)) return false;
  if (before && before->inputs.size() > 1) return false;
  Value* x = before ? before->inputs[0] : node->inputs[0];
  Node* made = replace_with(graph, node, "Reshape", {x}, shape_attr(shape));
  if (made && before) merge_provenance(made, before);
  return made;
}

// Gather of one known element along an axis → Slice, Reshape
bool gather_of_one(Graph& graph, Node* node) {
  if (!is(node, "Gather") || node->inputs[0]->is_constant() || !node->inputs[0]->is_static()) return false;
  const Value* index = node->inputs[1];
  if (!index->is_constant() || index->constant->n_elems() != 1) return false;
  const Value* x = node->inputs[0];
  int64_t axis = node->attrs.get_int("axis", 0), at = index->constant->int_at(0);
  if (axis < 0) axis += x->rank();
  if (at < 0) at += x->extent(static_cast<int>(axis));
  Attrs attrs;
  attrs.set("axes", std::vector<int64_t>{axis});
  attrs.set("starts", std::vector<int64_t>{at});
  attrs.set("ends", std::vector<int64_t>{at + 1});
  Node* slice = insert(graph, node, "Slice", {node->inputs[0]}, std::move(attrs));
  return slice && replace_with(graph, node, "Reshape", {slice->outputs[0]}, shape_attr(node->outputs[0]->shape()));
}

// Clip from 0 → Relu; Relu of Relu → Relu
bool clips(Graph& graph, Node* node) {
  if (is(node, "Clip") && node->inputs.size() == 1) {
    if (!node->attrs.has("min") && !node->attrs.has("max")) return becomes(graph, node, node->inputs[0]);
    if (node->attrs.get_float("min", -1) == 0 && !node->attrs.has("max"))
      return replace_with(graph, node, "Relu", {node->inputs[0]});
  }
  return is(node, "Relu") && made_by(node->inputs[0], "Relu") && becomes(graph, node, node->inputs[0]);
}

// Softmax of older opsets over the last dim alone → Softmax
bool coerced_softmax(Graph&, Node* node) {
  if (!node->attrs.has("coerced")) return false;
  const int64_t axis = node->attrs.get_int("axis", -1), rank = node->inputs[0]->rank();
  if (axis != -1 && axis != rank - 1) return false;
  return node->attrs.erase("coerced");
}

// Gemm(a, b, c) → MatMul(a', b') * alpha + c * beta, where that leaves nothing to do while the model runs
bool gemm(Graph& graph, Node* node) {
  if (!is(node, "Gemm") || node->attrs.get_int("transA", 0) || node->attrs.get_float("alpha", 1) != 1) return false;
  Value* c = node->input(2);
  if (c && node->attrs.get_float("beta", 1) != 1) return false;
  Value* b = node->inputs[1];
  if (node->attrs.get_int("transB", 0)) {
    if (!b->is_constant()) return false;
    Attrs attrs;
    attrs.set("perm", std::vector<int64_t>{1, 0});
    Node* turned = insert(graph, node, "Transpose", {b}, std::move(attrs));
    if (!turned) return false;
    b = turned->outputs[0];
  }
  if (!c) return replace_with(graph, node, "MatMul", {node->inputs[0], b});
  Node* product = insert(graph, node, "MatMul", {node->inputs[0], b});
  return product && replace_with(graph, node, "Add", {product->outputs[0], c});
}

constexpr Rule kRules[] = {
    drop_copies, neutral_element, small_powers, constant_operand, constant_chain, transposes, slice_of_transpose,
    reshapes,    gather_of_one,   clips,        coerced_softmax,  gemm,
};

}  // namespace

Result<> simplify(Graph& graph, const PassContext&) {
  constexpr int kMaxRounds = 16;
  bool changed = true;
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    changed = false;
    for (Node* node : std::vector<Node*>(graph.nodes())) {
      for (const Rule rule : kRules) {
        if (node->erased) break;
        if (graph.use_count(node->outputs[0]) == 0) break;
        changed = rule(graph, node) || changed;
      }
    }
    graph.sort();
  }
  return drop_dead(graph, {});
}

}  // namespace fettle::passes
