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
      if (x->type != node->outputs[0]->type || x->dtype() != kF32) return false;
      Node* made = insert(graph, node, "HardSwish", {x});
      if (!made) return false;
      absorb(made, node->outputs[0], x);
      Value* factor = graph.add_constant(scaled->first->name, scalar(6 * *as_scalar(scaled->first)));
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
  if (!constant->is_constant() || constant->rank() != x->rank() - static_cast<int>(axis)) return false;
  return std::equal(constant->shape().begin(), constant->shape().end(), x->shape().begin() + axis);
}

// d / sqrt(mean(d*d) + ε), d = x - mean(x) → LayerNormalization(x, 1); then * γ and + β join it.
bool layer_norm(Graph& graph, Node* node) {
  if (!is(node, "Div")) return false;
  const auto c = centred(node->inputs[0]);
  const auto epsilon = c ? deviation_of(node->inputs[1], c->distance, c->axis) : std::nullopt;
  if (!epsilon || node->outputs[0]->dtype() != kF32) return false;
  Attrs attrs;
  attrs.set("axis", c->axis);
  attrs.set("epsilon", *epsilon);
  Node* norm = replace_pattern(graph, node, "LayerNormalization", c->x, std::move(attrs));
  if (!norm) return false;
  for (const int input : {1, 2}) {
    Value* y = norm->outputs[0];
    if (graph.use_count(y) != 1 || y->users.size() != 1 || !is(y->users[0], input == 1 ? "Mul" : "Add")) break;
    Node* user = y->users[0];
    const auto found = operands(user, [&](const Value* v) { return v != y && fits(v, y, c->axis); });
    if (!found || found->second != y) break;
    graph.set_input(norm, static_cast<size_t>(input), found->first);
    graph.replace_node(user, y);
  }
  return true;
}

constexpr Rule kRules[] = {layer_norm, hard_swish, hard_sigmoid, swish, gelu, tanh_gelu};

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
