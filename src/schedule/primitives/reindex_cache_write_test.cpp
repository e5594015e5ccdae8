#include "schedule/primitives/reindex_cache_write.h"

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

IndexMap map_of(const char* text) {
  IndexMap map;
  FETTLE_CHECK(from_arg(ArgValue{std::string(text)}, map));
  return map;
}

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

}  // namespace
}  // namespace fettle
