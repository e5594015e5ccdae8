// MatMul with batches and broadcasting, also of quantised matrices, Gemm, Det.

#include <algorithm>

#include <fmt/format.h>

#include "graph/parameter_shapes.h"
#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;

Result<Shape> product_shape(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY_VOID(check_rank(node, 1, 1));
  const Shape &a = shape_of(node, 0), &b = shape_of(node, 1);
  FETTLE_TRY_VOID(common_dim(node, a.back(), b.size() == 1 ? b[0] : b[b.size() - 2], "what the sums go over"));
  const Shape batch_a(a.begin(), a.size() > 2 ? a.end() - 2 : a.begin());
  const Shape batch_b(b.begin(), b.size() > 2 ? b.end() - 2 : b.begin());
  FETTLE_TRY(Shape shape, broadcast(node, batch_a, batch_b));
  if (a.size() > 1) shape.push_back(a[a.size() - 2]);
  if (b.size() > 1) shape.push_back(b.back());
  return shape;
}
Types matmul_type(const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  FETTLE_TRY(Shape shape, product_shape(node));
  return same_dtype(node, std::move(shape));
}

// What is multiplied: an element of input 0 or 1, and its place, [batch…, row, column] without those that are missing.
using Operand = std::function<Expr(size_t input, const Indices& at)>;

Tensors product_of(const Node& node, std::span<const te::Tensor> in, const Operand& element) {
  const te::Tensor &a = in[0], &b = in[1];
  const bool row = a.rank() == 1, column = b.rank() == 1;  // a vector on the left, on the right
  const te::Tensor product = reduce_over(
      te::sum, size_exprs(output_shape(node)), {te::reduce_axis(a.dim(a.rank() - 1), "k")},
      [&](Indices i, const Indices& k) {
        const Expr n = column ? Expr(0) : i.back();
        if (!column) i.pop_back();
        const Expr m = row ? Expr(0) : i.back();
        if (!row) i.pop_back();
        // Batch dims are aligned at the right and broadcast.
        const auto operand = [&](size_t input, const Indices& matrix) {
          const te::Tensor& t = in[input];
          const size_t batch = static_cast<size_t>(std::max(0, t.rank() - 2));
          Indices at;
          for (size_t d = 0; d < batch; ++d) at.push_back(is_one(t.shape()[d]) ? Expr(0) : i[i.size() - batch + d]);
          return element(input, joined(std::move(at), matrix));
        };
        const Expr x = operand(0, row ? k : Indices{m, k[0]});
        return x * operand(1, column ? k : Indices{k[0], n});
      },
      tensor_name(node));
  return one(product);
}
Tensors matmul(const Node& node, std::span<const te::Tensor> in) {
  return product_of(node, in, [&](size_t input, const Indices& at) { return in[input](at); });
}

// --- MatMulInteger: (A - a zero point) · (B - b zero point) of bytes, in i32. A zero point is one number; or, of A,
// one a row, and of B one a column; [batch…, rows, 1] and [batch…, 1, columns] where batches have their own.

bool is_number(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& d) { return d == Dim(1); });
}

Types matmul_integer_type(const Node& node) {
  FETTLE_TRY(Shape shape, product_shape(node));
  for (size_t i = 0; i < 2; ++i) {
    const DType dtype = dtype_of(node, i);
    if (dtype != kI8 && dtype != kU8) return bad_types(node, "an operand is of " + dtype.to_string());
    if (!has_input(node, i + 2)) continue;
    if (dtype_of(node, i + 2) != dtype) return bad_types(node, "a zero point is of another type than its operand");
    const Shape &operand = shape_of(node, i), &zero = shape_of(node, i + 2);
    if (is_number(zero)) continue;
    if (zero.size() != 1 && zero.size() != operand.size())
      return bad_types(node, "a zero point is " + to_string(zero) + " of an operand " + to_string(operand));
    const size_t own = operand.size() == 1 ? 0 : operand.size() - (i == 0 ? 2 : 1);  // its rows, or columns
    const size_t of_zero = zero.size() == 1 ? 0 : own;
    FETTLE_TRY_VOID(common_dim(node, operand[own], zero[of_zero], "zero points"));
    for (size_t d = 0; zero.size() > 1 && d < zero.size(); ++d)
      if (d != own && !(zero[d] == Dim(1)))
        FETTLE_TRY_VOID(common_dim(node, operand[d], zero[d], "zero points of batches"));
  }
  return one_type(kI32, std::move(shape));
}

Tensors matmul_integer(const Node& node, std::span<const te::Tensor> in) {
  return product_of(node, in, [&](size_t input, const Indices& at) {
    const Expr x = cast(kI32, in[input](at));
    if (!has_tensor(in, input + 2)) return x;
    const te::Tensor& zero = in[input + 2];
    const size_t own = at.size() == 1 ? 0 : at.size() - (input == 0 ? 2 : 1);
    const bool is_list = zero.rank() == 1 && at.size() > 1 && !is_one(zero.dim(0));
    return x - cast(kI32, is_list ? zero(at[own]) : read_broadcast(zero, at));
  });
}

Types gemm_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  FETTLE_TRY_VOID(check_rank(node, 1, 2, 2));
  FETTLE_TRY_VOID(check_same_dtype(node, 0, 1));
  const bool ta = node.attrs.get_int("transA", 0), tb = node.attrs.get_int("transB", 0);
  const Shape &a = shape_of(node, 0), &b = shape_of(node, 1);
  FETTLE_TRY_VOID(common_dim(node, a[ta ? 0 : 1], b[tb ? 1 : 0], "what the sums go over"));
  Shape shape{a[ta ? 1 : 0], b[tb ? 0 : 1]};
  FETTLE_TRY_VOID(check_broadcasts_to(node, shape, 2));
  return same_dtype(node, std::move(shape));
}

// alpha * A' * B' + beta * C
Tensors gemm(const Node& node, std::span<const te::Tensor> in) {
  const bool ta = node.attrs.get_int("transA", 0), tb = node.attrs.get_int("transB", 0);
  const double alpha = node.attrs.get_float("alpha", 1), beta = node.attrs.get_float("beta", 1);
  const DType dtype = output_dtype(node);
  const te::Tensor product = reduce_over(
      te::sum, size_exprs(output_shape(node)), {te::reduce_axis(in[0].dim(ta ? 0 : 1), "k")},
      [&](const Indices& i, const Indices& k) {
        const Expr x = ta ? in[0](k[0], i[0]) : in[0](i[0], k[0]);
        return x * (tb ? in[1](i[1], k[0]) : in[1](k[0], i[1]));
      },
      tensor_name(node));
  const bool has_addend = has_tensor(in, 2) && beta != 0;
  if (!has_addend && alpha == 1) return one(product);
  return one(map_output(node, [&](const Indices& i) {
    Expr value = product(i);
    if (alpha != 1) value = value * constant(alpha, dtype);
    if (!has_addend) return value;
    const Expr addend = read_broadcast(in[2], i);
    return value + (beta == 1 ? addend : addend * constant(beta, dtype));
  }));
}

// --- Det: elimination with pivots. A step takes the row of the greatest element of the first column away.

Result<std::vector<Value*>> determinant(passes::Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  constexpr int64_t kMost = 64;
  const Shape& shape = shape_of(node, 0);
  const int64_t rank = std::ssize(shape), row = rank - 2, column = rank - 1;
  const Dim &n = shape.back(), &rows = shape[static_cast<size_t>(row)];
  if (!n.is_number() || !rows.is_number())
    return not_known(node, "Det needs the extents of its matrices when the model is compiled");
  if (!(rows == n)) return bad_types(node, "the matrices are not square");
  if (n.value() < 1 || n.value() > kMost) return bad_attribute(node, fmt::format("matrices of {} rows", n.value()));
  Value* a = node.inputs[0];
  const DType dtype = a->dtype();
  Value *zero = g.number(0, dtype), *unit = g.number(1, dtype), *product = nullptr;
  for (int64_t m = n.value(); m >= 1; --m) {
    Value* first = g.slice(a, column, 0, 1);  // [… m, 1]
    if (m == 1) {
      product = product ? g("Mul", {product, first}) : first;
      break;
    }
    Value* pivot_row = g("ArgMax", {g("Abs", {first})}, {{{"axis", row}, {"keepdims", int64_t{1}}}});  // [… 1, 1]
    Value* is_first = g("Equal", {pivot_row, g.index(0)});
    Value* numbers = g.constant(reshaped(int_list(first_numbers(static_cast<size_t>(m))), {m, 1}));
    Value* is_pivot = g("Equal", {numbers, pivot_row});  // [… m, 1]
    Value* taken = g.reduce("ReduceSum", g("Where", {is_pivot, a, zero}), {row}, true);
    Value* others = g("Where", {is_pivot, g.slice(a, row, 0, 1), a});  // the first row, in the place of the pivot's
    Value* pivot = g.slice(taken, column, 0, 1);
    Value* divisor = g("Where", {g("Equal", {pivot, zero}), unit, pivot});  // a column of zeros stays so
    others = g.slice(others, row, 1, m);
    Value* factors = g("Div", {g.slice(others, column, 0, 1), divisor});
    a = g("Sub", {g.slice(others, column, 1, m), g("Mul", {factors, g.slice(taken, column, 1, m)})});
    Value* factor = g("Where", {is_first, pivot, g("Neg", {pivot})});
    product = product ? g("Mul", {product, factor}) : factor;
  }
  return std::vector{g("Squeeze", {product}, {{{"axes", std::vector<int64_t>{row, column}}}})};
}

constexpr WeightsRule product_weights{.channel_dim = 1, .output_dim = -1, .takes_bias = false};
constexpr OpDef matmul_defs[] = {
    define(kComplexOutFusable, "MatMul", 2, matmul_type, matmul, {.weights = &product_weights}),
    define(kComplexOutFusable, "MatMulInteger", {2, 4}, matmul_integer_type, matmul_integer),
    passes::composite<determinant>("Det", 1),
    define(kComplexOutFusable, "Gemm", {2, 3}, gemm_type, gemm),
};

}  // namespace

extern constinit const OpFamily matmul_ops{"matmul", matmul_defs};

}  // namespace fettle
