// The first template of AutoTVM (Chen et al.: Learning to Optimize Tensor Programs, NeurIPS 2018): a product of 512 x
// 512 matrices, whose loops y and x are each cut in two.

#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/test_programs.h"
#include "generations/autotvm/template/template.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

Func matmul(int64_t n) {
  const te::Tensor a = te::placeholder({n, n}, kF32, "A"), b = te::placeholder({n, n}, kF32, "B");
  const te::ReduceAxis k = te::reduce_axis(n, "k");
  const te::Tensor c =
      te::compute({n, n}, [&](const auto& v) { return te::sum(a(v[0], k) * b(k, v[1]), {k}); }, "C", {"y", "x"});
  return te::create_func("matmul", {a, b}, {c});
}

const Template kMatmul{"matmul", [](TemplateContext& t) -> Result<> {
                         Schedule& s = t.schedule();
                         FETTLE_TRY(const BlockRef c, get_block(s, {"C"}));
                         FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {c}));
                         FETTLE_TRY(const std::vector<LoopRef> y, t.define_split("tile_y", loops[0], {.n = 2}));
                         FETTLE_TRY(const std::vector<LoopRef> x, t.define_split("tile_x", loops[1], {.n = 2}));
                         FETTLE_TRY_VOID(reorder(s, {{y[0], x[0], loops[2], y[1], x[1]}}));
                         FETTLE_TRY_VOID(decompose_reduction(s, {c, loops[2]}));
                         return {};
                       }};

TEST(WorkedAutoTvm, MatmulTemplate) {
  testing::TestSchedule s(matmul(512));
  const auto space = config_space(kMatmul, s.original);
  ASSERT_OK(space);
  EXPECT_EQ(space->size(), 100);  // ten ways each to cut 2^9
  const auto config = space->find({{"tile_y", {8, 64}}, {"tile_x", {128, 4}}});
  ASSERT_OK(config);
  EXPECT_EQ(space->index_of(*config).value(), 6 + 10 * 2);
  auto made = apply_template(kMatmul, s.original, *space, *config);
  ASSERT_OK(made);
  static_cast<Schedule&>(s) = std::move(*made);
  EXPECT_GOLDEN(loops_text(s.func()));  // the tile is cleared by a nest of its own
  EXPECT_GOLDEN(s.trace());
  EXPECT_REPLAYS(s);
}

TEST(WorkedAutoTvm, EveryConfigurationComputesTheSame) {
  const Func func = matmul(12);
  const auto space = config_space(kMatmul, func);
  ASSERT_OK(space);
  EXPECT_EQ(space->size(), 36);
  space->enumerate([&](int64_t, const Config& config) {
    const auto s = apply_template(kMatmul, func, *space, config);
    EXPECT_OK(s);
    EXPECT_TRUE(testing::same_result(func, s->func())) << space->to_text(config);
    return true;
  });
}

// The trace of a configuration, on another shape of the operator: its decisions do not fit there, so they are drawn.
TEST(WorkedAutoTvm, TheTraceServesAnotherShape) {
  const Func func = matmul(512);
  const auto space = config_space(kMatmul, func);
  ASSERT_OK(space);
  const auto made = apply_template(kMatmul, func, *space, *space->at(26));
  ASSERT_OK(made);
  ParsedTrace steps = as_parsed(made->trace());
  testing::TestSchedule other(matmul(20), 3);
  EXPECT_ERROR(replay(other, steps), E223);
  for (ParsedStep& step : steps.steps) step.decision = {};
  ASSERT_OK(replay(other, steps));
  EXPECT_SAME_RESULT(other);
}

}  // namespace
}  // namespace fettle
