#include "schedule/primitives/rolling_buffer.h"

#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tile.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

// C = a 3 x 1 stencil of P = 2 A, its rows in tiles of four; D = C + 1.
constexpr const char* kStencil = R"(
func stencil(A: f32[18, 12], D: f32[16, 12] output):
  alloc P: f32[18, 12]
  alloc C: f32[16, 12]
  for h in 18:
    for w in 12:
      block P(vh: spatial[18] = h, vw: spatial[12] = w):
        reads A[vh, vw]
        writes P[vh, vw]
        P[vh, vw] = A[vh, vw] * 2.0
  for y in 16:
    for x in 12:
      for r in 3:
        block C(vy: spatial[16] = y, vx: spatial[12] = x, vr: reduce[3] = r):
          reads P[vy + vr, vx]
          writes C[vy, vx]
          init:
            C[vy, vx] = 0.0
          C[vy, vx] = C[vy, vx] + P[vy + vr, vx]
  for i in 16:
    for j in 12:
      block D(vi: spatial[16] = i, vj: spatial[12] = j):
        reads C[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = C[vi, vj] + 1.0
)";

// The producer under the loop over tiles of rows, which it returns.
LoopRef tiled(TestSchedule& s, int64_t rows = 4) {
  const auto y = split(s, {s.loop("y"), {kInfer, rows}});
  EXPECT_OK(y);
  EXPECT_OK(compute_at(s, {s.block("P"), (*y)[0]}));
  return (*y)[0];
}

// How often the block runs: what its predicate lets pass.
int64_t runs(const Func& func, const std::string& name) {
  const BlockNode* block = find_block(func->body, name);
  const std::vector<const ForNode*> loops = loops_around(func, block);
  std::vector<int64_t> extents;
  for (const ForNode* loop : loops) extents.push_back(*as_int(loop->extent));
  int64_t count = 0;
  testing::for_each_index(extents, [&](const std::vector<int64_t>& at) {
    testing::Env env;
    for (size_t k = 0; k < loops.size(); ++k) env.push(loops[k]->var.get(), at[k]);
    count += !block->predicate || testing::eval_int(block->predicate, env) ? 1 : 0;
  });
  return count;
}

TEST(RollingBuffer, ComputesOnlyNewRows) {
  auto s = schedule_from(kStencil);
  tiled(s);
  EXPECT_EQ(runs(s.func(), "P"), 4 * 6 * 12);
  ASSERT_OK(rolling_buffer(s, {s.block("P")}));
  EXPECT_EQ(runs(s.func(), "P"), 18 * 12);  // each once
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(RollingBuffer, RowByRow) {
  auto s = schedule_from(kStencil);
  ASSERT_OK(compute_at(s, {s.block("P"), s.loop("y")}));
  ASSERT_OK(rolling_buffer(s, {s.block("P")}));
  EXPECT_EQ(runs(s.func(), "P"), 18 * 12);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// Tiles of rows and columns: rolls along the rows; the columns of all tiles stay.
TEST(RollingBuffer, TilesOfTwoDimensions) {
  auto s = schedule_from(kStencil);
  const auto tiles = tile(s, {{s.loop("y"), s.loop("x")}, {4, 6}});
  ASSERT_OK(tiles);
  ASSERT_OK(compute_at(s, {s.block("P"), (*tiles)[1]}));
  ASSERT_OK(rolling_buffer(s, {s.block("P")}));
  EXPECT_EQ(runs(s.func(), "P"), 18 * 12);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(RollingBuffer, ATailOfTheTiles) {
  auto s = schedule_from(kStencil);
  const auto y = split(s, {s.loop("y"), {kInfer, 5}, Tail::kGuard});
  ASSERT_OK(y);
  ASSERT_OK(compute_at(s, {s.block("P"), (*y)[0]}));
  ASSERT_OK(rolling_buffer(s, {s.block("P")}));
  EXPECT_EQ(runs(s.func(), "P"), 18 * 12);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// Two stencils in a row, both rolling along one loop.
TEST(RollingBuffer, TwoBuffersAlongOneLoop) {
  auto s = schedule_from(R"(
func chain(A: f32[20], C: f32[16] output):
  alloc P: f32[20]
  alloc B: f32[18]
  for h in 20:
    block P(vh: spatial[20] = h):
      reads A[vh]
      writes P[vh]
      P[vh] = A[vh] * 2.0
  for b in 18:
    block B(vb: spatial[18] = b):
      reads P[vb +: 3]
      writes B[vb]
      B[vb] = P[vb] + P[vb + 2]
  for c in 16:
    block C(vc: spatial[16] = c):
      reads B[vc +: 3]
      writes C[vc]
      C[vc] = B[vc] * B[vc + 2]
)");
  const auto c = split(s, {s.loop("c"), {kInfer, 4}});
  ASSERT_OK(c);
  ASSERT_OK(compute_at(s, {s.block("B"), (*c)[0]}));
  ASSERT_OK(compute_at(s, {s.block("P"), (*c)[0]}));
  ASSERT_OK(rolling_buffer(s, {s.block("P")}));
  ASSERT_OK(rolling_buffer(s, {s.block("B")}));
  EXPECT_EQ(runs(s.func(), "P"), 20);
  EXPECT_EQ(runs(s.func(), "B"), 18);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(RollingBuffer, WhatIsThereAfterwardsKeepsItsPlace) {
  auto s = schedule_from(kStencil);
  const LoopRef rows = tiled(s);
  ASSERT_OK(rolling_buffer(s, {s.block("P")}));
  EXPECT_ERROR(parallel(s, {rows}), E210);
  EXPECT_ERROR(compute_at(s, {s.block("C"), s.loop("i")}), E227);
  EXPECT_ERROR(split(s, {rows, {2, 2}}), E201);
  EXPECT_ERROR(compute_inline(s, {s.block("P")}), E227);
  // The consumer of the consumer may still join.
  ASSERT_OK(reverse_compute_at(s, {s.block("D"), rows}));
  EXPECT_SAME_RESULT(s);
}

TEST(RollingBuffer, Errors) {
  {
    auto s = schedule_from(kStencil);
    EXPECT_ERROR(rolling_buffer(s, {s.block("P")}), E207);     // nothing shared
    EXPECT_ERROR(rolling_buffer(s, {s.block("P"), 1}), E220);  // one write
    EXPECT_ERROR(rolling_buffer(s, {s.block("C")}), E211);     // a reduction
    EXPECT_ERROR(rolling_buffer(s, {s.block("D")}), E218);     // a parameter
    const BlockRef block = s.block("P");
    ASSERT_OK(compute_inline(s, {block}));
    EXPECT_ERROR(rolling_buffer(s, {block}), E206);
  }
  {
    auto s = schedule_from(kStencil);
    const LoopRef rows = tiled(s);
    ASSERT_OK(parallel(s, {rows}));
    EXPECT_ERROR(rolling_buffer(s, {s.block("P")}), E201);
  }
  {  // no rows in common
    auto s = schedule_from(R"(
func f(A: f32[16], B: f32[16] output):
  alloc P: f32[16]
  for i in 16:
    block P(v: spatial[16] = i):
      reads A[v]
      writes P[v]
      P[v] = A[v] * 2.0
  for j in 16:
    block B(v: spatial[16] = j):
      reads P[v]
      writes B[v]
      B[v] = P[v] + 1.0
)");
    const auto j = split(s, {s.loop("j"), {kInfer, 4}});
    ASSERT_OK(compute_at(s, {s.block("P"), (*j)[0]}));
    EXPECT_ERROR(rolling_buffer(s, {s.block("P")}), E240);
  }
  {  // rolling twice
    auto s = schedule_from(kStencil);
    tiled(s);
    ASSERT_OK(rolling_buffer(s, {s.block("P")}));
    EXPECT_ERROR(rolling_buffer(s, {s.block("P")}), E211);
  }
}

}  // namespace
}  // namespace fettle
