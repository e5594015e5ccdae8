#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "graph/op_util.h"
#include "graph/passes/broadcasts.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/passes/pattern.h"

namespace fettle::passes {
namespace {

// Every use of the root's output becomes one of `value`, if the types agree.
bool becomes(Graph& graph, const Match& m, Value* value) {
  if (!value || m.root()->output()->type != value->type) return false;
  graph.replace_node(m.root(), value);
  return true;
}
bool becomes_x(Graph& graph, const Match& m) { return becomes(graph, m, m["x"]); }
bool becomes_input(Graph& graph, const Match& m) { return becomes(graph, m, m.root()->input(0)); }

// The root becomes op(inputs), which does the work of `part`, too.
bool becomes_node(Graph& graph, const Match& m, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {},
                  std::string_view part = {}) {
  const Node* other = part.empty() ? nullptr : m.node(part);
  Node* made = replace_with(graph, m.root(), op, std::move(inputs), std::move(attrs));
  if (made && other) merge_provenance(made, other);
  return made;
}

bool is_float(const Match& m) { return m.root()->output()->dtype().is_float(); }
bool varies(const Match& m) { return !m["x"]->is_constant(); }
bool keeps_shape(const Match& m) { return m["x"]->shape() == m.root()->output()->shape(); }
bool is_power(const Match& m) { return varies(m) && keeps_shape(m); }
bool is_real_power(const Match& m) { return is_power(m) && is_float(m); }

bool becomes_chosen(Graph& graph, const Match& m) {
  return becomes(graph, m, m.number("known") != 0 ? m["a"] : m["b"]);
}

bool is_copy(const Match& m) { return m.root()->op->is_copy(*m.root()); }

bool cube(Graph& graph, const Match& m) {
  Value* x = m["x"];
  Node* square = insert(graph, m.root(), "Mul", {x, x});
  return square && becomes_node(graph, m, "Mul", {square->output(), x});
}

// Powers of two whose inverses are normal numbers, too: products with these are as exact as divisions by them.
bool have_exact_inverses(const std::vector<double>& values, DType dtype) {
  const int least = dtype == kF64 ? DBL_MIN_EXP : dtype == kF16 ? -13 : FLT_MIN_EXP;  // of a fraction in [1/2, 1)
  return std::ranges::all_of(values, [&](double v) {
    int exponent = 0, of_inverse = 0;
    if (std::abs(std::frexp(v, &exponent)) != 0.5) return false;
    std::frexp(1 / v, &of_inverse);
    return exponent >= least && of_inverse >= least;
  });
}

// One form for the rewrites that follow.
bool by_inverse(Graph& graph, const Match& m) {
  const bool division = is(m.root(), "Div");
  const ConstantTensor& c = *m["c"]->constant;
  std::vector<double> values = to_doubles(c);
  if (division && !have_exact_inverses(values, c.dtype)) return false;
  for (double& v : values) v = division ? 1.0 / v : -v;
  auto made = exact_constant(values, c.dtype, c.shape);
  if (!made) return false;
  Value* constant = graph.add_constant(m["c"]->name, std::move(*made));
  return becomes_node(graph, m, division ? "Mul" : "Add", {m["x"], constant});
}
bool is_real(const Match& m) { return varies(m) && is_float(m); }

// Whether one step does what both do but for rounding: (x + magic) - magic rounds x, and (x * huge) / huge bounds it.
bool may_combine(double a, double b, bool product) {
  constexpr double kModest = 1 << 20;
  const auto is_modest = [&](double v) { return std::abs(v) <= kModest && std::abs(v) >= 1 / kModest; };
  if (!product) return std::signbit(a) == std::signbit(b);
  return (is_modest(a) && is_modest(b)) || (std::abs(a) >= 1) == (std::abs(b) >= 1);
}

bool combine_scalars(Graph& graph, const Match& m) {
  const bool product = is(m.root(), "Mul");
  const double a = m.number("a"), b = m.number("b");
  const DType dtype = m.root()->output()->dtype();
  if (dtype.is_float() && !may_combine(a, b, product)) return false;
  auto both = exact_scalar(product ? a * b : a + b, dtype);
  if (!both) return false;
  Value* constant = graph.add_constant(m["b"]->name, std::move(*both));
  return becomes_node(graph, m, product ? "Mul" : "Add", {m["x"], constant}, {}, "before");
}

Attrs shape_attr(const Match& m) { return reshape_attrs(m.root()->output()->shape()); }

bool keeps_count(const Match& m) {
  return is_copy(m) && element_count(m["x"]->shape()) == element_count(m.root()->output()->shape());
}

bool is_sorted(const Match& m) { return std::ranges::is_sorted(permutation(m.root())); }

bool one_transpose(Graph& graph, const Match& m) {
  const auto first = permutation(m.node("before"));
  std::vector<int64_t> both;
  for (const int64_t d : permutation(m.root())) both.push_back(first[static_cast<size_t>(d)]);
  return becomes_node(graph, m, "Transpose", {m["x"]}, {{"perm", std::move(both)}}, "before");
}

bool swaps_matrices(const Node* transpose) {
  const auto perm = permutation(transpose);
  const auto rank = static_cast<int64_t>(perm.size());
  for (int64_t d = 0; d + 2 < rank; ++d)
    if (perm[static_cast<size_t>(d)] != d) return false;
  return rank >= 2 && perm.back() == rank - 2;
}
bool are_swapped(const Match& m) {
  const Value *left = m.node("left")->output(), *right = m["right"];
  return swaps_matrices(m.root()) && swaps_matrices(m.node("left")) && left->rank() == right->rank();
}
// Gradients of weights: what is written in its own order is read from one factor transposed instead of the other.
bool product_of_swapped(Graph& graph, const Match& m) {
  Node* right = insert(graph, m.root(), "Transpose", {m["right"]}, m.root()->attrs);
  return right && becomes_node(graph, m, "MatMul", {right->output(), m["x"]}, {}, "product");
}

// Whether dims larger than 1 stay in their order.
bool moves_nothing(const Match& m) {
  int64_t last = -1;
  for (const int64_t d : permutation(m.root())) {
    if (m["x"]->shape()[static_cast<size_t>(d)] == Dim(1)) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}
bool becomes_reshape(Graph& graph, const Match& m) {
  return becomes_node(graph, m, "Reshape", {m["x"]}, shape_attr(m), "before");
}

bool has_starts(const Match& m) { return m.root()->attrs.has("starts"); }
bool slice_before_transpose(Graph& graph, const Match& m) {
  const auto perm = permutation(m.node("before"));
  const auto starts = ops::dims_param(*m.root(), 1, "starts");
  if (!starts || !*starts) return false;
  auto axes = m.root()->attrs.get_ints("axes", ops::first_numbers((*starts)->size()));
  for (int64_t& axis : axes)
    axis = perm[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(perm.size()) : axis)];
  Attrs sliced = m.root()->attrs;
  sliced.set("axes", axes);
  Node* slice = insert(graph, m.root(), "Slice", {m["x"]}, std::move(sliced));
  return slice && becomes_node(graph, m, "Transpose", {slice->output()}, {{"perm", perm}}, "before");
}

// Slice(Concat(a, b, …)) that begins and ends at parts' borders is these parts; one within a part is a slice of that.
bool slice_of_parts(Graph& graph, const Match& m) {
  const Node *slice = m.root(), *concat = m.node("whole");
  const auto starts = ops::dims_param(*slice, 1, "starts");
  if (!starts || !*starts || (*starts)->size() != 1 || slice->inputs.size() != 1) return false;
  const auto rank = static_cast<int64_t>(slice->input(0)->shape().size());
  const auto positive = [&](int64_t axis) { return axis < 0 ? axis + rank : axis; };
  const int64_t axis = positive(concat->attrs.get_int("axis", 0));
  if (positive(slice->attrs.get_ints("axes", {0}).front()) != axis || slice->attrs.get_ints("steps", {1}).front() != 1)
    return false;
  const auto extent = [&](const Value* x) { return x->shape()[static_cast<size_t>(axis)]; };
  Dim begin = (*starts)->front();
  if (begin.max() < 0) begin = begin + extent(slice->input(0));
  const Dim end = begin + extent(slice->output());
  std::vector<Value*> parts;
  Dim at = 0;
  for (Value* part : concat->inputs) {
    const Dim next = at + extent(part);
    if (parts.empty() && (begin - at).min() >= 0 && (next - end).min() >= 0 && !(at == begin && next == end)) {
      const Dim first = begin - at, last = end - at;
      return becomes_node(
          graph, m, "Slice", {part},
          {{"axes", std::vector<int64_t>{axis}}, {"starts", dims_attr({first})}, {"ends", dims_attr({last})}}, "whole");
    }
    if (at == begin || !parts.empty()) parts.push_back(part);
    if (!parts.empty() && next == end) {
      if (parts.size() == 1) return becomes(graph, m, parts[0]);
      return becomes_node(graph, m, "Concat", std::move(parts), {{"axis", axis}}, "whole");
    }
    at = next;
  }
  return false;
}

bool has_an_empty_part(const Match& m) {
  return m.root()->inputs.size() > 1 &&
         std::ranges::any_of(m.root()->inputs, [](const Value* x) { return element_count(x->shape()) == Dim(0); });
}
bool without_empty_parts(Graph& graph, const Match& m) {
  std::vector<Value*> parts;
  for (Value* x : m.root()->inputs)
    if (!(element_count(x->shape()) == Dim(0))) parts.push_back(x);
  if (parts.empty()) parts.push_back(m.root()->input(0));
  if (parts.size() == 1) return becomes(graph, m, parts[0]);
  return becomes_node(graph, m, "Concat", std::move(parts), {{"axis", m.root()->attrs.get_int("axis", 0)}});
}

bool is_one_reshape(const Match& m) { return m.root()->inputs.size() == 1; }
// Flatten, Squeeze, Unsqueeze, and Reshape of any wording.
bool is_worded_otherwise(const Match& m) {
  if (!is_one_reshape(m)) return false;
  const AttrValue* shape = m.root()->attrs.find("shape");
  return !is(m.root(), "Reshape") || !shape || !(*shape == dims_attr(m.root()->output()->shape()));
}
bool reshape_input(Graph& graph, const Match& m) {
  return becomes_node(graph, m, "Reshape", {m.root()->input(0)}, shape_attr(m));
}
bool reshapes_a_reshape(const Match& m) {
  const Node* before = made_by(m.root()->input(0), "Reshape");
  return is_one_reshape(m) && before && before->inputs.size() == 1;
}
bool one_reshape(Graph& graph, const Match& m) {
  const Node* before = m.root()->input(0)->producer;
  Node* made = replace_with(graph, m.root(), "Reshape", {before->input(0)}, shape_attr(m));
  if (made) merge_provenance(made, before);
  return made;
}

// Where the axis is known in length: an index may count from its end.
bool is_number_of_places(const Match& m) {
  const Value* x = m["x"];
  const int64_t axis = m.root()->attrs.get_int("axis", 0);
  return x->shape()[static_cast<size_t>(axis < 0 ? axis + x->rank() : axis)].is_number();
}
bool takes_one(const Match& m) { return varies(m) && is_number_of_places(m) && m["index"]->constant->n_elems() == 1; }
bool slice_of_one(Graph& graph, const Match& m) {
  const Value* x = m["x"];
  int64_t axis = m.root()->attrs.get_int("axis", 0), at = m["index"]->constant->int_at(0);
  if (axis < 0) axis += x->rank();
  if (at < 0) at += x->extent(static_cast<int>(axis));
  using Ints = std::vector<int64_t>;
  Attrs attrs{{"axes", Ints{axis}}, {"starts", Ints{at}}, {"ends", Ints{at + 1}}};
  Node* slice = insert(graph, m.root(), "Slice", {m["x"]}, std::move(attrs));
  return slice && becomes_node(graph, m, "Reshape", {slice->output()}, shape_attr(m));
}

bool has_no_bound(const Match& m) { return !m.root()->attrs.has("min") && !m.root()->attrs.has("max"); }
bool clips_below_zero(const Match& m) {
  return m.root()->attrs.get_float("min", -1) == 0 && !m.root()->attrs.has("max");
}
bool is_plain_softmax(const Match& m) {
  if (!m.root()->attrs.has("coerced")) return false;
  const int64_t axis = m.root()->attrs.get_int("axis", -1), rank = m.root()->input(0)->rank();
  return axis == -1 || axis == rank - 1;
}

bool is_plain_gemm(const Match& m) {
  const Attrs& attrs = m.root()->attrs;
  return !attrs.get_int("transA", 0) && attrs.get_float("alpha", 1) == 1 &&
         (!m.root()->input(2) || attrs.get_float("beta", 1) == 1) &&
         (!attrs.get_int("transB", 0) || m.root()->input(1)->is_constant());
}
bool product_and_sum(Graph& graph, const Match& m) {
  Value *a = m.root()->input(0), *b = m.root()->input(1), *c = m.root()->input(2);
  if (m.root()->attrs.get_int("transB", 0)) {
    Node* transposed = insert(graph, m.root(), "Transpose", {b}, {{"perm", std::vector<int64_t>{1, 0}}});
    if (!transposed) return false;
    b = transposed->output();
  }
  if (!c) return becomes_node(graph, m, "MatMul", {a, b});
  Node* made = insert(graph, m.root(), "MatMul", {a, b});
  return made && becomes_node(graph, m, "Add", {made->output(), c});
}

const std::vector<Rewrite>& rewrites() {
  const Pattern x = any("x");
  const auto chain = [&](const char* op) {
    return node(op, {node(op, {x, number("a")}).used_once().as("before"), number("b")});
  };
  static const std::vector<Rewrite> table = {
      // Identity, Cast to its own type, Dropout, Max(x), Concat(x), Expand, Tile, Slice and Pad that change nothing
      {"copy", node([](const OpDef& op) { return op.is_copy != nullptr; }), is_copy, becomes_input},
      {"x * 1", node("Mul", {x, exactly(1)}), nullptr, becomes_x},
      {"x + 0", node("Add", {x, exactly(0)}), nullptr, becomes_x},
      {"x - 0", node("Sub", {x, exactly(0)}), nullptr, becomes_x},
      {"x / 1", node("Div", {x, exactly(1)}), nullptr, becomes_x},
      {"x ^ 1", node("Pow", {x, exactly(1)}), nullptr, becomes_x},
      {"x ^ 2 → x * x", node("Pow", {x, exactly(2)}), is_power,
       [](Graph& g, const Match& m) { return becomes_node(g, m, "Mul", {m["x"], m["x"]}); }},
      {"x ^ 0.5 → sqrt(x)", node("Pow", {x, exactly(0.5)}), is_real_power,
       [](Graph& g, const Match& m) { return becomes_node(g, m, "Sqrt", {m["x"]}); }},
      {"x ^ -1 → 1 / x", node("Pow", {x, exactly(-1)}), is_real_power,
       [](Graph& g, const Match& m) { return becomes_node(g, m, "Reciprocal", {m["x"]}); }},
      {"x ^ 3 → x * x * x", node("Pow", {x, exactly(3)}), is_power, cube},
      {"x / 2^n → x * 2^-n", node("Div", {x, constant("c")}), is_real, by_inverse},
      {"x - c → x + (-c)", node("Sub", {x, constant("c")}), is_real, by_inverse},
      {"(x * a) * b → x * (a*b)", chain("Mul"), is_power, combine_scalars},
      {"(x + a) + b → x + (a+b)", chain("Add"), is_power, combine_scalars},
      {"max(x, -∞) → x", node("Max", {x, exactly(-std::numeric_limits<double>::infinity())}), is_real_power, becomes_x},
      {"where(known, a, b) → a", node("Where", {number("known"), any("a"), any("b")}), nullptr, becomes_chosen},
      {"transpose in order", node("Transpose", {x}), is_sorted, becomes_x},
      {"transpose(transpose(x))", node("Transpose", {node("Transpose", {x}).as("before")}), nullptr, one_transpose},
      {"(a' @ b)' → b' @ a",
       node("Transpose", {node("MatMul", {node("Transpose", {x}).as("left"), any("right")}).used_once().as("product")}),
       are_swapped, product_of_swapped},
      {"transpose of dims of extent 1 → reshape", node("Transpose", {x}), moves_nothing, becomes_reshape},
      {"expand by dims of extent 1 → reshape", node("Expand", {x}), keeps_count, becomes_reshape},
      {"elementwise(expand(x))", node([](const OpDef& op) { return op.is_pointwise; }), reads_repeated, before_expand},
      // Less is moved, and slices of one transposed tensor no longer share it.
      {"slice(transpose(x)) → transpose(slice(x))", node("Slice", {node("Transpose", {x}).as("before")}), has_starts,
       slice_before_transpose},
      {"concat(x, nothing) → x", node("Concat"), has_an_empty_part, without_empty_parts},
      {"slice(concat(a, b)) → b", node("Slice", {node("Concat").as("whole")}), has_starts, slice_of_parts},
      {"reshape to the same shape", node([](const OpDef& op) { return op.is_reshape; }), nullptr, becomes_input},
      {"reshape(reshape(x))", node([](const OpDef& op) { return op.is_reshape; }), reshapes_a_reshape, one_reshape},
      {"flatten, squeeze, unsqueeze → reshape", node([](const OpDef& op) { return op.is_reshape; }),
       is_worded_otherwise, reshape_input},
      {"gather of one element → slice, reshape", node("Gather", {x, constant("index")}), takes_one, slice_of_one},
      {"clip without bounds", node("Clip", {x}), has_no_bound, becomes_x},
      {"clip from 0 → relu", node("Clip", {x}), clips_below_zero,
       [](Graph& g, const Match& m) { return becomes_node(g, m, "Relu", {m["x"]}); }},
      {"relu(relu(x))", node("Relu", {node("Relu", {any("y")}).as("x")}), nullptr, becomes_x},
      // Older opsets flatten behind the axis, which changes nothing where that is the last one.
      {"softmax over the last dim", node([](const OpDef&) { return true; }), is_plain_softmax,
       [](Graph&, const Match& m) { return m.root()->attrs.erase("coerced"); }},
      // Where that leaves nothing to do while the model runs.
      {"gemm(a, b, c) → a @ b' + c", node("Gemm"), is_plain_gemm, product_and_sum},
  };
  return table;
}

}  // namespace

Result<> simplify(Graph& graph, const PassContext&) {
  constexpr int kMaxRounds = 16;
  bool changed = true;
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    changed = false;
    for (Node* node : std::vector<Node*>(graph.nodes()))
      for (const Rewrite& rewrite : rewrites()) changed = apply(graph, node, rewrite) || changed;
    graph.sort();
  }
  return drop_dead(graph, {});
}

}  // namespace fettle::passes
