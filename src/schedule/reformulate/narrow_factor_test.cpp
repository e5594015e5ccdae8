#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::string product(const std::string& left, const std::string& right, const std::string& type = "f16") {
  return "func product(P: f32[3, 5], V: " + type + R"([5, 4], O: f32[3, 4] output):
  for i in 3:
    for j in 4:
      for k in 5:
        block O(vi: spatial[3] = i, vj: spatial[4] = j, vk: reduce[5] = k):
          reads P[vi, vk], V[vk, vj]
          writes O[vi, vj]
          init:
            O[vi, vj] = 0.0
          O[vi, vj] = O[vi, vj] + )" +
         left + " * " + right + "\n";
}

TEST(NarrowFactor, RoundsTheWiderFactor) {
  for (const bool swapped : {false, true}) {
    const std::string p = "P[vi, vk]", v = "f32(V[vk, vj])";
    auto s = schedule_from(swapped ? product(v, p) : product(p, v));
    const auto blocks = reformulate(s, {s.block("O"), "narrow_factor", {}});
    ASSERT_OK(blocks);
    ASSERT_OK(check_well_formed(s.func()));
    EXPECT_NE(to_text(s.func()).find("O_factor[vi, vk] = f16(P[vi, vk])"), std::string::npos) << to_text(s.func());
    EXPECT_EQ(numerics_of(s.func()), Numerics::kApproximate);
    EXPECT_EQ(error_bound_of(s.func()), 4096);
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);  // small integers are halves
  }
}

TEST(NarrowFactor, TheBoundIsThatOfTheType) {
  auto s = schedule_from(product("P[vi, vk]", "f32(V[vk, vj])", "bf16"));
  ASSERT_OK(reformulate(s, {s.block("O"), "narrow_factor", {}}));
  EXPECT_EQ(error_bound_of(s.func()), 32768);
}

TEST(NarrowFactor, LeavesOtherProducts) {
  auto wide = schedule_from(product("P[vi, vk]", "V[vk, vj]", "f32"));
  EXPECT_ERROR(reformulate(wide, {wide.block("O"), "narrow_factor", {}}), E228);
  auto s = schedule_from(product("P[vi, vk]", "f32(V[vk, vj])"));
  EXPECT_ERROR(reformulate(s, {s.block("O"), "narrow_factor", {1}}), E228);
}

}  // namespace
}  // namespace fettle
