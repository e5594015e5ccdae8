#include "schedule/step_memory.h"

#include "ir/text.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

Func two() { return *parse_func(testing::kTwo); }

// The first nest's outer loop in two, the inner one in lanes.
Result<Schedule> tiled(const Func& func, uint64_t seed, bool lanes = true) {
  Schedule s(func, seed);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = "T"}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  FETTLE_TRY(const std::vector<ValueRef> sizes, sample_perfect_tile(s, {.loop = loops[0], .n = 2, .name = "i"}));
  FETTLE_TRY(const std::vector<LoopRef> parts, split(s, {.loop = loops[0], .factors = {sizes[0], sizes[1]}}));
  FETTLE_TRY_VOID(parallel(s, {.loop = parts[0]}));
  if (lanes) FETTLE_TRY_VOID(vectorize(s, {.loop = loops[1]}));
  return s;
}

TEST(StepMemory, StepsTakenAgainGiveTheSameProgram) {
  StepMemory::of_this_thread().clear();
  const Func func = two();
  std::vector<Schedule> made;
  for (int i = 0; i < 8; ++i) {
    auto s = tiled(func, 3);
    ASSERT_OK(s);
    made.push_back(std::move(*s));
  }
  EXPECT_FALSE(made[0].func() == made[1].func());
  EXPECT_TRUE(made[6].func() == made[7].func());
  for (const Schedule& s : made) {
    EXPECT_EQ(to_text(s.func()), to_text(made[0].func()));
    EXPECT_EQ(to_text(s.trace()), to_text(made[0].trace()));
  }
}

TEST(StepMemory, WhatIsRememberedIsWhatWouldBeMade) {
  const Func func = two();
  for (const bool lanes : {true, false}) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      auto remembered = tiled(func, seed % 10, lanes);
      StepMemory::of_this_thread().clear();
      auto fresh = tiled(two(), seed % 10, lanes);
      ASSERT_OK(remembered);
      ASSERT_OK(fresh);
      EXPECT_EQ(to_text(remembered->func()), to_text(fresh->func()));
      EXPECT_EQ(to_text(remembered->trace()), to_text(fresh->trace()));
      for (int again = 0; again < 6; ++again) ASSERT_OK(tiled(func, (seed + 1) % 10, lanes));
    }
  }
}

TEST(StepMemory, KeptProgramsAreNotEditedInPlace) {
  StepMemory::of_this_thread().clear();
  const Func func = two();
  std::string first;
  for (int i = 0; i < 8; ++i) {
    auto s = tiled(func, 3, false);
    ASSERT_OK(s);
    if (first.empty()) first = to_text(s->func());
    EXPECT_EQ(to_text(s->func()), first);
    const std::vector<LoopRef> loops = s->loops_of(1);
    ASSERT_OK(split(*s, {.loop = loops[1], .factors = {kInfer, 1 + i % 3}, .tail = Tail::kGuard}));
  }
}

TEST(StepMemory, OtherTargetsAreOtherStates) {
  StepMemory::of_this_thread().clear();
  const Func func = two();
  const auto one = std::make_shared<const Target>(), other = std::make_shared<const Target>();
  for (int i = 0; i < 4; ++i)
    for (const auto& target : {one, other}) {
      Schedule s(func);
      s.set_target(target);
      ASSERT_OK(get_block(s, {.name = "T"}));
      EXPECT_TRUE(s.target() == target.get());
      const auto* state = StepMemory::of_this_thread().find(s.func(), s.trace(), target);
      EXPECT_TRUE(!state || state->target == target);
    }
}

TEST(StepMemory, RefusedStepsStayRefused) {
  StepMemory::of_this_thread().clear();
  const Func func = two();
  for (int i = 0; i < 5; ++i) {
    auto s = tiled(func, 3, false);
    ASSERT_OK(s);
    EXPECT_ERROR(split(*s, {.loop = s->loops_of(1)[0], .factors = {kInfer, 2}}), E206);
  }
}

}  // namespace
}  // namespace fettle
