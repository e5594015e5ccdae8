#include "schedule/primitives/tile.h"

#include "schedule/primitives/parallel.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::running_sum;
using testing::schedule_from;

constexpr const char* kMatmul = "for i in 12: for j in 10: for k in 8: C[i, j] += A[i, k] * B[k, j]";

TEST(Tile, CutsTwoLoops) {
  auto s = schedule_from(kMatmul);
  auto loops = tile(s, {{s.loop("i"), s.loop("j")}, {4, 5}});
  ASSERT_OK(loops);
  ASSERT_EQ(loops->size(), 4u);
  EXPECT_EQ(s.loop_var((*loops)[0]).value()->name, "i_0");
  EXPECT_EQ(s.loop_var((*loops)[3]).value()->name, "j_1");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Tile, TailsAreThoseOfSplit) {
  for (Tail tail : {Tail::kGuard, Tail::kPartition, Tail::kBalance, Tail::kPad}) {
    auto s = schedule_from(kMatmul);
    ASSERT_OK(tile(s, {{s.loop("i"), s.loop("j"), s.loop("k")}, {5, 7, 3}, tail}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
}

TEST(Tile, OneLoop) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(tile(s, {{s.loop("k")}, {4}}));
  EXPECT_SAME_RESULT(s);
}

TEST(Tile, Errors) {
  auto s = schedule_from(kMatmul);
  const LoopRef i = s.loop("i"), j = s.loop("j"), k = s.loop("k");
  EXPECT_ERROR(tile(s, {{i, j}, {4}}), E202);
  EXPECT_ERROR(tile(s, {{}, {}}), E202);
  EXPECT_ERROR(tile(s, {{i, j}, {4, 0}}), E202);
  EXPECT_ERROR(tile(s, {{i, j}, {5, 5}}), E205);
  EXPECT_ERROR(tile(s, {{i}, {64}, Tail::kShift}), E231);
  ASSERT_OK(tile(s, {{i, j}, {4, 5}}));
  EXPECT_ERROR(tile(s, {{i}, {2}}), E206);
  ASSERT_OK(parallel(s, {s.loop("i_0")}));
  EXPECT_ERROR(tile(s, {{s.loop("i_0"), k}, {1, 2}}), E201);
}

TEST(Tile, OtherErrorsOfTheNest) {
  auto apart = schedule_from(R"(
func apart(A: f32[8], B: f32[8] output, C: f32[8] output):
  for i in 8:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for j in 8:
    block C(vj: spatial[8] = j):
      reads A[vj]
      writes C[vj]
      C[vj] = A[vj]
)");
  EXPECT_ERROR(tile(apart, {{apart.loop("i"), apart.loop("j")}, {2, 2}}), E207);

  auto triangle = schedule_from(testing::kTriangle);
  EXPECT_ERROR(tile(triangle, {{triangle.loop("j"), triangle.loop("i")}, {2, 2}, Tail::kGuard}), E208);

  // Each step reads another point of the step before, which may lie in another tile.
  auto scan = schedule_from(running_sum("3 - vj"));
  EXPECT_ERROR(tile(scan, {{scan.loop("t"), scan.loop("j")}, {2, 2}}), E210);
}

TEST(Tile, AScanWhosePointsGoTheirOwnWay) {
  auto s = schedule_from(running_sum("vj"));
  ASSERT_OK(tile(s, {{s.loop("t"), s.loop("j")}, {2, 2}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
