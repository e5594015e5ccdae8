#include "schedule/primitives/reorder.h"

#include "schedule/primitives/fuse.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::running_sum;
using testing::schedule_from;

const std::string kMatmul = testing::matmul_program(6, 9, 7);

std::string nest_of(const Func& func) {
  std::string names;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) names += (names.empty() ? "" : " ") + loop->var->name;
    return true;
  });
  return names;
}

TEST(Reorder, KeepsPlacesOfOthers) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(reorder(s, {{s.loop("k"), s.loop("i")}}));
  EXPECT_EQ(nest_of(s.func()), "k j i");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reorder, TiledNest) {
  auto s = schedule_from(kMatmul);
  auto i = split(s, {s.loop("i"), {kInfer, 4}, Tail::kGuard});
  auto j = split(s, {s.loop("j"), {kInfer, 4}, Tail::kPartition});
  ASSERT_OK(i);
  ASSERT_OK(j);
  ASSERT_OK(reorder(s, {{(*i)[0], (*j)[0], s.loop("k"), (*i)[1], (*j)[1]}}));
  EXPECT_EQ(nest_of(s.func()), "i_0 j_0 k i_1 j_1");
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reorder, OrderAsItIsChangesNothing) {
  auto s = schedule_from(kMatmul);
  const Func before = s.func();
  ASSERT_OK(reorder(s, {{s.loop("i"), s.loop("k")}}));
  EXPECT_EQ(s.func(), before);
}

TEST(Reorder, E207NotOnOnePath) {
  auto s = schedule_from("for i in 4: B[i] = A[i]\nfor j in 4: C[j] = B[j]");
  EXPECT_ERROR(reorder(s, {{s.loop("i"), s.loop("j")}}), E207);
  EXPECT_ERROR(reorder(s, {{s.loop("i"), s.loop("i")}}), E207);
  EXPECT_ERROR(reorder(s, {{}}), E207);
}

TEST(Reorder, E206NoSuchLoop) {
  auto s = schedule_from(kMatmul);
  const LoopRef i = s.loop("i"), j = s.loop("j");
  ASSERT_OK(split(s, {i, {2, 3}}));
  EXPECT_ERROR(reorder(s, {{j, i}}), E206);
}

TEST(Reorder, E208BoundsWouldMoveOutside) {
  auto s = schedule_from(testing::kTriangle);
  EXPECT_ERROR(reorder(s, {{s.loop("j"), s.loop("i")}}), E208);
}

TEST(Reorder, AScanWhosePointsGoTheirOwnWay) {
  auto s = schedule_from(running_sum("vj"));
  ASSERT_OK(reorder(s, {{s.loop("j"), s.loop("t")}}));
  EXPECT_EQ(get_loops(s, {s.block("B")})->size(), 2u);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reorder, E210AScanThatReadsOtherPoints) {
  auto s = schedule_from(running_sum("3 - vj"));
  EXPECT_ERROR(reorder(s, {{s.loop("j"), s.loop("t")}}), E210);
}

TEST(Reorder, E210StepsOfAScan) {
  auto s = schedule_from(running_sum("vj"));
  auto steps = split(s, {s.loop("t"), {2, 4}});
  ASSERT_OK(steps);
  EXPECT_ERROR(reorder(s, {{(*steps)[1], (*steps)[0]}}), E210);
}

// T is made and read under both loops.
const char* two_blocks(const char* read) {
  static std::string text;
  text = std::string(R"(
func two(A: f32[4, 6], B: f32[4, 6] output):
  alloc T: f32[5, 6]
  for i in 4:
    for j in 6:
      block T(vi: spatial[5] = i, vj: spatial[6] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
      block B(vi: spatial[4] = i, vj: spatial[6] = j):
        reads )") +
         read + "\n        writes B[vi, vj]\n        B[vi, vj] = " + read + " + 1.0\n";
  return text.c_str();
}

// A tile's loop moves its points, though no iterator is bound to it.
TEST(Reorder, E210StepsWithinATile) {
  auto s = schedule_from(R"(func f(A: f32[9, 9] output):
  for i in 6:
    for c0 in 3:
      for c1 in c0 * 2 +: 2:
        block S(vi: scan[6] = i, vj: scan[6] = c1):
          reads A[vj, vi + 2]
          writes A[vi + 2, vj]
          A[vi + 2, vj] = A[vj, vi + 2] * 2.0
)");
  EXPECT_ERROR(reorder(s, {{s.loop("c0"), s.loop("i")}}), E210);
}

TEST(Reorder, SeveralBlocksThatMeetInEachIteration) {
  auto s = schedule_from(two_blocks("T[vi, vj]"));
  ASSERT_OK(reorder(s, {{s.loop("j"), s.loop("i")}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reorder, E210OneBlockNeedsAnotherIteration) {
  auto before = schedule_from(two_blocks("T[max(vi - 1, 0), min(vj + 1, 5)]"));
  EXPECT_ERROR(reorder(before, {{before.loop("j"), before.loop("i")}}), E210);

  // The sum over k is complete only when all of k are through.
  auto partial = schedule_from(R"(
func partial(A: f32[4, 6], C: f32[4] output, P: f32[4, 6] output):
  for i in 4:
    for k in 6:
      block C(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
      block P(vi: spatial[4] = i, vk: spatial[6] = k):
        reads C[vi]
        writes P[vi, vk]
        P[vi, vk] = C[vi]
)");
  EXPECT_ERROR(reorder(partial, {{partial.loop("k"), partial.loop("i")}}), E210);

  // U reads T before this iteration overwrites it.
  auto overwritten = schedule_from(R"(
func overwritten(T: f32[4, 6], A: f32[4, 6], U: f32[4, 6] output):
  alloc W: f32[6]
  for i in 4:
    for j in 6:
      block U(vi: spatial[4] = i, vj: spatial[6] = j):
        reads W[vj]
        writes U[vi, vj]
        U[vi, vj] = select(vi < 1, 0.0, W[vj])
      block W(vi: scan[4] = i, vj: spatial[6] = 5 - j):
        reads A[vi, vj]
        writes W[vj]
        W[vj] = A[vi, vj]
)");
  EXPECT_ERROR(reorder(overwritten, {{overwritten.loop("j"), overwritten.loop("i")}}), E210);
}

// With rows and terms in one loop the order says which term comes first, beside the init.
TEST(Reorder, E210AReductionAlongItsOutput) {
  const char* const text = R"(
func sums(A: f32[2, 7, 7], B: f32[2, 7] output):
  for i in 2:
    for k in 7:
      for j in 7:
        block B(vi: spatial[2] = i, vk: reduce[7] = k, vj: spatial[7] = j):
          reads A[vi, vk, vj]
          writes B[vi, vj]
          init:
            B[vi, vj] = 0.0
          B[vi, vj] = B[vi, vj] + A[vi, vk, vj]
)";
  auto s = schedule_from(text);
  const auto fused = fuse(s, {{s.loop("i"), s.loop("k"), s.loop("j")}});
  ASSERT_OK(fused);
  const auto parts = split(s, {*fused, {49, 2}});
  ASSERT_OK(parts);
  EXPECT_ERROR(reorder(s, {{(*parts)[1], (*parts)[0]}}), E210);

  auto apart = schedule_from(text);
  const auto rows = fuse(apart, {{apart.loop("i"), apart.loop("k")}});  // j is a loop of its own
  ASSERT_OK(rows);
  ASSERT_OK(reorder(apart, {{apart.loop("j"), *rows}}));
  EXPECT_SAME_RESULT(apart);
}

// Each j begins the sum anew: not so with j inside of k.
TEST(Reorder, E210AReductionThatRunsAgain) {
  auto s = schedule_from(R"(
func again(A: f32[5, 4], B: f32[5] output):
  for i in 5:
    for j in 3:
      for k in 4:
        block B(vi: spatial[5] = i, vk: reduce[4] = k):
          reads A[vi, vk]
          writes B[vi]
          init:
            B[vi] = 0.0
          B[vi] = B[vi] + A[vi, vk]
)");
  EXPECT_ERROR(reorder(s, {{s.loop("k"), s.loop("j")}}), E210);
  ASSERT_OK(reorder(s, {{s.loop("j"), s.loop("i")}}));
  EXPECT_SAME_RESULT(s);
}

// Two neighbours make an element of B each: not so with both inside of k.
TEST(Reorder, E210AReductionThatNeighboursRunAgain) {
  auto s = schedule_from(R"(
func again(A: f32[6, 4], B: f32[6] output):
  for i in 5:
    for x in 2:
      for k in 4:
        block B(vi: spatial[6] = i + x, vk: reduce[4] = k):
          reads A[vi, vk]
          writes B[vi]
          init:
            B[vi] = 0.0
          B[vi] = B[vi] + A[vi, vk]
)");
  const LoopRef i = s.loop("i"), x = s.loop("x"), k = s.loop("k");
  EXPECT_ERROR(reorder(s, {{k, i, x}}), E210);
  EXPECT_ERROR(reorder(s, {{k, i}}), E210);
  auto parts = s;  // what stays in its place counts, too
  ASSERT_OK(split(parts, {x, {kInfer, 2}}));
  ASSERT_OK(reorder(parts, {{parts.loop("x_0"), k, parts.loop("x_1")}}));
  EXPECT_ERROR(reorder(parts, {{k, i}}), E210);
  auto inner = s;
  ASSERT_OK(reorder(inner, {{k, x}}));  // each of the two once
  EXPECT_SAME_RESULT(inner);
  ASSERT_OK(reorder(s, {{x, k, i}}));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
