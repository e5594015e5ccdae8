// Contractions, against sums in plain C++.

#include <numeric>

#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

class Contraction : public GeneralOps {
 protected:
  /// The dims of an operand, by their kinds; `order`: where each of [batch…, contracting…, others…] lies.
  static Ints placed(const Ints& extents, const Ints& order) {
    Ints shape(extents.size());
    for (size_t k = 0; k < extents.size(); ++k) shape[static_cast<size_t>(order[k])] = extents[k];
    return shape;
  }
  Ints random_order(size_t n) {
    Ints order(n);
    std::iota(order.begin(), order.end(), 0);
    for (size_t k = n; k > 1; --k) std::swap(order[k - 1], order[static_cast<size_t>(below(static_cast<int64_t>(k)))]);
    return order;
  }
  static Ints part(const Ints& list, size_t begin, size_t count) {
    return {list.begin() + static_cast<int64_t>(begin), list.begin() + static_cast<int64_t>(begin + count)};
  }
  static Ints joined(Ints a, const Ints& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  void check_random(DType dtype, DType result) {
    const Ints batch = random_shape(static_cast<size_t>(below(3)), 3),
               contracting = random_shape(static_cast<size_t>(below(3)), 4),
               rows = random_shape(static_cast<size_t>(below(3)), 4),
               columns = random_shape(static_cast<size_t>(below(3)), 4);
    const size_t n_batch = batch.size(), n_sums = contracting.size();
    const bool in_order = coin();  // mostly a product of matrices
    Ints order_a = random_order(n_batch + n_sums + rows.size()),
         order_b = random_order(n_batch + n_sums + columns.size());
    if (in_order) {
      std::ranges::sort(order_a);
      std::ranges::sort(order_b);
    }
    const Ints of_a = joined(joined(batch, contracting), rows), of_b = joined(joined(batch, contracting), columns);
    Case c{.op = "fettle.Contraction",
           .inputs = {{random_array(placed(of_a, order_a), dtype), dtype},
                      {random_array(placed(of_b, order_b), dtype), dtype}},
           .attrs = {{"batch_a", part(order_a, 0, n_batch)},
                     {"batch_b", part(order_b, 0, n_batch)},
                     {"contracting_a", part(order_a, n_batch, n_sums)},
                     {"contracting_b", part(order_b, n_batch, n_sums)}}};
    if (result != dtype) c.attrs.set("dtype", onnx_number(result));
    SCOPED_TRACE(fmt::format("{} batches, {} sums, {} rows, {} columns", n_batch, n_sums, rows.size(), columns.size()));
    // What stays is in the order in which it lies in the operands.
    const auto sorted = [](Ints places) {
      std::ranges::sort(places);
      return places;
    };
    const Ints rows_at = sorted(part(order_a, n_batch + n_sums, rows.size())),
               columns_at = sorted(part(order_b, n_batch + n_sums, columns.size()));
    Ints shape = batch;
    for (const int64_t d : rows_at) shape.push_back(c.inputs[0].array.shape[static_cast<size_t>(d)]);
    for (const int64_t d : columns_at) shape.push_back(c.inputs[1].array.shape[static_cast<size_t>(d)]);
    Array want(shape);
    for_each_index(shape, [&](const Ints& i) {
      for_each_index(contracting, [&](const Ints& k) {
        Ints a(of_a.size()), b(of_b.size());
        for (size_t d = 0; d < n_batch; ++d)
          a[static_cast<size_t>(order_a[d])] = b[static_cast<size_t>(order_b[d])] = i[d];
        for (size_t d = 0; d < n_sums; ++d)
          a[static_cast<size_t>(order_a[n_batch + d])] = b[static_cast<size_t>(order_b[n_batch + d])] = k[d];
        for (size_t d = 0; d < rows.size(); ++d) a[static_cast<size_t>(rows_at[d])] = i[n_batch + d];
        for (size_t d = 0; d < columns.size(); ++d)
          b[static_cast<size_t>(columns_at[d])] = i[n_batch + rows.size() + d];
        want(i) += c.inputs[0].array(a) * c.inputs[1].array(b);
      });
    });
    check(c, {want});
  }
};

TEST_F(Contraction, OfAnyDims) {
  for (const auto& [dtype, result] : {std::pair{kF32, kF32},
                                      {kF64, kF64},
                                      {kI32, kI32},
                                      {kI64, kI64},
                                      {kI8, kI32},
                                      {kU8, kI32},
                                      {kF16, kF32},
                                      {kF32, kF64}})
    for (int i = 0; i < 8; ++i) {
      SCOPED_TRACE(fmt::format("{} as {}", dtype.to_string(), result.to_string()));
      check_random(dtype, result);
      if (HasFailure()) return;
    }
}

TEST_F(Contraction, DimsSideBySideAreAProductOfMatrices) {
  Case c{.op = "fettle.Contraction",
         .inputs = {{Array({2, 3, 4, 5}), kF32}, {Array({2, 3, 6, 5}), kF32}},
         .attrs = {
             {"batch_a", Ints{0, 1}}, {"batch_b", Ints{0, 1}}, {"contracting_a", Ints{3}}, {"contracting_b", Ints{3}}}};
  Graph graph = optimized(c);
  EXPECT_TRUE(has_op(graph, "MatMul"));
  c.attrs = {{"batch_a", Ints{0}}, {"batch_b", Ints{0}}, {"contracting_a", Ints{1, 3}}, {"contracting_b", Ints{1, 3}}};
  graph = optimized(c);
  EXPECT_TRUE(has_op(graph, "Einsum"));  // nothing moves
  EXPECT_EQ(graph.nodes().size(), 1u);
  c.inputs[0].dtype = c.inputs[1].dtype = kI8;
  c.attrs = {{"contracting_a", Ints{2, 3}}, {"contracting_b", Ints{2, 3}}, {"dtype", onnx_number(kI32)}};
  c.inputs[1].array = Array({7, 1, 4, 5});
  EXPECT_TRUE(has_op(optimized(c), "MatMulInteger"));
}

TEST_F(Contraction, WhatDoesNotFitIsRefused) {
  Case c{.op = "fettle.Contraction", .inputs = {{Array({2, 3}), kF32}, {Array({4, 5}), kF32}}};
  c.attrs = {{"contracting_a", Ints{1}}, {"contracting_b", Ints{0}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);  // 3 and 4
  c.attrs = {{"contracting_a", Ints{1}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);  // of one alone
  c.attrs = {{"batch_a", Ints{0}}, {"batch_b", Ints{0}}, {"contracting_a", Ints{0}}, {"contracting_b", Ints{1}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);  // a dim twice
  c.attrs = {{"dtype", onnx_number(kBool)}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);
  c.attrs = {};
  c.inputs[0].dtype = c.inputs[1].dtype = kBool;
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);
}

}  // namespace
}  // namespace fettle
