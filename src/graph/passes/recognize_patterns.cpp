#include <algorithm>
#include <cmath>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/passes/pattern.h"

namespace fettle::passes {
namespace {

// Merges into `to` the provenance of what lies between `value` and `x`.
void absorb(Node* to, const Value* value, const Value* x, int depth = 10) {
  if (depth == 0 || !value || value == x || value->is_constant() || !value->producer) return;
  merge_provenance(to, value->producer);
  for (const Value* input : value->producer->inputs) absorb(to, input, x, depth - 1);
}

// Puts op(x) in the place of the root.
Node* becomes_op(Graph& graph, const Match& m, std::string_view op, Attrs attrs = {}) {
  Node* made = insert(graph, m.root(), op, {m["x"]}, std::move(attrs));
  if (!made) return nullptr;
  if (made->output()->type != m.root()->output()->type) {
    graph.erase(made);
    return nullptr;
  }
  absorb(made, m.root()->output(), m["x"]);
  return put_in_place(graph, m.root(), made);
}

// --- activations

Pattern clipped_by_six(const Pattern& x) { return node("Clip", {node("Add", {x, number(3)})}).as("clip"); }
bool clips_at_six(const Match& m) {
  const Attrs& attrs = m.node("clip")->attrs;
  return attrs.get_float("min", -1) == 0 && attrs.get_float("max", 0) == 6;
}

bool hard_sigmoid(Graph& graph, const Match& m) {
  return becomes_op(graph, m, "HardSigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}
bool hard_swish(Graph& graph, const Match& m) { return becomes_op(graph, m, "HardSwish"); }
bool is_hard_swish_gate(const Match& m) {
  const Attrs& attrs = m.node("gate")->attrs;
  return std::abs(attrs.get_float("alpha", 0.2) - 1.0 / 6) < 1e-6 && attrs.get_float("beta", 0.5) == 0.5;
}
bool scaled_hard_swish(Graph& graph, const Match& m) {
  Value* x = m["x"];
  auto scale = exact_scalar(6 * m.number("s"), x->dtype());
  if (x->type != m.root()->output()->type || !scale) return false;
  Node* made = insert(graph, m.root(), "HardSwish", {x});
  if (!made) return false;
  absorb(made, m.root()->output(), x);
  Value* factor = graph.add_constant(m["s"]->name, std::move(*scale));
  return replace_with(graph, m.root(), "Mul", {made->output(), factor});
}

bool swish(Graph& graph, const Match& m) {
  Attrs attrs;
  if (m["a"]) attrs.set("alpha", m.number("a"));
  return becomes_op(graph, m, "Swish", std::move(attrs));
}

bool gelu(Graph& graph, const Match& m) { return becomes_op(graph, m, "Gelu"); }
bool tanh_gelu(Graph& graph, const Match& m) {
  return becomes_op(graph, m, "Gelu", {{"approximate", std::string("tanh")}});
}

// x / √2, also where its inverse is no number of the type
Pattern over_root_of_two(const Pattern& x) { return product(M_SQRT1_2, {x}); }
// √(2/π) * (x + 0.044715 x³), or x * √(2/π) * (1 + 0.044715 x²)
Pattern tanh_gelu_inner(const Pattern& x) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  return one_of({product(scale, {node("Add", {x, product(cubic, {x, x, x})})}),
                 product(scale, {x, node("Add", {product(cubic, {x, x}), number(1)})})});
}

// --- norms

// The first of the dims that a mean or sum goes over, which are the last ones; nothing for others.
std::optional<int64_t> first_of_last_dims(const Node* reduce) {
  auto axes = reduce->attrs.get_ints("axes");
  const int64_t rank = reduce->input(0)->rank();
  if (axes.empty() || reduce->inputs.size() != 1) return {};
  for (int64_t& a : axes) a = a < 0 ? a + rank : a;
  std::ranges::sort(axes);
  if (axes.back() != rank - 1 || axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size())) return {};
  return axes.front();
}

// A mean over the last dims, however it is spelled and shaped: ReduceMean, ReduceSum * 1/n, ReduceSum / n. Names of
// what is found: the reduction, 1/n, n.
struct MomentNames {
  std::string_view reduce, scale, count;
};
constexpr MomentNames kMean{"mean.reduce", "mean.scale", "mean.count"},
    kMean2{"mean2.reduce", "mean2.scale", "mean2.count"}, kSquares{"squares.reduce", "squares.scale", "squares.count"};

Pattern moment(const MomentNames& names, const Pattern& of) {
  const Pattern sum = same_elements(node("ReduceSum", {of}).as(names.reduce));
  return same_elements(one_of({node("ReduceMean", {of}).as(names.reduce), node("Mul", {sum, number(names.scale)}),
                               node("Div", {sum, number(names.count)})}));
}
// The first dim that the moment goes over; nothing where it is none.
std::optional<int64_t> moment_axis(const Match& m, const MomentNames& names) {
  const Node* reduce = m.node(names.reduce);
  if (!reduce) return {};
  const auto axis = first_of_last_dims(reduce);
  const std::string_view given = m[names.scale] ? names.scale : names.count;
  if (!axis || !m[given]) return axis;
  const Shape& shape = reduce->input(0)->shape();
  const Dim count = element_count(Shape(shape.begin() + *axis, shape.end()));
  if (!count.is_number()) return {};
  const double n = static_cast<double>(count.value()), number = m.number(given);
  const double ratio = given == names.scale ? number * n : n / number;
  return std::abs(ratio - 1) <= constant_error(m[given]->dtype()) ? axis : std::nullopt;
}

// Whether `value` has one element for all of x's dims from `axis` on, and is broadcast along them.
bool is_statistic(const Value* value, const Value* x, int64_t axis) {
  Shape shape = x->shape();
  std::fill(shape.begin() + axis, shape.end(), Dim(1));
  return value->shape() == shape;
}

Node* becomes_norm(Graph& graph, const Match& m, std::string_view op, int64_t axis) {
  return becomes_op(graph, m, op, {{"axis", axis}, {"epsilon", m.number("epsilon")}});
}

// The same constant with the shape of the normalised dims, as the scale and bias of LayerNormalization are; null where
// it varies along others, or is repeated.
Value* normalised_constant(Graph& graph, Value* constant, const Value* x, int64_t axis) {
  if (!constant->is_constant() || constant->constant->dtype != x->dtype()) return nullptr;
  const Shape shape(x->shape().begin() + axis, x->shape().end());
  const auto extents = static_shape(shape);
  if (!extents || constant->rank() > x->rank()) return nullptr;
  Shape padded(static_cast<size_t>(x->rank() - constant->rank()), Dim(1));
  padded.insert(padded.end(), constant->shape().begin(), constant->shape().end());
  if (!std::all_of(padded.begin(), padded.begin() + axis, [](const Dim& d) { return d == Dim(1); })) return nullptr;
  if (!std::equal(padded.begin() + axis, padded.end(), shape.begin())) return nullptr;
  if (constant->shape() == shape) return constant;
  Value* made = graph.add_constant(constant->name, reshaped(*constant->constant, *extents));
  made->type = TensorType{x->dtype(), shape};
  return made;
}

// What alone follows a norm: the product with a constant becomes its input 1, the sum with one its input 2.
bool take_along(Graph& graph, Node* norm, size_t input, int64_t axis) {
  Value* y = norm->output();
  Node* user = only_user(graph, y);
  if (!is(user, input == 1 ? "Mul" : "Add")) return false;
  const auto found = operands(user, [&](const Value* v) { return v != y && v->is_constant(); });
  if (!found || found->second != y || user->output()->shape() != y->shape()) return false;
  Value* constant = normalised_constant(graph, found->first, y, axis);
  if (!constant) return false;
  graph.set_input(norm, input, constant);
  graph.replace_node(user, y);
  return true;
}

bool is_float(const Match& m) { return m.root()->output()->dtype().is_float(); }

// Exporters may compute the distances twice: the means are of one kind.
bool is_layer_norm(const Match& m) {
  std::optional<int64_t> axis;
  for (const char* name : {"mean", "mean of distance", "mean of squares"}) {
    const Node* mean = m.node(name);
    const auto first = mean->attrs.get_int("keepdims", 1) == 1 ? first_of_last_dims(mean) : std::nullopt;
    if (!first || (axis && first != axis)) return false;
    axis = first;
  }
  return is_float(m);
}
bool layer_norm(Graph& graph, const Match& m) {
  const int64_t axis = *first_of_last_dims(m.node("mean"));
  Node* norm = becomes_norm(graph, m, "LayerNormalization", axis);
  if (norm && take_along(graph, norm, 1, axis)) take_along(graph, norm, 2, axis);
  return norm;
}

bool is_layer_norm_by_moments(const Match& m) {
  const auto axis = moment_axis(m, kMean);
  return is_float(m) && axis && moment_axis(m, kMean2) == axis && moment_axis(m, kSquares) == axis &&
         is_statistic(m["mean"], m["x"], *axis) && is_statistic(m["factor"], m["x"], *axis);
}
bool layer_norm_by_moments(Graph& graph, const Match& m) {
  const int64_t axis = *moment_axis(m, kMean);
  Value* gamma = m["gamma"] ? normalised_constant(graph, m["gamma"], m["x"], axis) : nullptr;
  if (m["gamma"] && !gamma) return false;
  Node* norm = becomes_norm(graph, m, "LayerNormalization", axis);
  if (!norm) return false;
  if (!gamma) return true;
  graph.set_input(norm, 1, gamma);
  take_along(graph, norm, 2, axis);
  return true;
}

// Distances from the mean that nothing else reads: a gradient would compute them again.
bool is_layer_norm_of_distances(const Match& m) {
  const auto axis = moment_axis(m, kMean);
  return is_float(m) && axis && moment_axis(m, kSquares) == axis && is_statistic(m["mean"], m["x"], *axis) &&
         is_statistic(m["factor"], m["x"], *axis);
}
bool layer_norm_of_distances(Graph& graph, const Match& m) {
  if (graph.use_count(m["d"]) != 3) return false;
  const int64_t axis = *moment_axis(m, kMean);
  Node* norm = becomes_norm(graph, m, "LayerNormalization", axis);
  if (norm && take_along(graph, norm, 1, axis)) take_along(graph, norm, 2, axis);
  return norm;
}

bool is_rms_norm(const Match& m) {
  const auto axis = moment_axis(m, kSquares);
  return is_float(m) && axis && is_statistic(m["factor"], m["x"], *axis);
}
bool rms_norm(Graph& graph, const Match& m) {
  const int64_t axis = *moment_axis(m, kSquares);
  Node* norm = becomes_norm(graph, m, "RMSNormalization", axis);
  if (norm) take_along(graph, norm, 1, axis);
  return norm;
}

// The one dim that a reduction goes over; nothing where there are others.
std::optional<int64_t> only_axis(const Node* reduce) {
  const std::vector<int64_t> axes = reduce->attrs.get_ints("axes", {});
  if (axes.size() != 1 || reduce->inputs.size() != 1) return {};
  return axes[0] < 0 ? axes[0] + reduce->input(0)->rank() : axes[0];
}

// exp(x - max(x)) / sum(exp(x - max(x))), or its logarithm, along one dim.
bool is_softmax(const Match& m) {
  const auto axis = only_axis(m.node("max.reduce"));
  if (!is_float(m) || !axis || only_axis(m.node("sum.reduce")) != axis) return false;
  Shape shape = m["x"]->shape();
  shape[static_cast<size_t>(*axis)] = Dim(1);
  return m["max"]->shape() == shape && m["sum"]->shape() == shape && m["x"]->type == m.root()->output()->type;
}
bool softmax(Graph& graph, const Match& m) {
  return graph.use_count(m["e"]) == 2 && becomes_op(graph, m, "Softmax", {{"axis", *only_axis(m.node("sum.reduce"))}});
}
bool log_softmax(Graph& graph, const Match& m) {
  return graph.use_count(m["e"]) == 1 &&
         becomes_op(graph, m, "LogSoftmax", {{"axis", *only_axis(m.node("sum.reduce"))}});
}

// Squares of distances from the same mean are part of its kernel anyway.
bool squares_are_alone(const Match& m) {
  const Node* distance = made_by(m["x"], "Sub");
  const Node* mean = distance ? distance->input(1)->producer : nullptr;
  return !mean || mean->op != m.root()->op || !(mean->attrs == m.root()->attrs);
}
bool reduce_squares(Graph& graph, const Match& m) {
  const Node *root = m.root(), *square = m.node("square");
  Node* made = replace_with(graph, m.root(), is(root, "ReduceMean") ? "ReduceMeanSquare" : "ReduceSumSquare", {m["x"]},
                            root->attrs);
  if (made) merge_provenance(made, square);
  return made;
}

// Large patterns first, so that their parts are not taken by small ones.
const std::vector<Rewrite>& rewrites() {
  const Pattern x = any("x"), epsilon = number("epsilon");
  const auto square = [](const Pattern& of, const Pattern& again) { return node("Mul", {of, again}); };
  const auto distance = [&](const char* mean) { return node("Sub", {x, node("ReduceMean", {x}).as(mean)}); };
  const auto deviation = [&](const Pattern& variance) { return node("Sqrt", {node("Add", {variance, epsilon})}); };
  const auto inverse = [&](const Pattern& variance) {
    return one_of({node("Reciprocal", {deviation(variance)}), node("Div", {exactly(1), deviation(variance)}),
                   node("Pow", {node("Add", {variance, epsilon}), exactly(-0.5)})});
  };
  const Pattern variance =
      node("ReduceMean", {square(distance("mean of distance").as("d"), any("d"))}).as("mean of squares");
  const Pattern mean_square = moment(kSquares, square(x, x));
  const Pattern difference =
      same_elements(node("Sub", {mean_square, same_elements(square(moment(kMean2, x).as("m"), any("m")))}));
  const Pattern spread = one_of({difference, same_elements(node("Max", {difference, number(0)}))});
  const Pattern by_moments = node("Reciprocal", {deviation(spread)}).as("factor");
  const Pattern below_greatest = node("Sub", {x, same_elements(node("ReduceMax", {x}).as("max.reduce")).as("max")});
  const auto sum_of = [&](const Pattern& of) { return node("ReduceSum", {of}).as("sum.reduce"); };
  static const std::vector<Rewrite> table = {
      {"e / sum(e), e = exp(x - max(x))",
       node("Div", {node("Exp", {below_greatest}).as("e"), same_elements(sum_of(any("e"))).as("sum")}), is_softmax,
       softmax},
      {"d - log(sum(exp(d))), d = x - max(x)",
       node("Sub", {below_greatest.as("d"),
                    same_elements(node("Log", {same_elements(sum_of(node("Exp", {any("d")}).as("e")))})).as("sum")}),
       is_softmax, log_softmax},
      {"d / sqrt(mean(d*d) + ε), d = x - mean(x)", node("Div", {distance("mean"), deviation(variance)}), is_layer_norm,
       layer_norm},
      // as JAX's libraries write it
      {"(x - mean(x)) * (1/sqrt(mean(x*x) - mean(x)² + ε) * γ)",
       node("Mul", {node("Sub", {x, moment(kMean, x).as("mean")}),
                    one_of({node("Mul", {by_moments, constant("gamma")}), by_moments})}),
       is_layer_norm_by_moments, layer_norm_by_moments},
      {"d * (1 / sqrt(mean(d*d) + ε)), d = x - mean(x)",
       node("Mul", {node("Sub", {x, moment(kMean, x).as("mean")}).as("d"),
                    inverse(moment(kSquares, square(any("d"), any("d")))).as("factor")}),
       is_layer_norm_of_distances, layer_norm_of_distances},
      // of whose squares halves have no room
      {"x / sqrt(mean(x*x) + ε)", node("Div", {x, deviation(mean_square).as("factor")}), is_rms_norm, rms_norm},
      {"x * (1 / sqrt(mean(x*x) + ε))", node("Mul", {x, inverse(mean_square).as("factor")}), is_rms_norm, rms_norm},
      {"x * clip(x + 3, 0, 6) * 1/6", product(1.0 / 6, {x, clipped_by_six(x)}), clips_at_six, hard_swish},
      {"(x * clip(x + 3, 0, 6)) * s", node("Mul", {node("Mul", {x, clipped_by_six(x)}), number("s")}), clips_at_six,
       scaled_hard_swish},
      {"x * HardSigmoid(x) {1/6, 1/2}", node("Mul", {node("HardSigmoid", {x}).as("gate"), x}), is_hard_swish_gate,
       hard_swish},
      {"clip(x + 3, 0, 6) * 1/6", product(1.0 / 6, {clipped_by_six(x)}), clips_at_six, hard_sigmoid},
      {"x * sigmoid(x)", node("Mul", {node("Sigmoid", {x}), x}), nullptr, swish},
      {"x * sigmoid(x * a)", node("Mul", {node("Sigmoid", {node("Mul", {x, number("a")})}), x}), nullptr, swish},
      {"x * (1 + erf(x / √2)) * 1/2", product(0.5, {x, node("Add", {node("Erf", {over_root_of_two(x)}), number(1)})}),
       nullptr, gelu},
      {"x * 1/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))",
       product(0.5, {x, node("Add", {node("Tanh", {tanh_gelu_inner(x)}), number(1)})}), nullptr, tanh_gelu},
      // The squares need no memory, and those of halves have no room.
      {"mean(x*x)", node("ReduceMean", {square(x, x).used_once().as("square")}), squares_are_alone, reduce_squares},
      {"sum(x*x)", node("ReduceSum", {square(x, x).used_once().as("square")}), squares_are_alone, reduce_squares},
  };
  return table;
}

}  // namespace

Result<> recognize_patterns(Graph& graph, const PassContext& context) {
  // Twice, as some build on others.
  for (int round = 0; round < 2; ++round) {
    for (const Rewrite& rewrite : rewrites())
      for (Node* node : std::vector<Node*>(graph.nodes())) apply(graph, node, rewrite);
    FETTLE_TRY_VOID(drop_dead(graph, context));
    graph.sort();
  }
  return {};
}

}  // namespace fettle::passes
