#include "schedule/primitives/software_pipeline.h"

#include "schedule/primitives/parallel.h"
#include "schedule/primitives/read_at.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

// A sum in steps of 4, each of which copies what it needs first.
TestSchedule staged(LoopRef* loop) {
  TestSchedule s = schedule_from("for k in 16: C[0] += A[k]");
  const auto parts = split(s, {s.loop("k"), {4, 4}});
  FETTLE_CHECK(parts && read_at(s, {(*parts)[0], s.block("C"), 0, "global"}));
  *loop = (*parts)[0];
  return s;
}

TEST(SoftwarePipeline, CopiesAheadOfTheSum) {
  LoopRef k;
  TestSchedule s = staged(&k);
  ASSERT_OK(software_pipeline(s, {k, {0, 1}, {0, 1}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_ERROR(software_pipeline(s, {k, {0, 1}, {0, 1}}), E201);
}

TEST(SoftwarePipeline, TheSumFirstInEachTurn) {
  LoopRef k;
  TestSchedule s = staged(&k);
  ASSERT_OK(software_pipeline(s, {k, {0, 1}, {1, 0}}));
  EXPECT_REPLAYS(s);
}

// A state goes on from one iteration to the next, in parts of one stage.
TEST(SoftwarePipeline, StatesOfOneStageKeepTheirOrder) {
  const char* const text = R"(
func states(A: f32[8], B: f32[8] output):
  alloc T: f32[8]
  alloc S: f32[1]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
    block S(vi: scan[8] = i):
      reads S[0], T[vi]
      writes S[0]
      S[0] = select(vi == 0, 0.0, S[0]) + T[vi]
    block B(vi: spatial[8] = i):
      reads S[0]
      writes B[vi]
      B[vi] = S[0]
)";
  auto s = schedule_from(text);
  ASSERT_OK(software_pipeline(s, {s.loop("i"), {0, 1, 1}, {0, 1, 2}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  auto apart = schedule_from(text);
  EXPECT_ERROR(software_pipeline(apart, {apart.loop("i"), {0, 1, 2}, {0, 1, 2}}), E227);
  EXPECT_ERROR(software_pipeline(apart, {apart.loop("i"), {0, 1, 1}, {0, 2, 1}}), E227);
}

TEST(SoftwarePipeline, Errors) {
  LoopRef k;
  TestSchedule s = staged(&k);
  EXPECT_ERROR(software_pipeline(s, {k, {0}, {0}}), E241);
  EXPECT_ERROR(software_pipeline(s, {k, {0, 1}, {0, 0}}), E241);
  EXPECT_ERROR(software_pipeline(s, {k, {0, 1}, {0, 2}}), E241);
  EXPECT_ERROR(software_pipeline(s, {k, {-1, 1}, {0, 1}}), E241);
  EXPECT_ERROR(software_pipeline(s, {k, {0, 16}, {0, 1}}), E241);
  EXPECT_ERROR(software_pipeline(s, {k, {1, 0}, {0, 1}}), E227);  // the sum before its copy
  EXPECT_ERROR(software_pipeline(s, {k, {0, 0}, {1, 0}}), E227);

  auto carried = schedule_from(R"(
func carried(A: f32[8], B: f32[8] output):
  alloc T: f32[9]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
    block B(vi: spatial[8] = i):
      reads T[max(vi - 1, 0)]
      writes B[vi]
      B[vi] = T[max(vi - 1, 0)]
)");
  EXPECT_ERROR(software_pipeline(carried, {carried.loop("i"), {0, 1}, {0, 1}}), E227);
  const LoopRef i = carried.loop("i");
  ASSERT_OK(split(carried, {i, {4, 2}}));
  EXPECT_ERROR(software_pipeline(carried, {i, {0, 1}, {0, 1}}), E206);
}

}  // namespace
}  // namespace fettle
