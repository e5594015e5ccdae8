#include "schedule/primitives/reindex.h"

#include "ir/text.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/read_at.h"
#include "schedule/primitives/reindex_cache_read.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/transform_block_layout.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kStridedConv;
using testing::map_of;
using testing::schedule_from;

TEST(Reindex, AConvolutionBecomesAMatrixProduct) {
  auto s = schedule_from(kStridedConv);
  const BlockRef c = s.block("C");
  auto a = reindex(s, {c, 0, "read"});
  ASSERT_OK(a);
  EXPECT_GOLDEN(s.func());
  auto f = reindex(s, {c, 1, "read"});
  ASSERT_OK(f);
  auto out = reindex(s, {c, 0, "write"});
  ASSERT_OK(out);
  ASSERT_OK(transform_layout(s, {c, 0, "read", map_of("(h, w, r, q, c) -> (h * 4 + w, r * 4 + q * 2 + c)")}));
  ASSERT_OK(transform_layout(s, {c, 1, "read", map_of("(o, r, q, c) -> (r * 4 + q * 2 + c, o)")}));
  ASSERT_OK(transform_layout(s, {c, 0, "write", map_of("(h, w, o) -> (h * 4 + w, o)")}));
  ASSERT_OK(transform_block_layout(s, {c, map_of("(h, w, o, r, q, c) -> (h * 4 + w, o, r * 4 + q * 2 + c)")}));
  EXPECT_EQ(get_loops(s, {c})->size(), 3u);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// What a gather's copy reads of T depends on I: its region is all of T, and does not speak of I, which may move, too.
TEST(Reindex, AGather) {
  auto s = schedule_from(R"(
func gather(T: f32[5, 3], I: i64[2], B: f32[2, 3] output):
  for i in 2:
    for j in 3:
      block B(vi: spatial[2] = i, vj: spatial[3] = j):
        reads T[0 +: 5, vj], I[vi]
        writes B[vi, vj]
        B[vi, vj] = T[max(min(I[vi], 4), 0), vj]
)");
  const auto copy = reindex(s, {s.block("B"), 0, "read"});
  ASSERT_OK(copy);
  ASSERT_OK(reindex_cache_read(s, {*copy, 1, "global", map_of("(i, j) -> (i)")}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reindex, Errors) {
  auto s = schedule_from(kStridedConv);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reindex(s, {c, 2, "read"}), E220);
  EXPECT_ERROR(reindex(s, {c, 0, "both"}), E241);

  auto twice = schedule_from("for i in 6: B[i] = A[i] + A[i + 2]");
  EXPECT_ERROR(reindex(twice, {twice.block("B"), 0, "read"}), E214);

  auto guarded = schedule_from(testing::kGuarded);
  EXPECT_ERROR(reindex(guarded, {guarded.block("B"), 0, "read"}), E103);

  auto fused = schedule_from(testing::kFused);
  EXPECT_ERROR(reindex(fused, {fused.block("B"), 0, "read"}), E215);
  EXPECT_ERROR(reindex(fused, {fused.block("T"), 0, "write"}), E215);
  ASSERT_OK(reverse_compute_inline(fused, {fused.block("B")}));
  EXPECT_ERROR(reindex(fused, {BlockRef(StepRef{0, 0}), 0, "write"}), E206);

  auto half = schedule_from(testing::kHalf);
  EXPECT_ERROR(reindex(half, {half.block("B"), 0, "write"}), E216);

  auto folded = schedule_from(R"(
func folded(A: f32[8], B: f32[4] output):
  for i in 8:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi // 2]
      B[vi // 2] = A[vi]
)");
  EXPECT_ERROR(reindex(folded, {folded.block("B"), 0, "write"}), E217);

  auto updating = schedule_from(testing::kUpdate);
  EXPECT_ERROR(reindex(updating, {updating.block("B"), 1, "read"}), E211);
  EXPECT_ERROR(reindex(updating, {updating.block("B"), 0, "write"}), E211);
}

// The copy may not run before its indices are there.
TEST(Reindex, E215IndicesMadeInTheSameLoop) {
  auto s = schedule_from(R"(
func gather(A: f32[9], I: i64[5], B: f32[5] output):
  for i in 5:
    block B(vi: spatial[5] = i):
      reads A[0 +: 9], I[vi]
      writes B[vi]
      B[vi] = A[max(min(I[vi], 8), 0)]
)");
  const BlockRef b = s.block("B");
  auto whole = s;
  ASSERT_OK(read_at(s, {s.loop("i"), b, 1, "global"}));
  EXPECT_ERROR(reindex(s, {b, 0, "read"}), E215);
  ASSERT_OK(cache_read(whole, {b, 1, "global", {}}));  // all of them before the nest
  ASSERT_OK(reindex(whole, {b, 0, "read"}));
}

}  // namespace
}  // namespace fettle
