// Blocks over the same elements share a loop of vectors.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "schedule/testing.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::choices;
using testing::expect_same;

// A step of an optimiser: the second block reads what the first one returns.
Func momentum_step(std::vector<Expr> shape) {
  const te::Tensor w = te::placeholder(shape, kF32, "W"), m = te::placeholder(shape, kF32, "M"),
                   g = te::placeholder(shape, kF32, "G");
  const te::Tensor next = te::compute(
      shape, [&](const std::vector<Var>& i) { return m(i) * float_imm(0.9) + g(i) * float_imm(0.1); }, "N", {"i", "j"});
  const te::Tensor moved =
      te::compute(shape, [&](const std::vector<Var>& i) { return w(i) - next(i) * float_imm(0.01); }, "V", {"i", "j"});
  return te::create_func("step", {w, m, g}, {next, moved}, {});
}

TEST(ElementFusion, SharesOneLoop) {
  const Func func = momentum_step({96, 1024});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_NE(to_text(s->trace()).find("merge("), std::string::npos) << to_text(s->trace());
  expect_same(func, *s);
}

// With elements left over, by two threads, and with several vectors at once.
TEST(ElementFusion, IsTheSame) {
  for (const std::vector<Expr>& shape : {std::vector<Expr>{7, 33}, {64, 17}, {3, 5}, {129, 64}})
    for (const int threads : {1, 2})
      for (const char* vectors : {"1", "2", "4"}) {
        const Func func = momentum_step(shape);
        const DecisionMap decisions = {{"element_fusion/V/vectors", vectors}};
        const auto s =
            rule_space().generate(func, avx512(), threads, 1, std::make_shared<const DecisionMap>(decisions));
        ASSERT_OK(s);
        expect_same(func, *s);
      }
}

// What is read of another element has to be there before.
TEST(ElementFusion, OtherElementsAreMadeFirst) {
  const te::Tensor x = te::placeholder({64}, kF32, "X");
  const te::Tensor a = te::compute({64}, [&](const std::vector<Var>& i) { return x(i[0]) * x(i[0]); }, "A", {"i"});
  const te::Tensor b =
      te::compute({64}, [&](const std::vector<Var>& i) { return a(Expr(63) - Expr(i[0])) + a(i[0]); }, "B", {"i"});
  const Func func = te::create_func("mirror", {x}, {a, b}, {});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_EQ(to_text(s->trace()).find("merge("), std::string::npos) << to_text(s->trace());
  expect_same(func, *s);
}

// Rounds that read each other twice are values of one loop, not one expression that doubles with each.
TEST(ElementFusion, KeepsValuesThatAreReadTwice) {
  te::Tensor x = te::placeholder({4096}, kF32, "X");
  std::vector<te::Tensor> rounds = {x};
  for (int round = 0; round < 12; ++round) {
    const te::Tensor& last = rounds.back();
    rounds.push_back(te::compute(
        {4096},
        [&](const std::vector<Var>& i) { return last(i) * float_imm(0.5) + last(i) * last(i) * float_imm(0.1); },
        "R" + std::to_string(round), {"i"}));
  }
  const Func func = te::create_func("rounds", {x}, {rounds.back()}, {});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_LT(to_text(s->func()).size(), 20'000u);
  EXPECT_NE(choices(*s).find("element_fusion"), std::string::npos) << choices(*s);
  expect_same(func, *s);
}

}  // namespace
}  // namespace fettle
