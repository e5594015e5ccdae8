#include "schedule/primitives/reformulate.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::replaced;
using testing::schedule_from;

const std::string kMatmul = testing::matmul_program(6, 4, 10);

TEST(SplitReduction, EvenParts) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", {5}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(SplitReduction, EveryNumberOfParts) {
  for (int parts = 1; parts <= 12; ++parts) {
    auto s = schedule_from(kMatmul);
    ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", {parts}}));
    EXPECT_OK(check_well_formed(s.func()));
    EXPECT_SAME_RESULT(s);
  }
}

TEST(SplitReduction, InterleavedParts) {
  for (int parts = 1; parts <= 10; ++parts) {
    auto s = schedule_from(kMatmul);
    ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", {parts, 1}}));
    EXPECT_OK(check_well_formed(s.func()));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    if (parts == 4) {
      EXPECT_GOLDEN(s.func());
    }
  }
}

TEST(SplitReduction, Maximum) {
  auto s = schedule_from(replaced(replaced(kMatmul, "= 0.0", "= -inf"), "C[vi, vj] + A[vi, vk] * B[vk, vj]",
                                  "max(A[vi, vk] * B[vk, vj], C[vi, vj])"));
  ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", {4}}));
  EXPECT_SAME_RESULT(s);
}

// The last of several iterators is split, wherever the output's are.
TEST(SplitReduction, OfSeveralIteratorsTheLast) {
  const std::string program = R"(func sums(X: f32[3, 5, 7], C: f32[5] output):
  for j in 3:
    for i in 5:
      for k in 7:
        block C(vj: reduce[3] = j, vi: spatial[5] = i, vk: reduce[7] = k):
          reads X[vj, vi, vk]
          writes C[vi]
          init:
            C[vi] = 0.0
          C[vi] = C[vi] + X[vj, vi, vk]
)";
  for (const std::vector<IntRef>& numbers : {std::vector<IntRef>{2}, {3}, {4, 1}, {7, 1}}) {
    auto s = schedule_from(program);
    ASSERT_OK(reformulate(s, {s.block("C"), "split_reduction", numbers}));
    EXPECT_OK(check_well_formed(s.func()));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
}

TEST(SplitReduction, E228WhereThePatternDoesNotFit) {
  const auto refuses = [](const std::string& text, const std::vector<IntRef>& numbers = {2}) {
    auto s = schedule_from(text);
    return testing::fails_with(reformulate(s, {s.block("C"), "split_reduction", numbers}), ErrorCode::E228);
  };
  EXPECT_TRUE(refuses(kMatmul, {}));
  EXPECT_TRUE(refuses(kMatmul, {0}));
  EXPECT_TRUE(refuses(kMatmul, {2, 2}));
  EXPECT_TRUE(refuses(kMatmul, {11, 1}));                                         // more parts than terms
  EXPECT_TRUE(refuses(replaced(kMatmul, "= 0.0", "= 1.0")));                      // not neutral
  EXPECT_TRUE(refuses(replaced(kMatmul, "C[vi, vj] + A", "C[vi, vj] - A")));      // no reduction
  EXPECT_TRUE(refuses(replaced(kMatmul, "C[vi, vj] + A[vi, vk]", "A[vi, vk]")));  // no accumulation
  EXPECT_TRUE(refuses(replaced(kMatmul, "= k)", "= k) where i < 5")));            // a predicate
  EXPECT_TRUE(refuses(replaced(kMatmul, "vi: spatial[6] = i", "vi: spatial[6] = 5 - i")));
  EXPECT_TRUE(refuses("for i in 8: C[i] = A[i]"));
}

}  // namespace
}  // namespace fettle
