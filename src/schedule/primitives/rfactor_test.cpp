#include "schedule/primitives/rfactor.h"

#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kRows = "for i in 6: for k in 24: C[i] += A[i, k] * B[k]";

TEST(Rfactor, OuterPartsInParallel) {
  auto s = schedule_from(kRows);
  auto k = split(s, {s.loop("k"), {4, 6}});
  ASSERT_OK(k);
  const BlockRef c = s.block("C");
  auto partial = rfactor(s, {c, (*k)[0], 0});
  ASSERT_OK(partial);
  EXPECT_GOLDEN(s.func());
  ASSERT_OK(reorder(s, {{(*k)[0], s.loop("i")}}));
  ASSERT_OK(parallel(s, {(*k)[0]}));
  auto final_loops = get_loops(s, {c});
  ASSERT_EQ(final_loops->size(), 2u);
  ASSERT_OK(decompose_reduction(s, {c, final_loops->back()}));
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Rfactor, InnerPartsAreLanes) {
  auto s = schedule_from(kRows);
  auto k = split(s, {s.loop("k"), {3, 8}});
  ASSERT_OK(k);
  ASSERT_OK(rfactor(s, {s.block("C"), (*k)[1], -1}));
  ASSERT_OK(vectorize(s, {(*k)[1]}));
  EXPECT_TRUE(is_int(find_block(s.func()->body, "C_rf")->writes[0].buffer->shape[1], 8));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Rfactor, WholeReductionLeavesNoInit) {
  auto s = schedule_from(kRows);
  ASSERT_OK(rfactor(s, {s.block("C"), s.loop("k"), 1}));
  EXPECT_FALSE(find_block(s.func()->body, "C_rf")->init);
  EXPECT_SAME_RESULT(s);
}

TEST(Rfactor, GuardedTail) {
  for (int part : {0, 1}) {
    auto s = schedule_from("for i in 6: for k in 23: C[i] max= A[i, k]");
    auto k = split(s, {s.loop("k"), {kInfer, 5}, Tail::kGuard});
    ASSERT_OK(k);
    auto i = split(s, {s.loop("i"), {kInfer, 4}, Tail::kGuard});
    ASSERT_OK(i);
    ASSERT_OK(rfactor(s, {s.block("C"), (*k)[static_cast<size_t>(part)], 0}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
}

TEST(Rfactor, TwoReductionLoops) {
  auto s = schedule_from("for i in 3: for r in 4: for q in 5: C[i] += A[i, r, q]");
  ASSERT_OK(rfactor(s, {s.block("C"), s.loop("r"), 1}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Rfactor, Errors) {
  auto s = schedule_from(kRows);
  const BlockRef c = s.block("C");
  const LoopRef i = s.loop("i"), k = s.loop("k");
  EXPECT_ERROR(rfactor(s, {c, i, 0}), E212);
  EXPECT_ERROR(rfactor(s, {c, k, 2}), E220);
  EXPECT_ERROR(rfactor(s, {c, k, -3}), E220);
  ASSERT_OK(split(s, {k, {4, 6}}));
  EXPECT_ERROR(rfactor(s, {c, k, 0}), E206);

  auto other = schedule_from(R"(
func other(A: f32[4, 6], B: f32[4] output, C: f32[4] output, n: i64 in 1..6):
  for i in 4:
    for k in 6:
      block B(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 1.0
        B[vi] = B[vi] + A[vi, vk]
  for i in 4:
    for k in n:
      block C(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
)");
  const BlockRef b = other.block("B"), d = other.block("C");
  const auto of_b = get_loops(other, {b}), of_c = get_loops(other, {d});
  EXPECT_ERROR(rfactor(other, {b, (*of_b)[1], 0}), E212);  // the init is not neutral
  EXPECT_ERROR(rfactor(other, {d, (*of_b)[1], 0}), E207);
  EXPECT_ERROR(rfactor(other, {d, (*of_c)[1], 0}), E221);

  auto unrolled = schedule_from(R"(
func kinds(A: f32[4, 6], C: f32[4] output):
  for i in 4:
    for k in 6 unrolled:
      block C(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
)");
  EXPECT_ERROR(rfactor(unrolled, {unrolled.block("C"), unrolled.loop("k"), 0}), E201);

  // The last parts are empty where k0 runs to 4: their inits would not run.
  auto skipped = schedule_from(R"(
func skipped(A: f32[4, 6], C: f32[4] output):
  for i in 4:
    for k0 in 4:
      for k1 in 3:
        block C(vi: spatial[4] = i, vk: reduce[6] = k0 * 3 + k1) where k0 * 3 + k1 < 6:
          reads A[vi, vk]
          writes C[vi]
          init:
            C[vi] = 0.0
          C[vi] = C[vi] + A[vi, vk]
)");
  EXPECT_ERROR(rfactor(skipped, {skipped.block("C"), skipped.loop("k0"), 0}), E227);
}

}  // namespace
}  // namespace fettle
