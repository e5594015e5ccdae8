#include "schedule/primitives/cache_write.h"

#include "schedule/primitives/blockize.h"
#include "schedule/primitives/reindex_cache_write.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

const std::string kMatmul = testing::matmul_program(13, 9, 7);

TEST(CacheWrite, AccumulatesInTheOtherBuffer) {
  auto s = schedule_from(kMatmul);
  auto copy = cache_write(s, {s.block("C"), 0, "register"});
  ASSERT_OK(copy);
  EXPECT_EQ(s.func().root().allocations[0]->scope, "register");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(CacheWrite, AfterTilingTheCopyCoversTheBuffer) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(split(s, {s.loop("i"), {kInfer, 5}, Tail::kGuard}));
  auto copy = cache_write(s, {s.block("C"), 0, "global"});
  ASSERT_OK(copy);
  const auto loops = get_loops(s, {*copy});
  EXPECT_TRUE(is_int(s.loop((*loops)[0])->as<ForNode>()->extent, 13));
  EXPECT_SAME_RESULT(s);
}

TEST(CacheWrite, BelowASharedLoopTheCopyCoversTheTile) {
  auto s = schedule_from(R"(
func rows(A: f32[13, 9], D: f32[13, 9] output):
  alloc C: f32[13, 9]
  for i in 13:
    for j in 9:
      block C(vi: spatial[13] = i, vj: spatial[9] = j):
        reads A[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = A[vi, vj] + 1.0
  for i in 13:
    for j in 9:
      block D(vi: spatial[13] = i, vj: spatial[9] = j):
        reads C[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = C[vi, vj] * 2.0
)");
  const BlockRef c = s.block("C"), d = s.block("D");
  auto i = split(s, {get_loops(s, {c})->front(), {kInfer, 5}, Tail::kBalance});
  ASSERT_OK(i);
  ASSERT_OK(reverse_compute_at(s, {d, (*i)[0]}));
  ASSERT_OK(cache_write(s, {c, 0, "global"}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(CacheWrite, Errors) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(cache_write(s, {c, 1, "global"}), E220);
  EXPECT_ERROR(cache_write(s, {c, 0, "shared"}), E219);
  EXPECT_ERROR(cache_write(s, {BlockRef(StepRef{99, 0}), 0, "global"}), E225);
  EXPECT_ERROR(cache_write(s, {BlockRef(get_loops(s, {c})->front()), 0, "global"}), E225);  // a loop

  auto two = schedule_from(R"(
func halves(A: f32[4], B: f32[8] output):
  for i in 4:
    block low(vi: spatial[4] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for i in 4:
    block high(vi: spatial[4] = i):
      reads A[vi]
      writes B[vi + 4]
      B[vi + 4] = A[vi]
)");
  EXPECT_ERROR(cache_write(two, {two.block("low"), 0, "global"}), E211);
}

// Of a tile that became a block, all is copied back.
// Another block wrote the buffer before: what this one leaves out stays as it was.
constexpr const char* kUpdated = R"(
func update(A: f32[8], B: f32[4], C: f32[8] output):
  alloc T: f32[8]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for i in 4:
    block U(vi: spatial[4] = i):
      reads B[vi]
      writes T[vi * 2]
      T[vi * 2] = B[vi]
  for i in 8:
    block C(vi: spatial[8] = i):
      reads T[vi]
      writes C[vi]
      C[vi] = T[vi]
)";

TEST(CacheWrite, CopiesBackOnlyWhatWasWritten) {
  auto s = schedule_from(kUpdated);
  ASSERT_OK(blockize(s, {get_loops(s, {s.block("U")})->front()}));
  ASSERT_OK(cache_write(s, {s.block("U")}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(CacheWrite, E211LeavesElementsAsTheyWere) {
  const std::string store = "T[vi * 2] = B[vi]";
  auto s = schedule_from(testing::replaced(kUpdated, store, "if vi < 3:\n        " + store));
  ASSERT_OK(blockize(s, {get_loops(s, {s.block("U")})->front()}));
  EXPECT_ERROR(cache_write(s, {s.block("U")}), E211);
  EXPECT_ERROR(reindex_cache_write(s, {s.block("U"), 0, "global", testing::map_of("(i) -> (i)")}), E211);
}

TEST(CacheWrite, ATileBelowASharedLoop) {
  auto s = schedule_from(R"(
func f(A: f32[6, 4], C: f32[6, 4] output):
  alloc B: f32[6, 4]
  for i in 6:
    for j in 4:
      block B(vi: spatial[6] = i, vj: spatial[4] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] + 1.0
    for j in 4:
      block C(vi: spatial[6] = i, vj: spatial[4] = j):
        reads B[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = B[vi, vj] * 2.0
)");
  const auto loops = get_loops(s, {s.block("B")});
  ASSERT_OK(loops);
  const auto tile = blockize(s, {(*loops)[1]});
  ASSERT_OK(tile);
  ASSERT_OK(cache_write(s, {*tile, 0, "global"}));
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
