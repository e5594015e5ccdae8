#include "schedule/primitives/reindex_cache_read.h"

#include "schedule/primitives/blockize.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kFoldedSum;
using testing::map_of;
using testing::schedule_from;

TEST(ReindexCacheRead, TransposesWhatItCopies) {
  auto s = schedule_from(kFoldedSum);
  auto copy = reindex_cache_read(s, {s.block("C"), 0, "global", map_of("(i, k) -> (k, i // 2, i % 2)")});
  ASSERT_OK(copy);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReindexCacheRead, LeavesOutWhatTheMapPads) {
  auto s = schedule_from(kFoldedSum);
  ASSERT_OK(reindex_cache_read(s, {s.block("C"), 0, "global", map_of("(i, k) -> (i // 4, i % 4, k)")}));
  EXPECT_TRUE(is_int(s.func().root().allocations[0]->shape[0], 2));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReindexCacheRead, OfSeveralPlacesTakesTheOneThatIsNamed) {
  for (const int64_t read : {0, 1}) {
    auto s = schedule_from(R"(
func rows(A: f32[6, 4], C: f32[6, 6, 4] output):
  for i in 6:
    for j in 6:
      for k in 4:
        block C(vi: spatial[6] = i, vj: spatial[6] = j, vk: spatial[4] = k):
          reads A[vi, vk], A[vj, vk]
          writes C[vi, vj, vk]
          C[vi, vj, vk] = A[vi, vk] - A[vj, vk]
)");
    const IndexMap map = map_of(read == 0 ? "(i, j, k) -> (k, i)" : "(i, j, k) -> (k, j)");
    ASSERT_OK(reindex_cache_read(s, {s.block("C"), read, "global", map}));
    const auto& reads = find_block(s.func()->body, "C")->reads;
    for (size_t k = 0; k < 2; ++k) EXPECT_EQ(reads[k].buffer->name, k == static_cast<size_t>(read) ? "A_global" : "A");
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
}

TEST(ReindexCacheRead, Errors) {
  auto s = schedule_from(kFoldedSum);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i) -> (i)")}), E217);
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i, k) -> (i // 2, k)")}), E217);
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "nowhere", map_of("(i, k) -> (i, k)")}), E219);
  EXPECT_ERROR(reindex_cache_read(s, {c, 1, "global", map_of("(i, k) -> (i, k)")}), E220);
  EXPECT_ERROR(reindex_cache_read(s, {BlockRef(StepRef{99, 0}), 0, "global", map_of("(i, k) -> (i, k)")}), E225);
  auto twice = schedule_from("for i in 6: B[i] = A[i] + A[i + 2]");
  EXPECT_ERROR(reindex_cache_read(twice, {twice.block("B"), 0, "global", map_of("(i) -> (i)")}), E214);
}

TEST(ReindexCacheRead, E216InsideATileThatReadsLess) {
  auto s = schedule_from(kFoldedSum);
  const BlockRef c = s.block("C");
  ASSERT_OK(blockize(s, {s.loop("k")}));
  EXPECT_ERROR(reindex_cache_read(s, {c, 0, "global", map_of("(i, k) -> (k, i)")}), E216);

  auto whole = schedule_from(kFoldedSum);
  const BlockRef sum = whole.block("C");
  ASSERT_OK(blockize(whole, {whole.loop("i")}));
  ASSERT_OK(reindex_cache_read(whole, {sum, 0, "global", map_of("(i, k) -> (k, i)")}));
  EXPECT_REPLAYS(whole);
  EXPECT_SAME_RESULT(whole);
}

TEST(ReindexCacheRead, OtherErrors) {
  const IndexMap same = map_of("(i) -> (i)");
  auto fused = schedule_from(testing::kFused);
  const BlockRef t = fused.block("T");
  EXPECT_ERROR(reindex_cache_read(fused, {fused.block("B"), 0, "global", same}), E215);
  ASSERT_OK(compute_inline(fused, {t}));
  EXPECT_ERROR(reindex_cache_read(fused, {t, 0, "global", same}), E206);
  auto updating = schedule_from(testing::kUpdate);
  EXPECT_ERROR(reindex_cache_read(updating, {updating.block("B"), 1, "global", same}), E211);
  auto guarded = schedule_from(testing::kGuarded);
  EXPECT_ERROR(reindex_cache_read(guarded, {guarded.block("B"), 0, "global", same}), E103);
}

}  // namespace
}  // namespace fettle
