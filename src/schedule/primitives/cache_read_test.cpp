#include "schedule/primitives/cache_read.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// A stencil: B[i] = A[i] + A[i + 2].
constexpr const char* kStencil = R"(
func stencil(A: f32[34], B: f32[30] output):
  for i in 30:
    block B(vi: spatial[30] = i):
      reads A[vi +: 3]
      writes B[vi]
      B[vi] = A[vi] + A[vi + 2]
)";

constexpr const char* kTwoReaders = R"(
func two(A: f32[8, 4], B: f32[8, 4] output, C: f32[8] output):
  for i in 8:
    for j in 4:
      block B(vi: spatial[8] = i, vj: spatial[4] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] + 1.0
  for i in 8:
    for j in 4:
      block C(vi: spatial[8] = i, vj: reduce[4] = j):
        reads A[vi, vj]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vj]
)";

// T is written and read under one loop.
constexpr const char* kFused = R"(
func fused(A: f32[8, 4], B: f32[8, 4] output):
  alloc T: f32[8, 4]
  for i in 8:
    for j in 4:
      block T(vi: spatial[8] = i, vj: spatial[4] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
    for j in 4:
      block B(vi: spatial[8] = i, vj: spatial[4] = j):
        reads T[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = T[vi, vj] + 1.0
)";

TEST(CacheRead, CopiesTheHullThatIsRead) {
  auto s = schedule_from(kStencil);
  auto copy = cache_read(s, {s.block("B"), 0, "global"});
  ASSERT_OK(copy);
  const auto* loop = s.loop(get_loops(s, {*copy})->front())->as<ForNode>();
  EXPECT_TRUE(is_int(loop->extent, 32));  // A[0] to A[31]
  EXPECT_EQ(s.func().root().allocations.size(), 1u);
  EXPECT_EQ(s.func().root().allocations[0]->name, "A_global");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(CacheRead, OnlyTheNamedReadersUseTheCopy) {
  auto s = schedule_from(kTwoReaders);
  ASSERT_OK(cache_read(s, {s.block("B"), 0, "global"}));
  EXPECT_EQ(find_block(s.func()->body, "C")->reads[0].buffer->name, "A");
  EXPECT_SAME_RESULT(s);

  auto both = schedule_from(kTwoReaders);
  const BlockRef b = both.block("B"), c = both.block("C");
  ASSERT_OK(cache_read(both, {b, 0, "global", {c}}));
  EXPECT_EQ(find_block(both.func()->body, "C")->reads[0].buffer->name, "A_global");
  EXPECT_REPLAYS(both);
  EXPECT_SAME_RESULT(both);
}

TEST(CacheRead, StandsBehindAProducerInTheSameLoop) {
  auto s = schedule_from(kFused);
  auto copy = cache_read(s, {s.block("B"), 0, "global"});
  ASSERT_OK(copy);
  EXPECT_EQ(get_loops(s, {*copy})->size(), 3u);  // i, and one a dimension
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
}

TEST(CacheRead, NamesStayUnique) {
  auto s = schedule_from(kStencil);
  ASSERT_OK(cache_read(s, {s.block("B"), 0, "global"}));
  ASSERT_OK(cache_read(s, {s.block("A_global"), 0, "global"}));
  EXPECT_NE(find_block(s.func()->body, "A_global_1"), nullptr);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

TEST(CacheRead, Errors) {
  auto s = schedule_from(kTwoReaders);
  const BlockRef b = s.block("B"), c = s.block("C");
  EXPECT_ERROR(cache_read(s, {b, 1, "global"}), E220);
  EXPECT_ERROR(cache_read(s, {b, -1, "global"}), E220);
  EXPECT_ERROR(cache_read(s, {b, 0, "shared"}), E219);
  EXPECT_ERROR(cache_read(s, {c, 0, "global", {b}}), E215);
  EXPECT_ERROR(cache_read(s, {BlockRef(StepRef{99, 0}), 0, "global"}), E225);

  ASSERT_OK(compute_inline(s, {*cache_read(s, {b, 0, "global"})}));
  EXPECT_ERROR(cache_read(s, {BlockRef(StepRef{static_cast<int>(s.trace().size()) - 2, 0}), 0, "global"}), E206);

  auto updating = schedule_from(testing::kUpdate);
  EXPECT_ERROR(cache_read(updating, {updating.block("B"), 1, "global"}), E211);
}

// A copy for two readers must be what both would read.
TEST(CacheRead, E215OverwrittenBetweenTheReaders) {
  auto s = schedule_from(testing::kOverwritten);
  EXPECT_ERROR(cache_read(s, {s.block("C"), 0, "global", {s.block("D")}}), E215);
}

}  // namespace
}  // namespace fettle
