#include "schedule/primitives/unroll.h"

#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kRowSum = R"(
func row_sum(A: f32[6, n], B: f32[6] output, n: i64 in 1..9):
  for i in 6:
    for k in n:
      block B(vi: spatial[6] = i, vk: reduce[n] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)";

TEST(Unroll, AnyConstantLoop) {
  auto s = schedule_from(kRowSum);
  auto loops = split(s, {s.loop("k"), {kInfer, 2}, Tail::kGuard});
  ASSERT_OK(loops);
  ASSERT_OK(unroll(s, {(*loops)[1]}));
  ASSERT_OK(unroll(s, {s.loop("i")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Unroll, E201Twice) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(unroll(s, {s.loop("i")}));
  EXPECT_ERROR(unroll(s, {s.loop("i")}), E201);
}

TEST(Unroll, E206ConsumedLoop) {
  auto s = schedule_from(kRowSum);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {2, 3}}));
  EXPECT_ERROR(unroll(s, {i}), E206);
}

TEST(Unroll, E221ExtentNotConstant) {
  auto s = schedule_from(kRowSum);
  EXPECT_ERROR(unroll(s, {s.loop("k")}), E221);
}

}  // namespace
}  // namespace fettle
