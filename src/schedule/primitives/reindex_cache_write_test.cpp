#include "schedule/primitives/reindex_cache_write.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::map_of;
using testing::schedule_from;

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

TEST(ReindexCacheWrite, WritesByIterator) {
  auto s = schedule_from(kSum);
  auto copy = reindex_cache_write(s, {s.block("C"), 0, "global", map_of("(i, k) -> (i)")});
  ASSERT_OK(copy);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReindexCacheWrite, Errors) {
  auto s = schedule_from(kSum);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reindex_cache_write(s, {c, 0, "global", map_of("(i, k) -> (i, k)")}), E217);  // k is no index
  EXPECT_ERROR(reindex_cache_write(s, {c, 0, "nowhere", map_of("(i, k) -> (i)")}), E219);
  EXPECT_ERROR(reindex_cache_write(s, {c, 1, "global", map_of("(i, k) -> (i)")}), E220);
  EXPECT_ERROR(reindex_cache_write(s, {BlockRef(StepRef{99, 0}), 0, "global", map_of("(i, k) -> (i)")}), E225);
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

TEST(ReindexCacheWrite, OtherErrors) {
  const IndexMap same = map_of("(i) -> (i)");
  auto fused = schedule_from(kFused);
  const BlockRef t = fused.block("T");
  EXPECT_ERROR(reindex_cache_write(fused, {t, 0, "global", same}), E215);
  ASSERT_OK(compute_inline(fused, {t}));
  EXPECT_ERROR(reindex_cache_write(fused, {t, 0, "global", same}), E206);
  auto updating = schedule_from(kUpdate);
  EXPECT_ERROR(reindex_cache_write(updating, {updating.block("B"), 0, "global", same}), E211);
  auto half = schedule_from(R"(
func half(A: f32[8], B: f32[8] output):
  for i in 4:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
)");
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
