#include "schedule/primitives/reformulate.h"

#include "ir/annotations.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/reformulation.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

const std::string kRowSum = testing::row_sum_program(6, 10);

TEST(Reformulate, AChoiceOfAlgorithmIsADecision) {
  auto s = schedule_from(kRowSum, 4);
  auto parts = sample_categorical(s, {{2, 4, 5}, {1.0, 1.0, 1.0}, "parts"});
  ASSERT_OK(parts);
  auto blocks = reformulate(s, {s.block("B"), "split_reduction", {*parts}});
  ASSERT_OK(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  ASSERT_OK(parallel(s, {s.loop("p")}));
  EXPECT_EQ(std::get<std::string>(*s.func()->annotations.find(kNumericsKey)), "reassociating");
  EXPECT_EQ(s.func()->annotations.find(kErrorBoundKey), nullptr);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reformulate, MayFollowAnother) {
  auto s = schedule_from(kRowSum);
  auto blocks = reformulate(s, {s.block("B"), "split_reduction", {5}});
  ASSERT_OK(blocks);
  ASSERT_OK(reformulate(s, {(*blocks)[1], "split_reduction", {2}}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Reformulate, E206NoSuchBlock) {
  auto s = schedule_from(kRowSum);
  EXPECT_ERROR(reformulate(s, {BlockRef(StepRef{0, 0}), "split_reduction", {2}}), E225);
}

TEST(Reformulate, E228NoSuchKind) {
  auto s = schedule_from(kRowSum);
  EXPECT_ERROR(reformulate(s, {s.block("B"), "no_such_kind", {2}}), E228);
}

TEST(Reformulate, E234AfterAnotherEdit) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_ERROR(reformulate(s, {s.block("B"), "split_reduction", {2}}), E234);
}

}  // namespace
}  // namespace fettle
