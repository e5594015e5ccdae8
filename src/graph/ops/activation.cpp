// Activations: Relu and its kin, sigmoids, Gelu, Clip, PRelu.

#include <cmath>

#include "graph/op_util.h"
#include "graph/parameter_shapes.h"

namespace fettle {
namespace {

using namespace ops;

Expr attr(const Node& node, std::string_view name, double otherwise, const Expr& like) {
  return number(node.attrs.get_float(name, otherwise), like);
}
Expr exp_of(const Expr& x) { return math("exp", {x}); }
Expr positive(const Expr& x) { return gt(x, number(0, x)); }

Expr relu(const Node&, const Expr& x) { return max(x, number(0, x)); }
Expr leaky_relu(const Node& node, const Expr& x) { return select(positive(x), x, x * attr(node, "alpha", 0.01, x)); }
Expr thresholded_relu(const Node& node, const Expr& x) {
  return select(gt(x, attr(node, "alpha", 1, x)), x, number(0, x));
}
Expr elu(const Node& node, const Expr& x) {
  return select(positive(x), x, attr(node, "alpha", 1, x) * (exp_of(min(x, number(0, x))) - number(1, x)));
}
Expr celu(const Node& node, const Expr& x) {
  const Expr alpha = attr(node, "alpha", 1, x);
  return max(x, number(0, x)) + min(number(0, x), alpha * (exp_of(min(x, number(0, x)) / alpha) - number(1, x)));
}
Expr selu(const Node& node, const Expr& x) {
  const Expr alpha = attr(node, "alpha", 1.67326319217681884765625, x);
  const Expr gamma = attr(node, "gamma", 1.05070102214813232421875, x);
  return gamma * select(positive(x), x, alpha * (exp_of(min(x, number(0, x))) - number(1, x)));
}
// log(1 + e^x), written so that e^x never overflows. 1 + y is rounded, and log(u) y / (u - 1) does not notice: small
// results have all their digits, and none is 0 where e^x is not.
Expr softplus_of(const Expr& x) {
  const Expr one = number(1, x), y = exp_of(number(0, x) - math("abs", {x})), u = one + y;
  const Expr of_small = select(eq(u, one), y, math("log", {u}) * y / select(eq(u, one), one, u - one));
  return max(x, number(0, x)) + of_small;
}
Expr softplus(const Node&, const Expr& x) { return softplus_of(x); }
Expr softsign(const Node&, const Expr& x) { return x / (number(1, x) + math("abs", {x})); }
Expr hard_sigmoid(const Node& node, const Expr& x) {
  return clamp(attr(node, "alpha", 0.2, x) * x + attr(node, "beta", 0.5, x), number(0, x), number(1, x));
}
Expr hard_swish(const Node&, const Expr& x) {
  return x * clamp(x * number(1.0 / 6, x) + number(0.5, x), number(0, x), number(1, x));
}
Expr swish(const Node& node, const Expr& x) { return x * math("sigmoid", {attr(node, "alpha", 1, x) * x}); }
Expr mish(const Node&, const Expr& x) { return x * math("tanh", {softplus_of(x)}); }
Expr gelu(const Node& node, const Expr& x) {
  const Expr half = number(0.5, x), unit = number(1, x);
  if (node.attrs.get_string("approximate", "none") == "tanh") {
    const Expr inner = number(std::sqrt(2 / M_PI), x) * (x + number(0.044715, x) * x * x * x);
    return half * x * (unit + math("tanh", {inner}));
  }
  return half * x * (unit + math("erf", {x * number(M_SQRT1_2, x)}));
}
Expr shrink(const Node& node, const Expr& x) {
  const Expr lambd = attr(node, "lambd", 0.5, x), bias = attr(node, "bias", 0, x);
  return select(lt(x, number(0, x) - lambd), x + bias, select(gt(x, lambd), x - bias, number(0, x)));
}

// The bounds are attributes, or scalar tensors.
Tensors clip(const Node& node, std::span<const te::Tensor> in) {
  const auto bound = [&](size_t input, std::string_view name) -> Expr {
    if (node.attrs.has(name)) return constant(node.attrs.get_float(name, 0), output_dtype(node));
    return has_tensor(in, input) ? scalar_of(in[input]) : Expr();
  };
  return one(map_output(node, [&](const Indices& i) {
    Expr x = in[0](i);
    if (const Expr low = bound(1, "min")) x = max(x, low);
    if (const Expr high = bound(2, "max")) x = min(x, high);
    return x;
  }));
}
Types clip_type(const Node& node) {
  for (const size_t i : {1, 2}) FETTLE_TRY_VOID(check_one_number(node, i));
  return same_type(node);
}
constexpr ParamInput clip_params[] = {{1, "min", kFloat}, {2, "max", kFloat}};

// The slope broadcasts to the input.
Tensors prelu(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) {
    const Expr x = in[0](i);
    return select(ge(x, number(0, x)), x, x * read_broadcast(in[1], i));
  }));
}
Types prelu_type(const Node& node) {
  FETTLE_TRY_VOID(check_broadcasts_to(node, shape_of(node, 0), 1));
  return same_type(node);
}

constexpr OpDef activation_defs[] = {
    unary<relu>("Relu"),
    unary<leaky_relu>("LeakyRelu"),
    unary<thresholded_relu>("ThresholdedRelu"),
    unary<elu>("Elu"),
    unary<celu>("Celu"),
    unary<selu>("Selu"),
    unary<softplus>("Softplus"),
    unary<softsign>("Softsign"),
    unary<math_of<"sigmoid">>("Sigmoid"),
    unary<hard_sigmoid>("HardSigmoid"),
    unary<hard_swish>("HardSwish"),
    unary<swish>("Swish"),
    unary<mish>("Mish"),
    unary<gelu>("Gelu"),
    unary<shrink>("Shrink"),
    define(kElementwise, "Clip", {1, 3}, clip_type, clip, {.params = clip_params, .is_pointwise = true}),
    define(kBroadcast, "PRelu", 2, prelu_type, prelu, {.is_pointwise = true}),
};

}  // namespace

extern constinit const OpFamily activation_ops{"activation", activation_defs};

}  // namespace fettle
