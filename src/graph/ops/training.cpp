// What training adds: steps of optimisers (ai.onnx.preview.training), and BatchNormalization that finds its statistics.

#include <fmt/format.h>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using passes::composite;
using passes::Lowering;
using Values = std::vector<Value*>;

/// Arithmetic on values of one type, in which attributes are scalars.
struct Arithmetic {
  Lowering& g;
  DType dtype;
  Value* number(double value) const { return g.number(value, dtype); }
  Value* add(Value* a, Value* b) const { return g("Add", {a, b}); }
  Value* subtract(Value* a, Value* b) const { return g("Sub", {a, b}); }
  Value* times(Value* a, Value* b) const { return g("Mul", {a, b}); }
  Value* times(double a, Value* b) const { return a == 1 ? b : g("Mul", {number(a), b}); }
  Value* over(Value* a, Value* b) const { return g("Div", {a, b}); }
  Value* root(Value* a) const { return g("Sqrt", {a}); }
};

// The tensors come in groups, X₁ X₂ … G₁ G₂ …, behind the rate R and the count of updates T; results, too.
using Step = Values (*)(const Arithmetic& a, const Node& node, Value* rate, Value* count, const Values& tensors);

template <Step F, size_t NGroups>
Result<Values> each_tensor(Lowering& g, const Node& node) {
  const size_t n = (node.inputs.size() - 2) / NGroups;
  for (size_t i = 0; i < node.inputs.size(); ++i) FETTLE_TRY_VOID(passes::check_given(node, {i}));
  if (n == 0 || node.inputs.size() != 2 + NGroups * n)
    return bad_attribute(node, fmt::format("it has {} inputs", node.inputs.size()));
  Values all;
  for (size_t i = 0; i < n; ++i) {
    Values tensors;
    for (size_t k = 0; k < NGroups; ++k) tensors.push_back(node.inputs[2 + k * n + i]);
    const Arithmetic a{g, tensors[0]->dtype()};
    const Values made = F(a, node, g.cast(node.inputs[0], a.dtype), node.inputs[1], tensors);
    all.resize(made.size() * n);
    for (size_t k = 0; k < made.size(); ++k) all[k * n + i] = made[k];
  }
  return all;
}

Value* regularized(const Arithmetic& a, const Node& node, Value* x, Value* gradient) {
  const double norm = node.attrs.get_float("norm_coefficient", 0);
  return norm == 0 ? gradient : a.add(a.times(norm, x), gradient);
}

// (X, G, H) → (X, H)
Values adagrad(const Arithmetic& a, const Node& node, Value* rate, Value* count, const Values& t) {
  Value* decay = a.times(node.attrs.get_float("decay_factor", 0), a.g.cast(count, a.dtype));
  rate = a.over(rate, a.add(a.number(1), decay));
  Value* gradient = regularized(a, node, t[0], t[1]);
  Value* squares = a.add(t[2], a.times(gradient, gradient));
  Value* divisor = a.add(a.root(squares), a.number(node.attrs.get_float("epsilon", 0)));
  return {a.subtract(t[0], a.over(a.times(rate, gradient), divisor)), squares};
}

// (X, G, V, H) → (X, V, H)
Values adam(const Arithmetic& a, const Node& node, Value* rate, Value* count, const Values& t) {
  const double alpha = node.attrs.get_float("alpha", 0.9), beta = node.attrs.get_float("beta", 0.999);
  Value* gradient = regularized(a, node, t[0], t[1]);
  Value* mean = a.add(a.times(alpha, t[2]), a.times(1 - alpha, gradient));
  Value* squares = a.add(a.times(beta, t[3]), a.times(1 - beta, a.times(gradient, gradient)));
  Value* divisor = a.add(a.root(squares), a.number(node.attrs.get_float("epsilon", 0)));
  // Biases of the means are taken off, but before the first update.
  Value* updates = a.g.cast(count, a.dtype);
  const auto rest = [&](double factor) { return a.subtract(a.number(1), a.g("Pow", {a.number(factor), updates})); };
  Value* is_first = a.g("Equal", {updates, a.number(0)});
  Value* corrected = a.over(a.times(rate, a.root(rest(beta))), a.g("Where", {is_first, a.number(1), rest(alpha)}));
  rate = a.g("Where", {is_first, rate, corrected});
  Value* x = a.subtract(t[0], a.times(rate, a.over(mean, divisor)));
  return {a.times(1 - node.attrs.get_float("norm_coefficient_post", 0), x), mean, squares};
}

// (X, G, V) → (X, V)
Values momentum(const Arithmetic& a, const Node& node, Value* rate, Value* count, const Values& t) {
  const double alpha = node.attrs.get_float("alpha", 0), beta = node.attrs.get_float("beta", 0);
  Value* gradient = regularized(a, node, t[0], t[1]);
  Value* is_first = a.g("LessOrEqual", {a.g.cast(count, a.dtype), a.number(0)});
  Value* share = a.g("Where", {is_first, a.number(1), a.number(beta)});
  Value* velocity = a.add(a.times(alpha, t[2]), a.times(share, gradient));
  Value* step =
      node.attrs.get_string("mode", "standard") == "nesterov" ? a.add(gradient, a.times(alpha, velocity)) : velocity;
  return {a.subtract(t[0], a.times(rate, step)), velocity};
}

Result<Values> momentum_of_mode(Lowering& g, const Node& node) {
  const std::string mode = node.attrs.get_string("mode", "standard");
  if (mode != "standard" && mode != "nesterov") return bad_attribute(node, "mode is " + mode);
  return each_tensor<momentum, 3>(g, node);
}

// (x, scale, bias, mean, variance) → (y, running mean, running variance, mean, variance): y is of the batch's own mean
// and variance, which opsets before 14 give beside.
Result<Values> batch_normalization(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  const Arithmetic a{g, dtype_of(node, 0)};
  const double kept = node.attrs.get_float("momentum", 0.9);
  std::vector<int64_t> axes = first_numbers(shape_of(node, 0).size());
  axes.erase(axes.begin() + 1);
  Value* mean = g.reduce("ReduceMean", node.inputs[0], axes, true);
  Value* distance = a.subtract(node.inputs[0], mean);
  Value* variance = g.reduce("ReduceMean", a.times(distance, distance), axes, true);
  const Attrs squeezed{{{"axes", axes}}};
  mean = g("Squeeze", {mean}, squeezed);
  variance = g("Squeeze", {variance}, squeezed);
  Value* y = g("BatchNormalization", {node.inputs[0], node.inputs[1], node.inputs[2], mean, variance},
               passes::picked(node, {"epsilon"}));
  const auto running = [&](size_t input, Value* own) {
    return g("Add", {a.times(kept, node.inputs[input]), a.times(1 - kept, g.cast(own, dtype_of(node, input)))});
  };
  return Values{y, running(3, mean), running(4, variance), mean, variance};
}

constexpr OpDef training_defs[] = {
    composite<each_tensor<adagrad, 3>>("ai.onnx.preview.training.Adagrad", {3, kAny}, -1),
    composite<each_tensor<adam, 4>>("ai.onnx.preview.training.Adam", {3, kAny}, -1),
    composite<momentum_of_mode>("ai.onnx.preview.training.Momentum", {3, kAny}, -1),
    composite<batch_normalization>("TrainingBatchNormalization", 5, 5),  // Fettle's own
};

}  // namespace

extern constinit const OpFamily training_ops{"training", training_defs};

}  // namespace fettle
