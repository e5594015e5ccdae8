#include "arith/int_eval.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

TEST(IntEval, ComputesAsTheLanguageDoes) {
  const Var x = make_var("x"), y = make_var("y");
  IntEnv env;
  env.push(x.get(), 7);
  env.push(y.get(), -3);
  const Expr a(x), b(y);
  EXPECT_EQ(*evaluate_int(a * 5 + b, env), 32);
  EXPECT_EQ(*evaluate_int(floordiv(b, 2), env), -2);
  EXPECT_EQ(*evaluate_int(floormod(b, 2), env), 1);
  EXPECT_EQ(*evaluate_int(floordiv(a, b), env), -3);
  EXPECT_EQ(*evaluate_int(binary(BinaryOp::kMin, a, b), env), -3);
  EXPECT_EQ(*evaluate_int(select(lt(a, b), a, b * b), env), 9);
  EXPECT_EQ(*evaluate_int(logical_not(lt(a, b)), env), 1);
  EXPECT_EQ(*evaluate_int(ramp(a, 2, 4), env), 7);
  EXPECT_EQ(*evaluate_int(floordiv(Expr(x), Expr(y)) * 0 + 4, env), 4);
  // Wraps, in the width of its type.
  EXPECT_EQ(*evaluate_int(cast(kI8, a * 40), env), 24);
  const Expr narrow = cast(kI8, a) * int_imm(40, kI8);
  EXPECT_EQ(*evaluate_int(narrow, env), 24);
  EXPECT_EQ(*evaluate_int(a * int_imm(INT64_MAX), env), static_cast<int64_t>(uint64_t{7} * uint64_t{INT64_MAX}));
  env.set(y.get(), -1);
  env.set(x.get(), INT64_MIN);
  EXPECT_EQ(*evaluate_int(floordiv(a, b), env), INT64_MIN);
  EXPECT_EQ(*evaluate_int(floormod(a, b), env), 0);
}

TEST(IntEval, TheInnermostValueCounts) {
  const Var x = make_var("x");
  IntEnv env;
  env.push(x.get(), 1);
  env.push(x.get(), 2);
  EXPECT_EQ(*evaluate_int(Expr(x), env), 2);
  env.set(x.get(), 3);
  EXPECT_EQ(env.value(x.get()), 3);
  env.pop();
  EXPECT_EQ(*evaluate_int(Expr(x), env), 1);
  env.pop();
  EXPECT_EQ(env.find(x.get()), nullptr);
  env.set(x.get(), 4);
  EXPECT_EQ(env.size(), 1u);
}

TEST(IntEval, SaysWhyThereIsNoValue) {
  const Var x = make_var("x");
  const auto data = make_buffer("A", {8}, kI64);
  int64_t value = 0;
  EXPECT_EQ(evaluate_int(Expr(x), {}, value), IntProblem::kUnbound);
  EXPECT_EQ(evaluate_int(load(data, {0}), {}, value), IntProblem::kNoInteger);
  EXPECT_EQ(evaluate_int(floordiv(1, load(data, {0}) * 0), {}, value), IntProblem::kByZero);
  EXPECT_EQ(evaluate_int(lt(float_imm(1.0), math("exp", {float_imm(1.0)})), {}, value), IntProblem::kNoInteger);
  const auto unbound = evaluate_int(Expr(x) + 1);
  ASSERT_FALSE(unbound);
  EXPECT_EQ(unbound.error().code, ErrorCode::E301);
  EXPECT_EQ(unbound.error().message, "the integer x has no value");
  IntEnv env;
  env.push(x.get(), 0);
  const auto by_zero = evaluate_int(floormod(1, Expr(x)), env);
  ASSERT_FALSE(by_zero);
  EXPECT_EQ(by_zero.error().code, ErrorCode::E709);
  // What does not count is not evaluated.
  EXPECT_EQ(*evaluate_int(logical_and(lt(0, Expr(x)), lt(0, floordiv(1, Expr(x)))), env), 0);
  EXPECT_EQ(*evaluate_int(select(lt(0, Expr(x)), floordiv(1, Expr(x)), 5), env), 5);
}

TEST(IntEval, EstimatesEverything) {
  const Var x = make_var("x");
  const auto data = make_buffer("A", {8}, kI64);
  EXPECT_EQ(estimate_int(Expr(), {}, 9), 9);
  EXPECT_EQ(estimate_int(Expr(x) + 4, {}, 9), 4);
  EXPECT_EQ(estimate_int(load(data, {0}) + 1, {}, 9), 10);
  EXPECT_EQ(estimate_int(floordiv(1, Expr(x)), {}, 9), 9);
  EXPECT_EQ(estimate_int(select(eq(load(data, {0}), 1), 2, 3), {}, 9), 2);
  EXPECT_EQ(estimate_int(call("likely", {lt(Expr(x), 1)}, kBool), {}), 1);
}

}  // namespace
}  // namespace fettle
