#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::string product(const std::string& left, const std::string& right,
                    const std::string& reads = "A[vi, vk], B[vk, vj], S[vj]") {
  return R"(func product(A: f16[3, 5], B: f16[5, 4], S: f32[4], O: f32[3, 4] output):
  for i in 3:
    for j in 4:
      for k in 5:
        block O(vi: spatial[3] = i, vj: spatial[4] = j, vk: reduce[5] = k):
          reads )" +
         reads + R"(
          writes O[vi, vj]
          init:
            O[vi, vj] = 0.0
          O[vi, vj] = O[vi, vj] + )" +
         left + " * " + right + "\n";
}

TEST(MaterializeFactors, WorksOutEachElementOnce) {
  const std::string a = "f32(A[vi, vk])", b = "(f32(B[vk, vj]) * S[vj])";
  for (const std::vector<IntRef>& numbers : {std::vector<IntRef>{0}, {1}, {0, 1}}) {
    auto s = schedule_from(product(a, b));
    const auto blocks = reformulate(s, {s.block("O"), "materialize_factors", numbers});
    ASSERT_OK(blocks);
    EXPECT_EQ(blocks->size(), numbers.size() + 1);
    ASSERT_OK(check_well_formed(s.func()));
    EXPECT_EQ(numerics_of(s.func()), Numerics::kExact);
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
  auto s = schedule_from(product(a, b));
  ASSERT_OK(reformulate(s, {s.block("O"), "materialize_factors", {0, 1}}));
  const std::string text = to_text(s.func());
  EXPECT_NE(text.find("O_factor[vi, vk] = f32(A[vi, vk])"), std::string::npos) << text;
  EXPECT_NE(text.find("O_factor_1[vk, vj] = f32(B[vk, vj]) * S[vj]"), std::string::npos) << text;
  EXPECT_NE(text.find("O[vi, vj] + O_factor[vi, vk] * O_factor_1[vk, vj]"), std::string::npos) << text;
}

TEST(MaterializeFactors, LeavesOtherFactors) {
  auto s = schedule_from(product("S[vj]", "f32(B[vk, vj])", "B[vk, vj], S[vj]"));
  EXPECT_ERROR(reformulate(s, {s.block("O"), "materialize_factors", {0}}), E228);
  EXPECT_ERROR(reformulate(s, {s.block("O"), "materialize_factors", {1, 0}}), E228);
  EXPECT_ERROR(reformulate(s, {s.block("O"), "materialize_factors", {2}}), E228);
  EXPECT_ERROR(reformulate(s, {s.block("O"), "materialize_factors", {}}), E228);
  ASSERT_OK(reformulate(s, {s.block("O"), "materialize_factors", {1}}));
}

}  // namespace
}  // namespace fettle
