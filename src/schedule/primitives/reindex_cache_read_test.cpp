#include "schedule/primitives/reindex_cache_read.h"

#include "schedule/primitives/blockize.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::map_of;
using testing::schedule_from;

// C[vi // 3, vi % 3] = sum of A[vi * 2 + vk]
constexpr const char* kSum = R"(
func sum(A: f32[14], C: f32[2, 3] output):
  for i in 6:
    for k in 4:
      block C(vi: spatial[6] = i, vk: reduce[4] = k):
        reads A[vi * 2 + vk]
        writes C[vi // 3, vi % 3]
        init:
          C[vi // 3, vi % 3] = 0.0
        C[vi // 3, vi % 3] = C[vi // 3, vi % 3] + A[vi * 2 + vk]
)";

TEST(ReindexCacheRead, TransposesWhatItCopies) {
  auto s = schedule_from(kSum);
  auto copy = reindex_cache_read(s, {s.block("C"), 0, "global", map_of("(i, k) -> (k, i // 2, i % 2)")});
  ASSERT_OK(copy);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReindexCacheRead, Errors) {
  auto s = schedule_from(kSum);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i) -> (i)")}), E217);
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i, k) -> (i // 2, k)")}), E217);
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i, k) -> (i // 4, i % 4, k)")}), E217);  // pads
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "nowhere", map_of("(i, k) -> (i, k)")}), E219);
  EXPECT_ERROR(reindex_cache_read(s, {c, 1, "global", map_of("(i, k) -> (i, k)")}), E220);
  EXPECT_ERROR(reindex_cache_read(s, {BlockRef(StepRef{99, 0}), 0, "global", map_of("(i, k) -> (i, k)")}), E225);
  auto twice = schedule_from("for i in 6: B[i] = A[i] + A[i + 2]");
  EXPECT_ERROR(reindex_cache_read(twice, {twice.block("B"), 0, "global", map_of("(i) -> (i)")}), E214);
}

TEST(ReindexCacheRead, E216InsideATileThatReadsLess) {
  auto s = schedule_from(kSum);
  const BlockRef c = s.block("C");
  ASSERT_OK(blockize(s, {s.loop("k")}));
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i, k) -> (k, i)")}), E216);

  auto whole = schedule_from(kSum);
  const BlockRef sum = whole.block("C");
  ASSERT_OK(blockize(whole, {whole.loop("i")}));
  ASSERT_OK(reindex_cache_read(whole, {sum, 0, "global", map_of("(i, k) -> (k, i)")}));
  EXPECT_REPLAYS(whole);
  EXPECT_SAME_RESULT(whole);
}

constexpr const char* kFused = R"(
func fused(A: f32[8], B: f32[8] output):
  alloc T: f32[8]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi] * 2.0
    block B(vi: spatial[8] = i):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi] + 1.0
)";

constexpr const char* kUpdate = R"(
func update(A: f32[4], B: f32[4] output):
  for i in 4:
    block fill(vi: spatial[4] = i):
      writes B[vi]
      B[vi] = 1.0
  for i in 4:
    block B(vi: spatial[4] = i):
      reads A[vi], B[vi]
      writes B[vi]
      B[vi] = B[vi] + A[vi]
)";

TEST(ReindexCacheRead, OtherErrors) {
  const IndexMap same = map_of("(i) -> (i)");
  auto fused = schedule_from(kFused);
  const BlockRef t = fused.block("T");
  EXPECT_ERROR(reindex_cache_read(fused, {fused.block("B"), 0, "global", same}), E215);
  ASSERT_OK(compute_inline(fused, {t}));
  EXPECT_ERROR(reindex_cache_read(fused, {t, 0, "global", same}), E206);
  auto updating = schedule_from(kUpdate);
  EXPECT_ERROR(reindex_cache_read(updating, {updating.block("B"), 1, "global", same}), E211);
  auto guarded = schedule_from(R"(
func pad(A: f32[4], B: f32[6] output):
  for i in 6:
    block B(vi: spatial[6] = i):
      reads A[vi - 1]
      writes B[vi]
      B[vi] = select(vi < 1, 0.0, select(vi < 5, A[vi - 1], 0.0))
)");
  EXPECT_ERROR(reindex_cache_read(guarded, {guarded.block("B"), 0, "global", same}), E103);
}

}  // namespace
}  // namespace fettle
