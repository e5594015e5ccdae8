#include "schedule/primitives/prefetch.h"

#include "schedule/primitives/parallel.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kRows = "for i in 8: for k in 6: C[i] += A[i, k]";

TEST(Prefetch, NotesTheLoop) {
  auto s = schedule_from(kRows);
  ASSERT_OK(prefetch(s, {s.loop("i"), 2}));
  ASSERT_OK(prefetch(s, {s.loop("i"), 1}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Prefetch, NearOfUnrolledSteps) {
  auto s = schedule_from(kRows);
  const auto steps = split(s, {s.loop("k"), {3, 2}});
  ASSERT_OK(steps);
  ASSERT_OK(unroll(s, {(*steps)[1]}));
  EXPECT_ERROR(prefetch(s, {(*steps)[1], 2}), E201);
  ASSERT_OK(prefetch(s, {(*steps)[1], 2, true}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Prefetch, Errors) {
  auto s = schedule_from(kRows);
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(prefetch(s, {i, 0}), E202);
  auto threads = s;
  ASSERT_OK(parallel(threads, {i}));
  EXPECT_ERROR(prefetch(threads, {i, 1}), E201);
  ASSERT_OK(split(s, {i, {2, 4}}));
  EXPECT_ERROR(prefetch(s, {i, 1}), E206);
}

}  // namespace
}  // namespace fettle
