#include <algorithm>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

using Rule = bool (*)(Graph& graph, Node* node);

// Merges into `to` the provenance of what lies between `value` and `x`.
void absorb(Node* to, const Value* value, const Value* x, int depth = 10) {
  if (depth == 0 || !value || value == x || value->is_constant() || !value->producer) return;
  merge_provenance(to, value->producer);
  for (const Value* input : value->producer->inputs) absorb(to, input, x, depth - 1);
}

// Puts op(x) in the place of `node`, the last of a pattern over x.
Node* replace_pattern(Graph& graph, Node* node, std::string_view op, Value* x, Attrs attrs = {}) {
  Node* made = insert(graph, node, op, {x}, std::move(attrs));
  if (!made) return nullptr;
  if (made->outputs[0]->type != node->outputs[0]->type) {
    graph.erase(made);
    return nullptr;
  }
  absorb(made, node->outputs[0], x);
  graph.replace_node(node, made->outputs[0]);
  if (node->erased) std::swap(node->outputs[0]->name, made->outputs[0]->name);  // the model's name for it stays
  return made;
}

// clip(x + 3, 0, 6) → x
Value* clipped_by_six(const Value* value) {
  const Node* clip = made_by(value, "Clip");
  if (!clip || clip->inputs.size() != 1 || clip->attrs.get_float("min", -1) != 0 ||
      clip->attrs.get_float("max", 0) != 6)
    return nullptr;
  const Node* add = made_by(clip->inputs[0], "Add");
  const auto found = add ? operands(add, [](const Value* v) { return is_about(v, 3); }) : std::nullopt;
  return found ? found->second : nullptr;
}

// clip(x + 3, 0, 6) * (1/6) → HardSigmoid(x) {alpha = 1/6, beta = 1/2}
bool hard_sigmoid(Graph& graph, Node* node) {
  if (!is(node, "Mul")) return false;
  const auto found = operands(node, [](const Value* v) { return is_about(v, 1.0 / 6); });
  Value* x = found ? clipped_by_six(found->second) : nullptr;
  if (!x || x->type != node->outputs[0]->type) return false;
  Attrs attrs;
  attrs.set("alpha", 1.0 / 6);
  attrs.set("beta", 0.5);
  return replace_pattern(graph, node, "HardSigmoid", x, std::move(attrs));
}

// (x * clip(x + 3, 0, 6)) * s → HardSwish(x) * 6s;  x * HardSigmoid(x) {1/6, 1/2} → HardSwish(x)
bool hard_swish(Graph& graph, Node* node) {
  if (!is(node, "Mul")) return false;
  const auto scaled = operands(node, [](const Value* v) { return as_scalar(v).has_value(); });
  if (const Node* product = scaled ? made_by(scaled->second, "Mul") : nullptr) {
    for (const int side : {0, 1}) {
      Value* x = clipped_by_six(product->inputs[static_cast<size_t>(side)]);
      if (!x || x != product->inputs[static_cast<size_t>(1 - side)]) continue;
      if (is_about(scaled->first, 1.0 / 6)) return replace_pattern(graph, node, "HardSwish", x);
      auto number = exact_scalar(6 * *as_scalar(scaled->first), x->dtype());
      if (x->type != node->outputs[0]->type || !number) return false;
      Node* made = insert(graph, node, "HardSwish", {x});
      if (!made) return false;
      absorb(made, node->outputs[0], x);
      Value* factor = graph.add_constant(scaled->first->name, std::move(*number));
      return replace_with(graph, node, "Mul", {made->outputs[0], factor});
    }
  }
  for (const int side : {0, 1}) {
    const Node* gate = made_by(node->inputs[static_cast<size_t>(side)], "HardSigmoid");
    Value* x = node->inputs[static_cast<size_t>(1 - side)];
    if (gate && gate->inputs[0] == x && std::abs(gate->attrs.get_float("alpha", 0.2) - 1.0 / 6) < 1e-6 &&
        gate->attrs.get_float("beta", 0.5) == 0.5)
      return replace_pattern(graph, node, "HardSwish", x);
  }
  return false;
}

// x * sigmoid(x) → Swish(x);  x * sigmoid(x * a) → Swish(x) {alpha = a}
bool swish(Graph& graph, Node* node) {
  if (!is(node, "Mul")) return false;
  for (const int side : {0, 1}) {
    const Node* gate = made_by(node->inputs[static_cast<size_t>(side)], "Sigmoid");
    Value* x = node->inputs[static_cast<size_t>(1 - side)];
    if (!gate) continue;
    Attrs attrs;
    if (gate->inputs[0] != x) {
      const Node* scaled = made_by(gate->inputs[0], "Mul");
      const auto found =
          scaled ? operands(scaled, [](const Value* v) { return as_scalar(v).has_value(); }) : std::nullopt;
      if (!found || found->second != x) continue;
      attrs.set("alpha", *as_scalar(found->first));
    }
    return replace_pattern(graph, node, "Swish", x, std::move(attrs));
  }
  return false;
}

// The factors of a product, through products that only this one uses, and the product of its scalars.
void factors_of(const Graph& graph, const Node* node, std::vector<Value*>& factors, double& scale, int depth) {
  for (Value* input : node->inputs) {
    const Node* inner = depth > 0 ? made_only_for_us(graph, input, "Mul") : nullptr;
    if (const auto number = as_scalar(input))
      scale *= *number;
    else if (inner)
      factors_of(graph, inner, factors, scale, depth - 1);
    else
      factors.push_back(input);
  }
}

// 1 + erf(x / √2) → x
Value* erf_gate(const Value* value) {
  const Node* add = made_by(value, "Add");
  const auto sum = add ? operands(add, [](const Value* v) { return is_about(v, 1); }) : std::nullopt;
  const Node* erf = sum ? made_by(sum->second, "Erf") : nullptr;
  const Node* scaled = erf ? made_by(erf->inputs[0], "Mul") : nullptr;
  const auto product = scaled ? operands(scaled, [](const Value* v) { return is_about(v, M_SQRT1_2); }) : std::nullopt;
  return product ? product->second : nullptr;
}

// x * (1 + erf(x / √2)) * 1/2, in any order → Gelu(x)
bool gelu(Graph& graph, Node* node) {
  if (!is(node, "Mul")) return false;
  std::vector<Value*> factors;
  double scale = 1;
  factors_of(graph, node, factors, scale, 2);
  if (factors.size() != 2 || std::abs(scale - 0.5) > 1e-6) return false;
  for (const size_t side : {0, 1})
    if (Value* x = erf_gate(factors[side]); x && x == factors[1 - side] && x->type == node->outputs[0]->type)
      return replace_pattern(graph, node, "Gelu", x);
  return false;
}

bool is_near(double value, double number) { return std::abs(value - number) <= 1e-5 * std::abs(number); }

// What a value is the product of, and the product of its scalars.
struct Product {
  std::vector<Value*> factors;
  double scale = 1;

  bool all_are(const Value* x, size_t count) const {
    return factors.size() == count && std::all_of(factors.begin(), factors.end(), [&](Value* f) { return f == x; });
  }
};
Product product_of(const Graph& graph, Value* value) {
  Product product;
  constexpr int kDepth = 4;
  if (const Node* node = made_by(value, "Mul"))
    factors_of(graph, node, product.factors, product.scale, kDepth);
  else
    product.factors.push_back(value);
  return product;
}

// √(2/π) * (x + 0.044715 x³), or x * √(2/π) * (1 + 0.044715 x²) → x
Value* tanh_gelu_inner(const Graph& graph, Value* value) {
  constexpr double kCubic = 0.044715;
  const Product outer = product_of(graph, value);
  if (!is_near(outer.scale, std::sqrt(2 / M_PI))) return nullptr;
  for (Value* factor : outer.factors) {
    const Node* add = made_by(factor, "Add");
    if (!add) continue;
    if (outer.factors.size() == 1) {
      for (const size_t side : {0, 1}) {
        Value* x = add->inputs[side];
        const Product cube = product_of(graph, add->inputs[1 - side]);
        if (is_near(cube.scale, kCubic) && cube.all_are(x, 3)) return x;
      }
    } else if (outer.factors.size() == 2) {
      Value* x = outer.factors[factor == outer.factors[0] ? 1 : 0];
      const auto sum = operands(add, [](const Value* v) { return is_about(v, 1); });
      const Product square = sum ? product_of(graph, sum->second) : Product{};
      if (is_near(square.scale, kCubic) && square.all_are(x, 2)) return x;
    }
  }
  return nullptr;
}

// x * 1/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))), in any order → Gelu(x) {approximate = "tanh"}
bool tanh_gelu(Graph& graph, Node* node) {
  if (!is(node, "Mul")) return false;
  const Product product = product_of(graph, node->output());
  if (product.factors.size() != 2 || !is_near(product.scale, 0.5)) return false;
  for (const size_t side : {0, 1}) {
    const Node* add = made_by(product.factors[side], "Add");
    const auto sum = add ? operands(add, [](const Value* v) { return is_about(v, 1); }) : std::nullopt;
    const Node* gate = sum ? made_by(sum->second, "Tanh") : nullptr;
    Value* x = gate ? tanh_gelu_inner(graph, gate->inputs[0]) : nullptr;
    if (!x || x != product.factors[1 - side] || x->type != node->outputs[0]->type) continue;
    Attrs attrs;
    attrs.set("approximate", std::string("tanh"));
    return replace_pattern(graph, node, "Gelu", x, std::move(attrs));
  }
  return false;
}

// The mean over the trailing dims from `axis` on, which stay as 1 → x
Value* trailing_mean(const Value* value, int64_t& axis) {
  const Node* mean = made_by(value, "ReduceMean");
  if (!mean || mean->attrs.get_int("keepdims", 1) != 1 || mean->inputs.size() != 1) return nullptr;
  const int64_t rank = mean->inputs[0]->rank();
  auto axes = mean->attrs.get_ints("axes");
  if (axes.empty()) return nullptr;
  for (int64_t& a : axes) a = a < 0 ? a + rank : a;
  std::sort(axes.begin(), axes.end());
  if (axes.back() != rank - 1 || axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size())) return nullptr;
  axis = axes.front();
  return mean->inputs[0];
}

struct Centred {
  Value* x = nullptr;
  Value* distance = nullptr;  // x - mean(x)
  int64_t axis = 0;
};
std::optional<Centred> centred(Value* value) {
  const Node* sub = made_by(value, "Sub");
  Centred c;
  if (!sub || !(c.x = trailing_mean(sub->inputs[1], c.axis)) || c.x != sub->inputs[0]) return std::nullopt;
  c.distance = value;
  return c;
}

// sqrt(mean(d * d) + ε), d centred → ε
std::optional<double> deviation_of(const Value* value, const Value* distance, int64_t axis) {
  const Node* root = made_by(value, "Sqrt");
  const Node* add = root ? made_by(root->inputs[0], "Add") : nullptr;
  const auto sum = add ? operands(add, [](const Value* v) { return as_scalar(v).has_value(); }) : std::nullopt;
  int64_t mean_axis = -1;
  const Value* squares = sum ? trailing_mean(sum->second, mean_axis) : nullptr;
  const Node* square = squares ? made_by(squares, "Mul") : nullptr;
  if (!square || square->inputs[0] != square->inputs[1] || mean_axis != axis) return std::nullopt;
  // Exporters may compute the distances twice.
  if (square->inputs[0] != distance) {
    const auto other = centred(square->inputs[0]);
    const auto own = centred(const_cast<Value*>(distance));
    if (!other || !own || other->x != own->x || other->axis != own->axis) return std::nullopt;
  }
  return as_scalar(sum->first);
}

// A constant of the normalised dims' shape, as the scale and bias of LayerNormalization are.
bool fits(const Value* constant, const Value* x, int64_t axis) {
  if (!constant->is_constant() || constant->constant->dtype != x->dtype()) return false;
  if (constant->rank() != x->rank() - static_cast<int>(axis)) return false;
  return std::equal(constant->shape().begin(), constant->shape().end(), x->shape().begin() + axis);
}

Node* replace_by_norm(Graph& graph, Node* node, std::string_view op, Value* x, int64_t axis, double epsilon) {
  Attrs attrs;
  attrs.set("axis", axis);
  attrs.set("epsilon", epsilon);
  return replace_pattern(graph, node, op, x, std::move(attrs));
}

// What alone follows a norm: the product with a constant becomes its input 1, the sum with one its input 2.
bool take_along(Graph& graph, Node* norm, size_t input, int64_t axis) {
  Value* y = norm->outputs[0];
  if (graph.use_count(y) != 1 || y->users.size() != 1 || !is(y->users[0], input == 1 ? "Mul" : "Add")) return false;
  Node* user = y->users[0];
  const auto found = operands(user, [&](const Value* v) { return v != y && fits(v, y, axis); });
  if (!found || found->second != y) return false;
  graph.set_input(norm, input, found->first);
  graph.replace_node(user, y);
  return true;
}

// d / sqrt(mean(d*d) + ε), d = x - mean(x) → LayerNormalization(x, 1); then * γ and + β join it.
bool layer_norm(Graph& graph, Node* node) {
  if (!is(node, "Div")) return false;
  const auto c = centred(node->inputs[0]);
  const auto epsilon = c ? deviation_of(node->inputs[1], c->distance, c->axis) : std::nullopt;
  if (!epsilon || !node->outputs[0]->dtype().is_float()) return false;
  Node* norm = replace_by_norm(graph, node, "LayerNormalization", c->x, c->axis, *epsilon);
  if (norm && take_along(graph, norm, 1, c->axis)) take_along(graph, norm, 2, c->axis);
  return norm;
}

// Behind reshapes and expansions that move and repeat nothing.
const Value* same_elements(const Value* value) {
  while (value->producer && !value->is_constant() && value->is_static()) {
    const Node* node = value->producer;
    if (!(node->op->is_reshape || is(node, "Expand")) || !node->input(0)->is_static() ||
        element_count(node->input(0)->shape()).value() != element_count(value->shape()).value())
      break;
    value = node->input(0);
  }
  return value;
}

struct Moment {
  Value* of = nullptr;
  int64_t axis = 0;
};

// The mean over the trailing dims from `axis` on, however it is spelled and shaped: ReduceMean, ReduceSum * 1/n
std::optional<Moment> moment(const Value* value) {
  value = same_elements(value);
  double scale = 1;
  const Node* reduce = made_by(value, "ReduceMean");
  if (!reduce) {
    const Node* product = made_by(value, "Mul");
    const auto found =
        product ? operands(product, [](const Value* v) { return as_scalar(v).has_value(); }) : std::nullopt;
    reduce = found ? made_by(found->second, "ReduceSum") : nullptr;
    if (reduce) scale = *as_scalar(found->first);
  }
  if (!reduce || reduce->inputs.size() != 1 || !reduce->inputs[0]->is_static()) return std::nullopt;
  Value* x = reduce->inputs[0];
  auto axes = reduce->attrs.get_ints("axes");
  if (axes.empty()) return std::nullopt;
  for (int64_t& a : axes) a = a < 0 ? a + x->rank() : a;
  std::sort(axes.begin(), axes.end());
  if (axes.back() != x->rank() - 1 || axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size()))
    return std::nullopt;
  double count = 1;
  for (int64_t a : axes) count *= static_cast<double>(x->extent(static_cast<int>(a)));
  if (is(reduce, "ReduceSum") && std::abs(scale * count - 1) > 1e-6) return std::nullopt;
  return Moment{x, axes.front()};
}

// mean(x*x) - mean(x)², perhaps max(0, ·) of it → x
std::optional<Moment> spread(const Value* value) {
  value = same_elements(value);
  if (const Node* most = made_by(value, "Max")) {
    const auto found = operands(most, [](const Value* v) { return is_about(v, 0); });
    if (!found) return std::nullopt;
    value = same_elements(found->second);
  }
  const Node* sub = made_by(value, "Sub");
  const auto squares = sub ? moment(sub->inputs[0]) : std::nullopt;
  const Node* square = squares ? made_by(squares->of, "Mul") : nullptr;
  const Node* mean_square = sub ? made_by(same_elements(sub->inputs[1]), "Mul") : nullptr;
  if (!square || square->inputs[0] != square->inputs[1] || !mean_square ||
      mean_square->inputs[0] != mean_square->inputs[1])
    return std::nullopt;
  const auto mean = moment(mean_square->inputs[0]);
  if (!mean || mean->of != square->inputs[0] || mean->axis != squares->axis) return std::nullopt;
  return mean;
}

// The same constant with the shape of the normalised dims; null where it varies along others.
Value* normalised_constant(Graph& graph, const Value* constant, const Value* x, int64_t axis) {
  if (!constant->is_constant() || constant->constant->dtype != x->dtype()) return nullptr;
  const Shape shape(x->shape().begin() + axis, x->shape().end());
  const auto extents = static_shape(shape);
  if (!extents || constant->rank() > x->rank()) return nullptr;
  Shape padded(static_cast<size_t>(x->rank() - constant->rank()), Dim(1));
  padded.insert(padded.end(), constant->shape().begin(), constant->shape().end());
  if (!std::all_of(padded.begin(), padded.begin() + axis, [](const Dim& d) { return d == Dim(1); })) return nullptr;
  if (!std::equal(padded.begin() + axis, padded.end(), shape.begin())) return nullptr;
  Value* made = graph.add_constant(constant->name, reshaped(*constant->constant, *extents));
  made->type = TensorType{x->dtype(), shape};
  return made;
}

// Whether `value` has one element for all of x's dims from `axis` on, and is broadcast along them.
bool is_statistic(const Value* value, const Value* x, int64_t axis) {
  Shape shape = x->shape();
  std::fill(shape.begin() + axis, shape.end(), Dim(1));
  return value->shape() == shape;
}

// (x - mean(x)) * (1/sqrt(mean(x*x) - mean(x)² + ε) * γ) + β, as JAX's libraries write it → LayerNormalization(x, γ, β)
bool layer_norm_by_moments(Graph& graph, Node* node) {
  if (!is(node, "Mul") || !node->outputs[0]->dtype().is_float()) return false;
  for (const size_t side : {0, 1}) {
    const Node* sub = made_by(node->inputs[side], "Sub");
    const auto mean = sub ? moment(sub->inputs[1]) : std::nullopt;
    if (!mean || mean->of != sub->inputs[0] || !is_statistic(sub->inputs[1], mean->of, mean->axis)) continue;
    const Value* factor = node->inputs[1 - side];
    const Value* scale = nullptr;
    if (const Node* product = made_by(factor, "Mul"))
      if (const auto found = operands(product, [](const Value* v) { return v->is_constant(); })) {
        scale = found->first;
        factor = found->second;
      }
    const Node* inverse = made_by(factor, "Reciprocal");
    const Node* root = inverse ? made_by(inverse->inputs[0], "Sqrt") : nullptr;
    const Node* add = root ? made_by(root->inputs[0], "Add") : nullptr;
    const auto sum = add ? operands(add, [](const Value* v) { return as_scalar(v).has_value(); }) : std::nullopt;
    const auto variance = sum ? spread(sum->second) : std::nullopt;
    if (!variance || variance->of != mean->of || variance->axis != mean->axis) continue;
    if (!is_statistic(factor, mean->of, mean->axis)) continue;
    Value* gamma = scale ? normalised_constant(graph, scale, mean->of, mean->axis) : nullptr;
    if (scale && !gamma) continue;
    Node* norm = replace_by_norm(graph, node, "LayerNormalization", mean->of, mean->axis, *as_scalar(sum->first));
    if (!norm) return false;
    Value* y = norm->outputs[0];
    if (!gamma) return true;
    graph.set_input(norm, 1, gamma);
    if (graph.use_count(y) != 1 || y->users.size() != 1 || !is(y->users[0], "Add")) return true;
    Node* user = y->users[0];
    const auto found = operands(user, [&](const Value* v) { return v != y && v->is_constant(); });
    Value* beta = found && found->second == y ? normalised_constant(graph, found->first, y, mean->axis) : nullptr;
    if (!beta || user->output()->shape() != y->shape()) return true;
    graph.set_input(norm, 2, beta);
    graph.replace_node(user, y);
    return true;
  }
  return false;
}

// 1/sqrt(mean(x*x) + ε), as a Reciprocal, a quotient or a power; or what x is divided by → x and ε
struct MeanSquare {
  Moment moment;
  double epsilon = 0;
};
std::optional<MeanSquare> root_mean_square(const Value* value, bool is_inverse) {
  const Value* inside = nullptr;
  if (const Node* power = is_inverse ? made_by(value, "Pow") : nullptr; power && as_scalar(power->inputs[1]) == -0.5) {
    inside = power->inputs[0];
  } else {
    if (const Node* inverse = is_inverse ? made_by(value, "Reciprocal") : nullptr) {
      value = inverse->inputs[0];
    } else if (is_inverse) {
      const Node* quotient = made_by(value, "Div");
      if (!quotient || as_scalar(quotient->inputs[0]) != 1.0) return std::nullopt;
      value = quotient->inputs[1];
    }
    const Node* root = made_by(value, "Sqrt");
    inside = root ? root->inputs[0] : nullptr;
  }
  const Node* add = inside ? made_by(inside, "Add") : nullptr;
  const auto sum = add ? operands(add, [](const Value* v) { return as_scalar(v).has_value(); }) : std::nullopt;
  const auto squares = sum ? moment(sum->second) : std::nullopt;
  const Node* square = squares ? made_by(squares->of, "Mul") : nullptr;
  if (!square || square->inputs[0] != square->inputs[1]) return std::nullopt;
  return MeanSquare{{square->inputs[0], squares->axis}, *as_scalar(sum->first)};
}

// x / sqrt(mean(x*x) + ε) * γ → RMSNormalization(x, γ), of whose squares halves have no room
bool rms_norm(Graph& graph, Node* node) {
  const bool is_quotient = is(node, "Div");
  if ((!is_quotient && !is(node, "Mul")) || !node->outputs[0]->dtype().is_float()) return false;
  for (const size_t side : {0, 1}) {
    if (is_quotient && side == 1) break;
    const Value *x = node->inputs[side], *factor = node->inputs[1 - side];
    const auto found = root_mean_square(factor, !is_quotient);
    if (!found || found->moment.of != x || !is_statistic(factor, x, found->moment.axis)) continue;
    const auto [of, axis] = found->moment;
    Node* norm = replace_by_norm(graph, node, "RMSNormalization", of, axis, found->epsilon);
    if (norm) take_along(graph, norm, 1, axis);
    return norm;
  }
  return false;
}

// mean(x*x) → ReduceMeanSquare(x), Σ x*x → ReduceSumSquare(x), where nothing else reads the squares: they need no
// memory, and those of halves no room. Squares of distances from the same mean are part of its kernel anyway.
bool squares_in_reductions(Graph& graph, Node* node) {
  const bool is_mean = is(node, "ReduceMean");
  if ((!is_mean && !is(node, "ReduceSum")) || node->inputs.size() != 1) return false;
  const Node* square = made_only_for_us(graph, node->inputs[0], "Mul");
  if (!square || square->inputs[0] != square->inputs[1]) return false;
  Value* x = square->inputs[0];
  const Node* distance = made_by(x, "Sub");
  const Node* mean = distance ? distance->inputs[1]->producer : nullptr;
  if (mean && mean->op == node->op && mean->attrs == node->attrs) return false;
  Node* made = replace_with(graph, node, is_mean ? "ReduceMeanSquare" : "ReduceSumSquare", {x}, node->attrs);
  if (made) merge_provenance(made, square);
  return made;
}

constexpr Rule kRules[] = {layer_norm, layer_norm_by_moments, rms_norm, hard_swish, hard_sigmoid, swish, gelu,
                           tanh_gelu,  squares_in_reductions};

}  // namespace

Result<> recognize_patterns(Graph& graph, const PassContext& context) {
  // Large patterns first, so that their parts are not taken by small ones; twice, as some build on others.
  for (int round = 0; round < 2; ++round) {
    for (const Rule rule : kRules)
      for (Node* node : std::vector<Node*>(graph.nodes()))
        if (!node->erased && graph.use_count(node->outputs[0]) > 0) rule(graph, node);
    FETTLE_TRY_VOID(drop_dead(graph, context));
    graph.sort();
  }
  return {};
}

}  // namespace fettle::passes
