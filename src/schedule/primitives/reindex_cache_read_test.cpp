#include "schedule/primitives/reindex_cache_read.h"

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

IndexMap map_of(const char* text) {
  IndexMap map;
  FETTLE_CHECK(from_arg(ArgValue{std::string(text)}, map));
  return map;
}

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

}  // namespace
}  // namespace fettle
