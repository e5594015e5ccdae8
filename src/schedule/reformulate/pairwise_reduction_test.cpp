#include <fmt/format.h>

#include "schedule/primitives/reformulate.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::string row_sums(int64_t terms, const std::string& init = "0.0",
                     const std::string& update = "S[vi] + A[vi, vk] * 2.0") {
  return fmt::format(R"(
func sums(A: f32[3, {0}], S: f32[3] output):
  for i in 3:
    for k in {0}:
      block S(vi: spatial[3] = i, vk: reduce[{0}] = k):
        reads A[vi, vk]
        writes S[vi]
        init:
          S[vi] = {1}
        S[vi] = {2}
)",
                     terms, init, update);
}

TEST(PairwiseReduction, HalvesUntilOneIsLeft) {
  auto s = schedule_from(row_sums(8));
  const auto blocks = reformulate(s, {s.block("S"), "pairwise_reduction", {}});
  ASSERT_OK(blocks);
  EXPECT_EQ(blocks->size(), 3u);
  EXPECT_GOLDEN(s.func());
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(PairwiseReduction, EveryPowerOfTwo) {
  for (int64_t terms : {2, 4, 16, 64}) {
    auto s = schedule_from(row_sums(terms));
    ASSERT_OK(reformulate(s, {s.block("S"), "pairwise_reduction", {}}));
    EXPECT_OK(check_well_formed(s.func()));
    EXPECT_SAME_RESULT(s);
  }
}

TEST(PairwiseReduction, MaximumOfAllRows) {
  auto s = schedule_from(row_sums(4, "-inf", "max(A[vi, vk], S[vi])"));
  ASSERT_OK(reformulate(s, {s.block("S"), "pairwise_reduction", {}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(PairwiseReduction, E228WhereThePatternDoesNotFit) {
  const auto refuses = [](const std::string& text, const std::vector<IntRef>& numbers = {}) {
    auto s = schedule_from(text);
    return testing::fails_with(reformulate(s, {s.block("S"), "pairwise_reduction", numbers}), ErrorCode::E228);
  };
  EXPECT_TRUE(refuses(row_sums(8), {2}));
  EXPECT_TRUE(refuses(row_sums(12)));
  EXPECT_TRUE(refuses(row_sums(1)));
  EXPECT_TRUE(refuses(row_sums(8, "1.0")));
  EXPECT_TRUE(refuses(row_sums(8, "0.0", "A[vi, vk]")));
}

}  // namespace
}  // namespace fettle
