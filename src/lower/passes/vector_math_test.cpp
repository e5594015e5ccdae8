#include "lower/passes/vector_math.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

Func one(const std::string& value) {
  const std::string text = "lowered func f(A: f32[8], C: f32[16] output):\n  for i in 16:\n    C[i] = " + value + "\n";
  const auto func = parse_func(text);
  FETTLE_CHECK_MSG(func, text);
  return *func;
}

size_t nodes(const Func& func) {
  size_t count = 0;
  walk(func->body, [&](const Stmt&) { return ++count > 0; }, [&](const Expr&) { return ++count > 0; });
  return count;
}

// Functions of functions below a side that reads: each is there once.
TEST(VectorMath, GrowsWithWhatStandsBelowAChoice) {
  size_t before = 0, grown = 0;
  std::string value = "A[i]";
  for (int depth = 1; depth <= 5; ++depth) {
    value = "sin(pow(" + value + ", 1.5))";
    const std::string chosen = "select(i < 8, " + value + ", select(8 < i, 1.0, " + value + "))";
    const size_t now = nodes(expand_vector_math(one(chosen)));
    if (depth > 2) {
      EXPECT_EQ(now - before, grown) << depth;
    }
    grown = now - before;
    before = now;
  }
}

// What is read only where a condition holds is read only there after it has a name.
TEST(VectorMath, ReadsStayBelowTheirChoice) {
  for (const char* value : {
           "select(i < 8, sin(exp(A[i])), 2.0)",
           "select(8 <= i, 2.0, sin(exp(A[i])))",
           "select(4 <= i, select(i < 8, exp(tanh(A[i])), sigmoid(3.0)), exp(0.5))",
           "select(i < 8 && 0.25 < tanh(exp(A[i])), 1.0, 0.0)",
           "select(8 <= i || 0.25 < tanh(exp(A[i])), exp(2.0), 0.0)",
       }) {
    const Func plain = one(value), expanded = expand_vector_math(plain);
    EXPECT_EQ(to_text(expanded).find("tanh"), std::string::npos);
    float a[8], c[2][16];
    for (int i = 0; i < 8; ++i) a[i] = static_cast<float>(i) / 2 - 3;
    const auto run = [&](const Func& func, float* out) {
      const BufferArg args[] = {{a, sizeof a}, {out, sizeof c[0]}};
      const auto done = interpret(func, args);
      ASSERT_TRUE(done) << done.error().to_string();
    };
    run(plain, c[0]);
    run(expanded, c[1]);
    for (int i = 0; i < 16; ++i) EXPECT_NEAR(c[0][i], c[1][i], 1e-5) << value << "\n" << to_text(expanded);
  }
}

}  // namespace
}  // namespace fettle
