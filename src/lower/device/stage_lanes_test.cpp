// Stores of unrolled loops and lanes, through the memory of their thread.
#include <gtest/gtest.h>

#include "lower/device/device.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

// [blocks, turns unrolled, threads, lanes] of the last loop of B, for this target.
std::string lowered_text(TestSchedule s, const char* target_name, int64_t turns, int64_t lanes) {
  const auto loops = s.loops(s.block("B"));
  auto parts = split(s, {.loop = loops.back(), .factors = {kInfer, turns, 8, lanes}, .tail = Tail::kGuard});
  EXPECT_OK(parts);
  EXPECT_OK(reorder(s, {.loops = {(*parts)[0], (*parts)[2], (*parts)[1], (*parts)[3]}}));
  EXPECT_OK(bind(s, {.loop = (*parts)[0], .thread_axis = "blockIdx.x"}));
  EXPECT_OK(bind(s, {.loop = (*parts)[2], .thread_axis = "threadIdx.x"}));
  EXPECT_OK(unroll(s, {.loop = (*parts)[1]}));
  EXPECT_OK(vectorize(s, {.loop = (*parts)[3]}));
  const auto program = lower_for_device(s.func(), *parse_target(target_name));
  EXPECT_OK(program);
  return program ? to_text(*program) : "";
}

TEST(StageLanes, ArithmeticIsReadAndWrittenInOneAccess) {
  const std::string text = lowered_text(schedule_from("for i in 256: B[i] = A[i] * A[i] + C[i // 8]"), "cuda", 1, 4);
  EXPECT_NE(text.find("A_lanes[ramp(0, 1, 4)] = A[ramp("), std::string::npos) << text;
  EXPECT_NE(text.find("B_lanes[0] = "), std::string::npos) << text;
  EXPECT_NE(text.find("] = B_lanes[ramp(0, 1, 4)]"), std::string::npos) << text;
}

TEST(StageLanes, AllIsLoadedBeforeAnythingIsStored) {
  const std::string text = lowered_text(schedule_from("for i in 256: B[i] = A[i] + 1.0"), "cuda", 2, 4);
  const size_t second_load = text.find("A_lanes[ramp(4, 1, 4)] = "),
               first_store = text.find("] = B_lanes[ramp(0, 1, 4)]");
  ASSERT_NE(second_load, std::string::npos) << text;
  ASSERT_NE(first_store, std::string::npos) << text;
  EXPECT_LT(second_load, first_store);
}

TEST(StageLanes, WhatIsReadUnderAConditionStaysThere) {
  const std::string text = lowered_text(schedule_from("for i in 256: B[i] = select(i < 200, A[i], 0.0)"), "cuda", 1, 4);
  EXPECT_EQ(text.find("A_lanes"), std::string::npos) << text;
  EXPECT_NE(text.find("B_lanes"), std::string::npos) << text;
}

TEST(StageLanes, WhatIsUpdatedInPlaceStays) {
  const std::string text = lowered_text(
      schedule_from("func f(A: f32[256], B: f32[256] output):\n  for i in 256:\n    block B(v: spatial[256] = i):\n"
                    "      reads A[v], B[v]\n      writes B[v]\n      B[v] = B[v] + A[v]\n"),
      "cuda", 1, 4);
  EXPECT_EQ(text.find("_lanes"), std::string::npos) << text;
}

}  // namespace
}  // namespace fettle
