#include "driver/necessary_work.h"

#include <gtest/gtest.h>

#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle {
namespace {

TEST(NecessaryWork, OfAProduct) {
  te::Tensor a = te::placeholder({3, 5}, kF32, "A"), b = te::placeholder({5, 7}, kF32, "B");
  te::ReduceAxis k = te::reduce_axis(5, "k");
  te::Tensor c =
      te::compute({3, 7}, [&](const std::vector<Var>& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); }, "C");
  const NecessaryWork work = necessary_work(te::create_func("product", {a, b}, {c}));
  EXPECT_EQ(work.flops, 2.0 * 3 * 5 * 7);
  EXPECT_EQ(work.read_bytes, 4.0 * (3 * 5 + 5 * 7));
  EXPECT_EQ(work.written_bytes, 4.0 * 3 * 7);
}

TEST(NecessaryWork, OfATableCountsTheRowsThatAreLookedUp) {
  te::Tensor table = te::placeholder({1000, 8}, kF32, "T"), ids = te::placeholder({3}, kI32, "ids");
  te::Tensor rows =
      te::compute({3, 8}, [&](const std::vector<Var>& i) { return table(cast(kI64, ids(i[0])), i[1]); }, "R");
  const NecessaryWork work = necessary_work(te::create_func("rows", {table, ids}, {rows}));
  EXPECT_LE(work.read_bytes, 4.0 * 3 * 8 + 4.0 * 3 * 8);
  EXPECT_EQ(work.flops, 0);
}

TEST(NecessaryWork, OfEpilogues) {
  te::Tensor a = te::placeholder({3, 5}, kF32, "A"), b = te::placeholder({5, 7}, kF32, "B");
  te::Tensor bias = te::placeholder({7}, kF32, "bias"), gain = te::placeholder({7}, kF32, "gain");
  te::ReduceAxis k = te::reduce_axis(5, "k");
  te::Tensor c =
      te::compute({3, 7}, [&](const std::vector<Var>& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); }, "C");
  te::Tensor d = te::compute({3, 7}, [&](const std::vector<Var>& i) { return c(i[0], i[1]) + bias(i[1]); }, "D");
  const auto operations = [&](const te::Tensor& out) {
    return necessary_work(te::create_func("f", {a, b, bias, gain}, {out})).operations;
  };
  EXPECT_EQ(operations(d), 3 * 7 * 5) << "the sums may start from the bias";
  te::Tensor relu =
      te::compute({3, 7}, [&](const std::vector<Var>& i) { return max(d(i[0], i[1]), float_imm(0)); }, "E");
  EXPECT_EQ(operations(relu), 3 * 7 * (5 + 1));
  // gain² once a column, a multiply-add an element.
  te::Tensor scaled = te::compute(
      {3, 7}, [&](const std::vector<Var>& i) { return relu(i[0], i[1]) * (gain(i[1]) * gain(i[1])) + bias(i[1]); },
      "F");
  EXPECT_EQ(operations(scaled), 3 * 7 * (5 + 1 + 1) + 7);
  const NecessaryWork work = necessary_work(te::create_func("f", {a, b, bias, gain}, {scaled}));
  EXPECT_EQ(work.products, 3 * 7 * (5 + 1) + 7) << "without the maxima";
}

TEST(NecessaryWork, OfReductionsAndFunctions) {
  te::Tensor x = te::placeholder({4, 9}, kF32, "X");
  te::ReduceAxis k = te::reduce_axis(9, "k"), n = te::reduce_axis(9, "n");
  te::Tensor largest = te::compute({4}, [&](const std::vector<Var>& i) { return te::max(x(i[0], k), {k}); }, "M");
  EXPECT_EQ(necessary_work(te::create_func("largest", {x}, {largest})).operations, 4 * 8);
  te::Tensor squares =
      te::compute({4}, [&](const std::vector<Var>& i) { return te::sum(x(i[0], n) * x(i[0], n), {n}); }, "S");
  EXPECT_EQ(necessary_work(te::create_func("squares", {x}, {squares})).operations, 4 * 9);
  te::Tensor e =
      te::compute({4, 9}, [&](const std::vector<Var>& i) { return call("exp", {x(i[0], i[1])}, kF32); }, "E");
  const double of_exp = necessary_work(te::create_func("exps", {x}, {e})).operations / (4 * 9);
  EXPECT_GE(of_exp, 8);
  EXPECT_LE(of_exp, 20);
  const double products = necessary_work(te::create_func("exps", {x}, {e})).products / (4 * 9);
  EXPECT_GE(products, 6);
  EXPECT_LT(products, of_exp);
}

}  // namespace
}  // namespace fettle
