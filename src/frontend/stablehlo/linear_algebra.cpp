// Fourier transforms, factorizations, triangular systems; batch normalization.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/bodies.h"

namespace fettle::stablehlo {
namespace {

using ops::first_numbers;
using passes::LoopBuilder;
using passes::Lowering;

// --- fft: a transform along each of the last dims

/// Numbers whose last dim is their parts.
Result<Value*> transformed(OpImport& o, Value* x, int64_t axis, bool inverse, bool one_sided, const Dim& length) {
  Shape shape = x->shape();
  Attrs attrs{{"axis", axis}, {"inverse", int64_t{inverse}}, {"onesided", int64_t{one_sided}}};
  attrs.set("dft_length", dims_attr({length}));
  shape[static_cast<size_t>(axis)] = one_sided && !inverse ? floordiv(length, 2) + 1 : length;
  shape.back() = one_sided && inverse ? 1 : 2;
  return o.add_one("DFT", {x}, std::move(attrs), {x->dtype(), shape});
}
Result<Tensors> fft(OpImport& o) {
  const std::string kind = o.text("fft_type");
  const Ints lengths = o.ints("fft_length");
  if (o.in.size() != 1 || !o.in[0].re) return o.mistaken("it has not one operand");
  const Tensor& given = o.in[0];
  const int64_t rank = given.re->rank(), n = std::ssize(lengths);
  const bool from_real = kind == "RFFT", to_real = kind == "IRFFT", inverse = kind == "IFFT" || to_real;
  if (n < 1 || n > rank || (!from_real && !given.is_complex())) return o.mistaken("fft_length, or the operand's type");
  FETTLE_TRY_VOID(o.g.status());
  if (std::ranges::count(given.re->shape(), Dim(0)) > 0 || std::ranges::count(lengths, 0) > 0) {
    FETTLE_TRY(const Shape shape, o.result_shape());
    Value* nothing = o.expand(o.number(0, o.result_dtype()), shape);
    return Tensors{{nothing, o.result_type().element.is_complex ? nothing : nullptr}};
  }
  Value* x = o.g.unsqueeze(given.re, {rank});
  if (given.im) x = o.g("Concat", {x, o.g.unsqueeze(given.im, {rank})}, {{{"axis", rank}}});
  FETTLE_TRY_VOID(o.g.status());
  if (from_real) {
    FETTLE_TRY(x, transformed(o, x, rank - 1, false, true, lengths.back()));
  }
  const int64_t whole = from_real || to_real ? n - 1 : n;
  for (int64_t k = 0; k < whole; ++k) {
    FETTLE_TRY(x, transformed(o, x, rank - n + k, inverse, false, lengths[static_cast<size_t>(k)]));
  }
  if (to_real) {
    FETTLE_TRY(x, transformed(o, x, rank - 1, true, true, lengths.back()));
  }
  Shape shape = x->shape();
  shape.pop_back();
  Tensor result{o.g.reshape(o.g.slice(x, rank, 0, 1), shape)};
  if (!to_real) result.im = o.g.reshape(o.g.slice(x, rank, 1, 2), shape);
  return Tensors{result};
}

// --- matrices: [batch, rows, columns], real or complex

Tensor of_parts(const Tensor& tensor, const std::function<Value*(Value*)>& function) {
  return {function(tensor.re), tensor.im ? function(tensor.im) : nullptr};
}
Tensor conjugate(OpImport& o, Tensor x) {
  if (x.im) x.im = o.g("Neg", {x.im});
  return x;
}
Tensor flattened(OpImport& o, const Tensor& x) {
  const Shape& shape = x.re->shape();
  const Dim batch = element_count(Shape(shape.begin(), shape.end() - 2));
  return of_parts(x, [&](Value* part) { return o.g.reshape(part, {batch, shape[shape.size() - 2], shape.back()}); });
}
Tensor swapped(OpImport& o, const Tensor& x) {
  return of_parts(x, [&](Value* part) { return o.g.transpose(part, {0, 2, 1}); });
}
Value* typed(Value* value, TensorType type) {
  value->type = std::move(type);
  return value;
}
Tensor captured(LoopBuilder& loop, const Tensor& x) {
  return of_parts(x, [&](Value* part) { return typed(loop.capture("captured", part), *part->type); });
}
Tensor carried(LoopBuilder& loop, const Tensor& x) {
  return of_parts(x, [&](Value* part) { return typed(loop.carry("state", part), *part->type); });
}

/// Arithmetic in a loop's body.
struct Body {
  Lowering& g;
  Value* mul(Value* a, Value* b) const { return g("Mul", {a, b}); }
  Value* add(Value* a, Value* b) const { return g("Add", {a, b}); }
  Value* sub(Value* a, Value* b) const { return g("Sub", {a, b}); }
  Tensor sub(const Tensor& a, const Tensor& b) const { return {sub(a.re, b.re), a.im ? sub(a.im, b.im) : nullptr}; }
  using Product = std::function<Value*(Value*, Value*)>;
  // conjugated: the second one.
  Tensor product(const Tensor& a, const Tensor& b, bool conjugated, const Product& times) const {
    Value* re = times(a.re, b.re);
    if (!a.im) return {re};
    Value *twice = times(a.im, b.im), *left = times(a.im, b.re), *right = times(a.re, b.im);
    return conjugated ? Tensor{add(re, twice), sub(left, right)} : Tensor{sub(re, twice), add(left, right)};
  }
  Value* row(Value* x, Value* at, int64_t axis) const { return g("Gather", {x, at}, {{{"axis", axis}}}); }
};

/// Column by column; what is left is less the column's product with itself.
Result<Tensors> cholesky(OpImport& o) {
  if (o.in.size() != 1 || !o.in[0].re || o.in[0].re->rank() < 2) return o.mistaken("its operand is no matrix");
  const Shape shape = o.in[0].re->shape();
  const bool lower = o.integer("lower") != 0;
  Tensor a = flattened(o, o.in[0]);
  if (!lower) a = conjugate(o, swapped(o, a));
  FETTLE_TRY_VOID(o.g.status());
  const Dim batch = a.re->shape()[0], n = a.re->shape()[1];
  const DType dtype = a.re->dtype();
  Value* numbers = o.g.iota(n);
  LoopBuilder loop(o.g.nodes(), o.g.size(n));
  const Tensor left = carried(loop, a);
  Value* places = typed(loop.capture("places", numbers), {kI64, {n}});
  Value* j = typed(loop.iteration(), {kI64, {}});
  Lowering g(loop.body().graph(), o.node);
  const Body b{g};
  const Tensor column = of_parts(left, [&](Value* part) { return b.row(part, j, 2); });
  Value* root = g("Sqrt", {g.unsqueeze(b.row(column.re, j, 1), {1})});
  Value* is_below = g("GreaterOrEqual", {places, j});
  const Tensor factor =
      of_parts(column, [&](Value* part) { return g("Where", {is_below, g("Div", {part, root}), g.number(0, dtype)}); });
  // The diagonal is real.
  const Tensor rows = of_parts(factor, [&](Value* part) { return g.unsqueeze(part, {2}); });
  const Tensor columns = of_parts(factor, [&](Value* part) { return g.unsqueeze(part, {1}); });
  const Tensor next = b.sub(left, b.product(rows, columns, true, [&](Value* x, Value* y) { return b.mul(x, y); }));
  FETTLE_TRY_VOID(g.status());
  std::vector<LoopBuilder::Result> states{{"state", next.re}}, stacked{{"column", factor.re}};
  std::vector<TensorType> types{{dtype, {batch, n, n}}};
  if (next.im) {
    states.push_back({"state", next.im});
    stacked.push_back({"column", factor.im});
    types.push_back(types[0]);
  }
  for (size_t k = 0; k < stacked.size(); ++k) types.push_back({dtype, {n, batch, n}});
  const Values made = ops::typed(loop.finish(o.node.name, states, stacked), types);
  Tensor result{made[states.size()], next.im ? made[states.size() + 1] : nullptr};
  result = of_parts(result, [&](Value* part) { return o.g.transpose(part, {1, 2, 0}); });
  if (!lower) result = conjugate(o, swapped(o, result));
  return Tensors{of_parts(result, [&](Value* part) { return o.g.reshape(part, shape); })};
}

/// Row by row: what a row's equation leaves, less what the rows before it have in it.
Result<Tensors> triangular_solve(OpImport& o) {
  if (o.in.size() != 2 || !o.in[0].re || !o.in[1].re || o.in[0].re->rank() < 2) return o.mistaken("its operands");
  const Shape shape = o.in[1].re->shape();
  const std::string transposed = o.text("transpose_a", "NO_TRANSPOSE");
  const bool left = o.integer("left_side") != 0, unit = o.integer("unit_diagonal") != 0;
  bool lower = o.integer("lower") != 0;
  Tensor a = flattened(o, o.in[0]), right = flattened(o, o.in[1]);
  if (transposed != "NO_TRANSPOSE") {
    a = swapped(o, a);
    lower = !lower;
    if (transposed == "ADJOINT") a = conjugate(o, a);
  }
  if (!left) {
    a = swapped(o, a);
    right = swapped(o, right);
    lower = !lower;
  }
  FETTLE_TRY_VOID(o.g.status());
  const Dim batch = a.re->shape()[0], n = a.re->shape()[1], m = right.re->shape()[2];
  const DType dtype = a.re->dtype();
  Value *numbers = o.g.iota(n), *down = o.g.reshape(numbers, {n, 1});
  // The diagonal, and what lies beyond it; the other half is not read.
  Value* is_diagonal = o.g("Equal", {down, numbers});
  Value* is_other = o.g(lower ? "Greater" : "Less", {down, numbers});
  const Tensor diagonal = of_parts(a, [&](Value* part) {
    return o.g.reduce("ReduceSum", o.g("Where", {is_diagonal, part, o.number(0, dtype)}), {2}, false);
  });
  const Tensor others = of_parts(a, [&](Value* part) { return o.g("Where", {is_other, part, o.number(0, dtype)}); });
  Value* nothing = o.expand(o.number(0, dtype), {batch, n, m});
  LoopBuilder loop(o.g.nodes(), o.g.size(n));
  const Tensor known = carried(loop, {nothing, a.im ? nothing : nullptr});
  const Tensor matrix = captured(loop, others), values = captured(loop, right), scales = captured(loop, diagonal);
  Value* places = typed(loop.capture("places", down), {kI64, {n, 1}});
  Value* last = typed(loop.capture("last", o.g.size(n - 1)), {kI64, {}});
  Lowering g(loop.body().graph(), o.node);
  const Body b{g};
  Value* i = typed(loop.iteration(), {kI64, {}});
  if (!lower) i = g("Sub", {last, i});
  const auto row = [&](const Tensor& x) {
    return of_parts(x, [&](Value* part) { return g.unsqueeze(b.row(part, i, 1), {1}); });
  };
  const Tensor sum = b.product(row(matrix), known, false, [&](Value* x, Value* y) { return g("MatMul", {x, y}); });
  Tensor made = b.sub(row(values), sum);
  if (!unit) {
    const Tensor by = of_parts(row(scales), [&](Value* part) { return g.unsqueeze(part, {2}); });
    const auto times = [&](Value* x, Value* y) { return b.mul(x, y); };
    if (made.im) {
      Value* size = b.add(b.mul(by.re, by.re), b.mul(by.im, by.im));
      made = of_parts(b.product(made, by, true, times), [&](Value* part) { return g("Div", {part, size}); });
    } else {
      made.re = g("Div", {made.re, by.re});
    }
  }
  Value* is_row = g("Equal", {places, i});
  const auto placed = [&](Value* x, Value* old) { return x ? g("Where", {is_row, x, old}) : nullptr; };
  const Tensor next{placed(made.re, known.re), placed(made.im, known.im)};
  FETTLE_TRY_VOID(g.status());
  std::vector<LoopBuilder::Result> states{{"state", next.re}};
  std::vector<TensorType> types{{dtype, {batch, n, m}}};
  if (next.im) {
    states.push_back({"state", next.im});
    types.push_back(types[0]);
  }
  const Values solved = ops::typed(loop.finish(o.node.name, states, {}), types);
  Tensor result{solved[0], next.im ? solved[1] : nullptr};
  if (!left) result = swapped(o, result);
  return Tensors{of_parts(result, [&](Value* part) { return o.g.reshape(part, shape); })};
}

// --- batch normalization

/// A number for each feature, as it broadcasts to the operand.
Value* per_feature(OpImport& o, Value* x, const Shape& shape, int64_t feature) {
  Shape wide(shape.size(), Dim(1));
  wide[static_cast<size_t>(feature)] = shape[static_cast<size_t>(feature)];
  return o.g.reshape(x, wide);
}
struct BatchNorm {
  Values in;
  Shape shape;
  int64_t feature;
  Ints others;
  double epsilon;
  DType dtype;
};
// Halves are summed as f32.
Result<BatchNorm> read_batch_norm(OpImport& o, size_t n) {
  if (o.in.size() != n) return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  BatchNorm b;
  for (size_t i = 0; i < n; ++i) {
    FETTLE_TRY(b.in.emplace_back(), o.real(i));
  }
  b.shape = b.in[0]->shape();
  b.dtype = b.in[0]->dtype();
  b.feature = o.integer("feature_index");
  b.epsilon = o.real_number("epsilon");
  if (b.feature < 0 || b.feature >= std::ssize(b.shape)) return o.mistaken("feature_index");
  b.others = ops::without(first_numbers(b.shape.size()), b.feature);
  for (Value*& x : b.in) x = o.g.cast(x, computed_dtype(b.dtype));
  return b;
}
Value* normalized(OpImport& o, const BatchNorm& b, Value* scale, Value* offset, Value* mean, Value* variance) {
  const Elements e(o);
  const auto wide = [&](Value* x) { return per_feature(o, x, b.shape, b.feature); };
  Value* deviation = e.sqrt(e.add(variance, e.number(b.epsilon, variance)));
  return e.add(e.mul(e.div(e.sub(b.in[0], wide(mean)), wide(deviation)), wide(scale)), wide(offset));
}
Result<Tensors> batch_norm_inference(OpImport& o) {
  FETTLE_TRY(const BatchNorm b, read_batch_norm(o, 5));
  return Tensors{{o.g.cast(normalized(o, b, b.in[1], b.in[2], b.in[3], b.in[4]), b.dtype)}};
}
Result<Tensors> batch_norm_training(OpImport& o) {
  FETTLE_TRY(const BatchNorm b, read_batch_norm(o, 3));
  const Elements e(o);
  Value* mean = o.g.reduce("ReduceMean", b.in[0], b.others, false);
  Value* centred = e.sub(b.in[0], per_feature(o, mean, b.shape, b.feature));
  Value* variance = o.g.reduce("ReduceMean", e.mul(centred, centred), b.others, false);
  Tensors results{{normalized(o, b, b.in[1], b.in[2], mean, variance)}, {mean}, {variance}};
  for (Tensor& result : results) result.re = o.g.cast(result.re, b.dtype);
  return results;
}
// (operand, scale, mean, variance, gradient of the output)
Result<Tensors> batch_norm_grad(OpImport& o) {
  FETTLE_TRY(const BatchNorm b, read_batch_norm(o, 5));
  const Elements e(o);
  const auto wide = [&](Value* x) { return per_feature(o, x, b.shape, b.feature); };
  const auto summed = [&](Value* x) { return o.g.reduce("ReduceSum", x, b.others, false); };
  Value* inverse = e.op("Reciprocal", {e.sqrt(e.add(b.in[3], e.number(b.epsilon, b.in[3])))});
  Value* unit = e.mul(e.sub(b.in[0], wide(b.in[2])), wide(inverse));
  Value *by_scale = summed(e.mul(b.in[4], unit)), *by_offset = summed(b.in[4]);
  FETTLE_TRY_VOID(o.g.status());
  Dim count = 1;
  for (const int64_t d : b.others) count = count * b.shape[static_cast<size_t>(d)];
  Value* n = o.g.cast(o.g.size(count), b.in[0]->dtype());
  Value* mean_of = e.div(e.add(wide(by_offset), e.mul(unit, wide(by_scale))), n);
  Value* by_operand = e.mul(e.sub(b.in[4], mean_of), wide(e.mul(b.in[1], inverse)));
  Tensors results{{by_operand}, {by_scale}, {by_offset}};
  for (Tensor& result : results) result.re = o.g.cast(result.re, b.dtype);
  return results;
}

constexpr OpEntry kLinearAlgebra[] = {
    {"stablehlo.batch_norm_grad", batch_norm_grad},
    {"stablehlo.batch_norm_inference", batch_norm_inference},
    {"stablehlo.batch_norm_training", batch_norm_training},
    {"stablehlo.cholesky", cholesky},
    {"stablehlo.fft", fft},
    {"stablehlo.triangular_solve", triangular_solve},
};

}  // namespace

extern constinit const OpEntries linear_algebra_operators{kLinearAlgebra};

}  // namespace fettle::stablehlo
