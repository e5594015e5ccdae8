#include "schedule/primitives/reindex_cache_write.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kFoldedSum;
using testing::map_of;
using testing::schedule_from;

TEST(ReindexCacheWrite, WritesByIterator) {
  auto s = schedule_from(kFoldedSum);
  auto copy = reindex_cache_write(s, {s.block("C"), 0, "global", map_of("(i, k) -> (i)")});
  ASSERT_OK(copy);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReindexCacheWrite, Errors) {
  auto s = schedule_from(kFoldedSum);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reindex_cache_write(s, {c, 0, "global", map_of("(i, k) -> (i, k)")}), E217);  // k is no index
  EXPECT_ERROR(reindex_cache_write(s, {c, 0, "nowhere", map_of("(i, k) -> (i)")}), E219);
  EXPECT_ERROR(reindex_cache_write(s, {c, 1, "global", map_of("(i, k) -> (i)")}), E220);
  EXPECT_ERROR(reindex_cache_write(s, {BlockRef(StepRef{99, 0}), 0, "global", map_of("(i, k) -> (i)")}), E225);
}

TEST(ReindexCacheWrite, OtherErrors) {
  const IndexMap same = map_of("(i) -> (i)");
  auto fused = schedule_from(testing::kFused);
  const BlockRef t = fused.block("T");
  EXPECT_ERROR(reindex_cache_write(fused, {t, 0, "global", same}), E215);
  ASSERT_OK(compute_inline(fused, {t}));
  EXPECT_ERROR(reindex_cache_write(fused, {t, 0, "global", same}), E206);
  auto updating = schedule_from(testing::kUpdate);
  EXPECT_ERROR(reindex_cache_write(updating, {updating.block("B"), 0, "global", same}), E211);
  auto half = schedule_from(testing::kHalf);
  EXPECT_ERROR(reindex_cache_write(half, {half.block("B"), 0, "global", same}), E216);
  auto places = schedule_from(R"(
func places(A: f32[8], B: f32[9] output):
  for i in 8:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi +: 2]
      B[vi] = A[vi]
      B[vi + 1] = A[vi]
)");
  EXPECT_ERROR(reindex_cache_write(places, {places.block("B"), 0, "global", same}), E214);
}

}  // namespace
}  // namespace fettle
