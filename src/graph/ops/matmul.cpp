// MatMul with batches and broadcasting, Gemm.

#include <fmt/format.h>

#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

// A dim that both operands have: numbers must agree, a symbol gives way to a number.
bool may_equal(const Dim& a, const Dim& b) { return !a.is_number() || !b.is_number() || a == b; }

Types matmul_type(const Node& node) {
  const Shape &a = shape_of(node, 0), &b = shape_of(node, 1);
  if (a.empty() || b.empty()) return bad_types(node, "an operand is a scalar");
  if (dtype_of(node, 0) != dtype_of(node, 1)) return bad_types(node, "the operands' types differ");
  const Dim& k = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (!may_equal(a.back(), k)) return bad_types(node, fmt::format("{} times {}", to_string(a), to_string(b)));
  const Shape batch_a(a.begin(), a.size() > 2 ? a.end() - 2 : a.begin());
  const Shape batch_b(b.begin(), b.size() > 2 ? b.end() - 2 : b.begin());
  FETTLE_TRY(Shape shape, broadcast(node, batch_a, batch_b));
  if (a.size() > 1) shape.push_back(a[a.size() - 2]);
  if (b.size() > 1) shape.push_back(b.back());
  return one_type(dtype_of(node, 0), std::move(shape));
}

Tensors matmul(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor &a = in[0], &b = in[1];
  const bool row = a.rank() == 1, column = b.rank() == 1;  // a vector on the left, on the right
  const te::Tensor product = te::compute(
      shape_exprs(output_shape(node)),
      [&](const std::vector<Var>& vars) -> te::Body {
        Indices i = to_indices(vars);
        const Expr n = column ? Expr(0) : i.back();
        if (!column) i.pop_back();
        const Expr m = row ? Expr(0) : i.back();
        if (!row) i.pop_back();
        const te::ReduceAxis k = te::reduce_axis(a.dim(a.rank() - 1), "k");
        // Batch dims are aligned at the right and broadcast.
        const auto operand = [&](const te::Tensor& t, std::vector<Expr> matrix) {
          const size_t batch = static_cast<size_t>(std::max(0, t.rank() - 2));
          Indices at;
          for (size_t d = 0; d < batch; ++d) at.push_back(is_one(t.shape()[d]) ? Expr(0) : i[i.size() - batch + d]);
          at.insert(at.end(), matrix.begin(), matrix.end());
          return t(std::move(at));
        };
        const Expr x = operand(a, row ? Indices{k} : Indices{m, k});
        const Expr y = operand(b, column ? Indices{k} : Indices{k, n});
        return te::sum(x * y, {k});
      },
      tensor_name(node));
  return one(product);
}

Types gemm_type(const Node& node) {
  if (rank_of(node, 0) != 2 || rank_of(node, 1) != 2) return bad_types(node, "operands must be matrices");
  if (dtype_of(node, 0) != dtype_of(node, 1)) return bad_types(node, "the operands' types differ");
  const bool ta = node.attrs.get_int("transA", 0), tb = node.attrs.get_int("transB", 0);
  const Shape &a = shape_of(node, 0), &b = shape_of(node, 1);
  if (!may_equal(a[ta ? 0 : 1], b[tb ? 1 : 0]))
    return bad_types(node, fmt::format("{} times {}", to_string(a), to_string(b)));
  Shape shape{a[ta ? 1 : 0], b[tb ? 0 : 1]};
  if (has_input(node, 2)) {
    FETTLE_TRY(const Shape all, broadcast(node, shape, shape_of(node, 2)));
    if (all.size() != 2) return bad_types(node, "the addend has too many dims");
  }
  return one_type(dtype_of(node, 0), std::move(shape));
}

// alpha * A' * B' + beta * C
Tensors gemm(const Node& node, std::span<const te::Tensor> in) {
  const bool ta = node.attrs.get_int("transA", 0), tb = node.attrs.get_int("transB", 0);
  const double alpha = node.attrs.get_float("alpha", 1), beta = node.attrs.get_float("beta", 1);
  const DType dtype = output_dtype(node);
  const te::Tensor product = te::compute(
      shape_exprs(output_shape(node)),
      [&](const std::vector<Var>& i) -> te::Body {
        const te::ReduceAxis k = te::reduce_axis(in[0].dim(ta ? 0 : 1), "k");
        const Expr x = ta ? in[0](k, i[0]) : in[0](i[0], k);
        const Expr y = tb ? in[1](i[1], k) : in[1](k, i[1]);
        return te::sum(x * y, {k});
      },
      tensor_name(node));
  const bool has_addend = in.size() > 2 && in[2] && beta != 0;
  if (!has_addend && alpha == 1) return one(product);
  return one(map_output(node, [&](const Indices& i) {
    Expr value = product(i);
    if (alpha != 1) value = value * constant(alpha, dtype);
    if (!has_addend) return value;
    const Expr addend = read_broadcast(in[2], i);
    return value + (beta == 1 ? addend : addend * constant(beta, dtype));
  }));
}

constexpr WeightsRule product_weights{.channel_dim = 1, .output_dim = -1, .takes_bias = false};
constexpr OpDef defs[] = {
    {.name = "MatMul",
     .fusion = FusionKind::kComplexOutFusable,
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = matmul_type,
     .compute = matmul,
     .weights = &product_weights},
    {.name = "Gemm",
     .fusion = FusionKind::kComplexOutFusable,
     .min_inputs = 2,
     .max_inputs = 3,
     .infer = gemm_type,
     .compute = gemm},
};

}  // namespace

extern constinit const OpFamily matmul_ops{"matmul", defs};

}  // namespace fettle
