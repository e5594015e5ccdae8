#include "generations/autotvm/template/knob_decider.h"

#include <gtest/gtest.h>

#include "schedule/testing.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

TEST(KnobDecider, ChoicesOfAPartAreKnobs) {
  const Func func = testing::schedule_from("for i in 6: for k in 12: B[i] += A[i, k]").func();
  const Template steps{"steps", [](TemplateContext& t) -> Result<> {
                         KnobDecider knobs(t, "_b");
                         FETTLE_TRY(const BlockRef block, get_block(t.schedule(), {.name = "B"}));
                         FETTLE_TRY(const Loops loops, get_loops(t.schedule(), {.block = block}));
                         return several_steps(t.schedule(), knobs, loops[1], {1, 2, 4}).map([](const Loops&) {});
                       }};
  const auto space = config_space(steps, func);
  ASSERT_OK(space);
  EXPECT_EQ(space->size(), 3);
  ASSERT_EQ(space->knobs().size(), 1u);
  EXPECT_EQ(space->knobs().front().name, "steps_b");
  const auto made = apply_template(steps, func, *space, *space->at(2));
  ASSERT_OK(made);
  EXPECT_NE(to_text(made->func()).find("in 4"), std::string::npos);
}

}  // namespace
}  // namespace fettle
