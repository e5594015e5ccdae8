#include "ir/annotations.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::replaced;
using testing::schedule_from;

constexpr const char* kScaled = R"(
func scaled(A: f32[3, 5], T: f32[3], B: f32[3, 5] output):
  for i in 3:
    for j in 5:
      block B(vi: spatial[3] = i, vj: spatial[5] = j):
        reads A[vi, vj], T[vi]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] / (T[vi] * T[vi] + 2.0) + 1.0
)";

TEST(SharedReciprocal, DividesOnceARow) {
  auto s = schedule_from(kScaled);
  const auto blocks = reformulate(s, {s.block("B"), "shared_reciprocal", {}});
  ASSERT_OK(blocks);
  EXPECT_EQ(blocks->size(), 2u);
  EXPECT_GOLDEN(s.func());
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
}

// Where the divisor is a power of two, nothing is rounded.
TEST(SharedReciprocal, KeepsTheMeaning) {
  auto s = schedule_from(replaced(kScaled, "(T[vi] * T[vi] + 2.0)", "max(min(T[vi], 2.0), 2.0)"));
  ASSERT_OK(reformulate(s, {s.block("B"), "shared_reciprocal", {}}));
  EXPECT_SAME_RESULT(s);
}

TEST(SharedReciprocal, EveryDivisionByTheSameNumber) {
  auto s = schedule_from(replaced(kScaled, "+ 1.0", "- 4.0 / (T[vi] * T[vi] + 2.0)"));
  ASSERT_OK(reformulate(s, {s.block("B"), "shared_reciprocal", {}}));
  EXPECT_GOLDEN(s.func());
}

TEST(SharedReciprocal, StatesItsBound) {
  auto s = schedule_from(kScaled);
  ASSERT_OK(reformulate(s, {s.block("B"), "shared_reciprocal", {}}));
  const Attribute* bound = s.func()->annotations.find(kErrorBoundKey);
  ASSERT_NE(bound, nullptr);
  EXPECT_EQ(std::get<double>(*bound), 1.5);
}

TEST(SharedReciprocal, E228WhereThePatternDoesNotFit) {
  const auto refuses = [](const std::string& text, const std::vector<IntRef>& numbers = {}) {
    auto s = schedule_from(text);
    return testing::fails_with(reformulate(s, {s.block("B"), "shared_reciprocal", numbers}), ErrorCode::E228);
  };
  EXPECT_TRUE(refuses(kScaled, {1}));
  EXPECT_TRUE(refuses(replaced(kScaled, "A[vi, vj] / (T[vi] * T[vi] + 2.0)", "A[vi, vj] * T[vi]")));
  EXPECT_TRUE(refuses(replaced(kScaled, "A[vi, vj] / (T[vi] * T[vi] + 2.0)", "T[vi] / A[vi, vj]")));
  EXPECT_TRUE(refuses(replaced(kScaled, "A[vi, vj] / (T[vi] * T[vi] + 2.0)", "A[vi, vj] * T[vi] / 3.0")));
}

}  // namespace
}  // namespace fettle
