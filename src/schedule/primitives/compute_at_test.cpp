#include "schedule/primitives/compute_at.h"

#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// A blur in two steps: T is needed with a border.
constexpr const char* kBlur = R"(
func blur(A: f32[20, 15], B: f32[18, 15] output):
  alloc T: f32[20, 15]
  for y in 20:
    for x in 15:
      block T(vy: spatial[20] = y, vx: spatial[15] = x):
        reads A[vy, vx]
        writes T[vy, vx]
        T[vy, vx] = A[vy, vx] * 3.0
  for h in 18:
    for w in 15:
      block B(vy: spatial[18] = h, vx: spatial[15] = w):
        reads T[vy +: 3, vx]
        writes B[vy, vx]
        B[vy, vx] = T[vy, vx] + T[vy + 1, vx] + T[vy + 2, vx]
)";

TEST(ComputeAt, MakesWhatOneTileNeeds) {
  auto s = schedule_from(kBlur);
  const BlockRef t = s.block("T");
  auto h = split(s, {s.loop("h"), {kInfer, 5}, Tail::kGuard});
  ASSERT_OK(compute_at(s, {t, (*h)[0]}));
  const auto loops = *get_loops(s, {t});
  ASSERT_EQ(loops.size(), 3u);
  EXPECT_TRUE(is_int(s.loop(loops[1])->as<ForNode>()->extent, 7));  // 5 rows and a border of 2
  EXPECT_TRUE(is_int(s.loop(loops[2])->as<ForNode>()->extent, 15));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ComputeAt, EveryTail) {
  for (Tail tail : {Tail::kGuard, Tail::kPartition, Tail::kBalance, Tail::kShift, Tail::kMask, Tail::kPad}) {
    auto s = schedule_from(kBlur);
    const BlockRef t = s.block("T");
    auto h = split(s, {s.loop("h"), {kInfer, 5}, tail});
    ASSERT_OK(h);
    auto w = split(s, {s.loop("w"), {kInfer, 4}, tail});
    ASSERT_OK(w);
    ASSERT_OK(reorder(s, {{(*h)[0], (*w)[0], (*h)[1], (*w)[1]}}));
    ASSERT_OK(compute_at(s, {t, (*w)[0]}));
    const auto made = *get_loops(s, {t});
    for (LoopRef loop : made) EXPECT_TRUE(as_int(s.loop(loop)->as<ForNode>()->extent));
    EXPECT_SAME_RESULT(s);
    EXPECT_REPLAYS(s);
  }
}

TEST(ComputeAt, AReductionAndUnitLoops) {
  auto s = schedule_from(R"(
func norm(A: f32[6, 5], B: f32[6, 5] output):
  alloc S: f32[6]
  for i in 6:
    for k in 5:
      block S(vi: spatial[6] = i, vk: reduce[5] = k):
        reads A[vi, vk]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + A[vi, vk]
  for y in 6:
    for x in 5:
      block B(vi: spatial[6] = y, vj: spatial[5] = x):
        reads A[vi, vj], S[vi]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] - S[vi]
)");
  const BlockRef sum = s.block("S");
  auto dropped = s;
  ASSERT_OK(compute_at(s, {sum, s.loop("y")}));
  EXPECT_EQ(get_loops(s, {sum})->size(), 3u);
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  ASSERT_OK(compute_at(dropped, {sum, dropped.loop("y"), false}));
  EXPECT_EQ(get_loops(dropped, {sum})->size(), 2u);
  EXPECT_GOLDEN(dropped.func());
  EXPECT_SAME_RESULT(dropped);
}

TEST(ComputeAt, Errors) {
  auto s = schedule_from(kBlur);
  const BlockRef t = s.block("T"), b = s.block("B");
  const LoopRef y = s.loop("y"), h = s.loop("h"), w = s.loop("w");
  EXPECT_ERROR(compute_at(s, {t, y}), E207);
  EXPECT_ERROR(compute_at(s, {b, y}), E213);
  EXPECT_ERROR(compute_at(s, {t, LoopRef(StepRef{99, 0})}), E225);
  auto consumed = s;
  ASSERT_OK(split(consumed, {h, {kInfer, 6}}));
  EXPECT_ERROR(compute_at(consumed, {t, h}), E206);
  ASSERT_OK(vectorize(s, {w}));
  EXPECT_ERROR(compute_at(s, {t, w}), E201);
  EXPECT_OK(compute_at(s, {t, h}));

  auto two = schedule_from(R"(
func two(A: f32[4], B: f32[4] output, C: f32[4] output):
  alloc T: f32[4]
  alloc U: f32[4]
  for i in 4:
    block T(vi: spatial[4] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi] + 1.0
  for j in 4:
    block B(vi: spatial[4] = j):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi] * 2.0
  for u in 4:
    block U(vi: spatial[4] = u):
      reads B[vi]
      writes U[vi]
      U[vi] = B[vi] * 2.0
  for l in 4:
    block C(vi: spatial[4] = l):
      reads T[vi], U[vi]
      writes C[vi]
      C[vi] = T[vi] - U[vi]
)");
  const BlockRef producer = two.block("T");
  EXPECT_ERROR(compute_at(two, {producer, two.loop("l")}), E215);  // B reads T, too
  EXPECT_ERROR(compute_at(two, {two.block("U"), two.loop("i")}), E215);

  auto halves = schedule_from(R"(
func halves(A: f32[4], B: f32[8] output):
  alloc T: f32[8]
  for i in 4:
    block low(vi: spatial[4] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for i in 4:
    block high(vi: spatial[4] = i):
      reads A[vi]
      writes T[vi + 4]
      T[vi + 4] = A[vi]
  for l in 8:
    block B(vi: spatial[8] = l):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi]
)");
  EXPECT_ERROR(compute_at(halves, {halves.block("low"), halves.loop("l")}), E211);

  auto places = schedule_from(R"(
func places(A: f32[4], B: f32[8] output):
  alloc T: f32[8]
  for i in 4:
    block T(vi: spatial[4] = i):
      reads A[vi]
      writes T[vi], T[vi + 4]
      T[vi] = A[vi]
      T[vi + 4] = A[vi] * 2.0
  for l in 8:
    block B(vi: spatial[8] = l):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi]
)");
  EXPECT_ERROR(compute_at(places, {places.block("T"), places.loop("l")}), E216);
}

// On its way to its reader the block would pass what overwrites its input.
TEST(ComputeAt, E215OverwrittenInBetween) {
  auto s = schedule_from(R"(
func f(A: f32[5], D: f32[5] output, B: f32[5] output):
  alloc C: f32[5]
  for i in 5:
    block B(vi: spatial[5] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for i in 5:
    block C(vi: spatial[5] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi] + 1.0
  for i in 5:
    block again(vi: spatial[5] = i):
      reads B[vi]
      writes B[vi]
      B[vi] = B[vi] * 2.0
  for i in 5:
    block D(vi: spatial[5] = i):
      reads C[vi]
      writes D[vi]
      D[vi] = C[vi] + 3.0
)");
  const auto loops = get_loops(s, {s.block("D")});
  EXPECT_ERROR(compute_at(s, {s.block("C"), (*loops)[0]}), E215);
}

// What overwrites the input behind both places of the block does so as before. From outside of the loop in which that
// happens the block may not come.
TEST(ComputeAt, OverwrittenBehindBothPlaces) {
  const auto program = [](const char* around_copy, const char* in_steps) {
    return fmt::format(R"(
func f(X: f32[6], A: f32[6] output):
  alloc B: f32[6]
  alloc C: f32[6]
  for x in 6:
    block copy(vx: spatial[6] = x):
      reads X[vx]
      writes A[vx]
      A[vx] = X[vx]
{}  for t in 3:
{}    for i in 6:
      block B(vt: scan[3] = t, vi: spatial[6] = i):
        reads C[vi]
        writes B[vi]
        B[vi] = C[vi] * 2.0
    for j in 6:
      block A(vt: scan[3] = t, vj: spatial[6] = j):
        reads B[5 - vj]
        writes A[vj]
        A[vj] = B[5 - vj] + 1.0
)",
                       around_copy, in_steps);
  };
  auto s = schedule_from(program("", R"(    for c in 6:
      block C(vc: spatial[6] = c):
        reads A[vc]
        writes C[vc]
        C[vc] = A[vc]
)"));
  ASSERT_OK(compute_at(s, {s.block("C"), s.loop("i")}));
  EXPECT_SAME_RESULT(s);
  auto outside = schedule_from(program(R"(  for c in 6:
    block C(vc: spatial[6] = c):
      reads A[vc]
      writes C[vc]
      C[vc] = A[vc]
)",
                                       ""));
  EXPECT_ERROR(compute_at(outside, {outside.block("C"), outside.loop("i")}), E215);
}

}  // namespace
}  // namespace fettle
