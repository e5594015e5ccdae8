#include "schedule/primitives/decompose_padding.h"

#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kPad = R"(
func pad(A: f32[3, 6, 5], P: f32[3, 9, 7] output):
  for c in 3:
    for h in 9:
      for w in 7:
        block P(vc: spatial[3] = c, vh: spatial[9] = h, vw: spatial[7] = w):
          reads A[vc, vh - 1, vw - 1]
          writes P[vc, vh, vw]
          P[vc, vh, vw] = select(1 <= vh && vh < 7 && 0 < vw && vw - 1 < 5, A[vc, vh - 1, vw - 1], 2.0)
)";

TEST(DecomposePadding, CutsTheLoops) {
  auto s = schedule_from(kPad);
  auto fill = decompose_padding(s, {s.block("P"), s.loop("c")});
  ASSERT_OK(fill);
  EXPECT_EQ(s.block(*fill)->as<BlockNode>()->name, "P_fill");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposePadding, BelowALoop) {
  auto s = schedule_from(kPad);
  ASSERT_OK(decompose_padding(s, {s.block("P"), s.loop("w")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposePadding, OfASplitLoop) {
  auto s = schedule_from(kPad);
  ASSERT_OK(split(s, {s.loop("h"), {kInfer, 4}, Tail::kGuard}));
  ASSERT_OK(decompose_padding(s, {s.block("P"), s.loop("c")}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposePadding, Errors) {
  auto s = schedule_from(kPad);
  const BlockRef p = s.block("P");
  EXPECT_ERROR(decompose_padding(s, {p, LoopRef(StepRef{99, 0})}), E225);
  auto other = schedule_from(R"(
func other(A: f32[6], B: f32[6] output, C: f32[6] output, D: f32[6] output):
  for i in 6:
    block B(vi: spatial[6] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] + 1.0
  for x in 6:
    block C(vi: spatial[6] = x):
      reads A[vi]
      writes C[vi]
      C[vi] = select(vi % 2 == 0, A[vi], 0.0)
  for y in 6:
    block D(vi: spatial[6] = y):
      reads A[vi]
      writes D[vi]
      D[vi] = select(vi < 3, A[vi], A[vi] * 2.0)
)");
  EXPECT_ERROR(decompose_padding(other, {other.block("B"), other.loop("i")}), E226);
  EXPECT_ERROR(decompose_padding(other, {other.block("C"), other.loop("x")}), E226);
  EXPECT_ERROR(decompose_padding(other, {other.block("D"), other.loop("y")}), E226);
  EXPECT_ERROR(decompose_padding(other, {other.block("D"), other.loop("i")}), E207);
  const LoopRef c = s.loop("c");
  auto consumed = s;
  ASSERT_OK(split(consumed, {c, {kInfer, 3}}));
  EXPECT_ERROR(decompose_padding(consumed, {p, c}), E206);
  ASSERT_OK(decompose_padding(s, {p, c}));
  EXPECT_ERROR(decompose_padding(s, {p, get_loops(s, {p})->front()}), E211);
}

}  // namespace
}  // namespace fettle
