#include "schedule/primitives/cache_index.h"

#include "schedule/primitives/blockize.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::schedule_from;

constexpr const char* kTable = R"(
func table(A: f32[5], D: f32[6, 4], B: f32[6, 4] output):
  for i in 6:
    for k in 4:
      block B(vi: spatial[6] = i, vk: spatial[4] = k):
        reads A[0 +: 5], D[0 +: 6, vk]
        writes B[vi, vk]
        B[vi, vk] = A[(vi + vk) // 2 % 5] + D[vi * 2 % 6, vk] * A[(vi + vk) // 2 % 5]
)";

TEST(CacheIndex, WorksOutDivisionsAhead) {
  auto s = schedule_from(kTable);
  auto blocks = cache_index(s, {s.block("B")});
  ASSERT_OK(blocks);
  EXPECT_EQ(blocks->size(), 2u);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// The index comes from a copy that the block's own nest makes.
TEST(CacheIndex, E215AnIndexOfWhatTheNestWrites) {
  const auto nests = [](const char* between) {
    return std::string(R"(
func gather(A: f32[5], I: i64[9], B: f32[3, 9] output):
  alloc J: i64[9]
  for i in 3:
    for k in 9:
      block J(vk: spatial[9] = k):
        reads I[vk]
        writes J[vk]
        J[vk] = I[vk] // 2
)") + between +
           R"(
    for k in 9:
      block B(vi: spatial[3] = i, vk: spatial[9] = k):
        reads A[0 +: 5], J[vk]
        writes B[vi, vk]
        B[vi, vk] = A[max(min(J[vk] // 2, 4), 0)]
)";
  };
  auto s = schedule_from(nests(""));
  EXPECT_ERROR(cache_index(s, {s.block("B")}), E215);
  auto apart = schedule_from(nests("  for i in 3:"));
  ASSERT_OK(cache_index(apart, {apart.block("B")}));
  EXPECT_SAME_RESULT(apart);
}

TEST(CacheIndex, Errors) {
  auto s = schedule_from(kTable);
  const BlockRef b = s.block("B");
  EXPECT_ERROR(cache_index(s, {b, "nowhere"}), E219);
  auto two = schedule_from(kTwo);
  const BlockRef t = two.block("T"), c = two.block("C");
  EXPECT_ERROR(cache_index(two, {t}), E220);
  ASSERT_OK(compute_inline(two, {t}));
  EXPECT_ERROR(cache_index(two, {t}), E206);
  auto unit = blockize(two, {get_loops(two, {c})->back()});
  ASSERT_OK(unit);
  EXPECT_ERROR(cache_index(two, {*unit}), E214);
}

}  // namespace
}  // namespace fettle
