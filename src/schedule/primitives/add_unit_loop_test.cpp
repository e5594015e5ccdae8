#include "schedule/primitives/add_unit_loop.h"

#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 10: B[i] = A[i]";

TEST(AddUnitLoop, AroundABlock) {
  auto s = schedule_from(kCopy);
  auto unit = add_unit_loop(s, {s.block("B")});
  ASSERT_OK(unit);
  EXPECT_EQ(get_loops(s, {s.block("B")})->size(), 2u);
  ASSERT_OK(unroll(s, {*unit}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(AddUnitLoop, AroundALoop) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  ASSERT_OK(add_unit_loop(s, {i}));
  ASSERT_OK(add_unit_loop(s, {i}));
  EXPECT_EQ(get_loops(s, {s.block("B")})->size(), 3u);
  ASSERT_OK(split(s, {i, {2, 5}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(AddUnitLoop, Errors) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(add_unit_loop(s, {s.block("root")}), E207);
  EXPECT_ERROR(add_unit_loop(s, {StepRef{99, 0}}), E225);
  ASSERT_OK(split(s, {i, {2, 5}}));
  EXPECT_ERROR(add_unit_loop(s, {i}), E206);
}

}  // namespace
}  // namespace fettle
