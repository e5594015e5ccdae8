#include "generations/ansor/sketch/sketch.h"

#include <set>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/test_programs.h"
#include "schedule/primitives.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

std::vector<std::string> derivations(const Derivation& derived) {
  std::vector<std::string> list;
  for (const Sketch& sketch : derived.sketches) {
    std::string text;
    for (const std::string& rule : sketch.derivation) text += (text.empty() ? "" : ", ") + rule;
    list.push_back(text);
  }
  return list;
}

TEST(Sketch, NodesStandInTopologicalOrder) {
  const DeriveOptions options;
  EXPECT_EQ(initial_state(testing::matmul_relu(8, 8, 8), options).nodes,
            (std::vector<std::string>{"A", "B", "C", "D"}));
  EXPECT_EQ(initial_state(testing::relu_pad_matmul(), options).nodes,
            (std::vector<std::string>{"A", "B", "C", "D", "E"}));
}

TEST(Sketch, EveryRuleWhoseConditionHolds) {
  const auto derived = derive_sketches(testing::matmul_relu(16, 16, 16));
  ASSERT_OK(derived);
  EXPECT_TRUE(derived->refused.empty());
  EXPECT_EQ(derivations(*derived), (std::vector<std::string>{
                                       "skip, skip, skip, skip",
                                       "skip, multi_level_tiling, skip, skip",
                                       "skip, multi_level_tiling_with_fusion, skip, skip",
                                       "skip, multi_level_tiling_with_fusion, skip, skip",
                                   }));
}

// A copy that is made after all of the product would be one more pass over the output.
TEST(Sketch, ACacheStageIsTiledWithWhatItIsFor) {
  const auto derived = derive_sketches(testing::matmul(64, 64, 64));
  ASSERT_OK(derived);
  const auto found = derivations(*derived);
  EXPECT_EQ(std::ranges::count(found, "multi_level_tiling, skip, skip"), 1);
  size_t fused = 0;
  for (const Sketch& sketch : derived->sketches) {
    const auto& rules = sketch.derivation;
    const auto stage = std::ranges::find(rules, "add_cache_stage");
    if (stage == rules.end()) continue;
    ASSERT_NE(stage + 1, rules.end());
    EXPECT_EQ(*(stage + 1), "multi_level_tiling_with_fusion");
    ++fused;
  }
  EXPECT_EQ(fused, 2u);  // at the first and at the second level of tiles
}

TEST(Sketch, EachPointComputesTheSame) {
  for (const Func& func : {testing::matmul_relu(12, 8, 20), testing::matmul(6, 4, 60)}) {
    const auto derived = derive_sketches(func, {.cores = 16});
    ASSERT_OK(derived);
    EXPECT_TRUE(derived->refused.empty());
    EXPECT_GE(derived->sketches.size(), 4u);
    size_t points = 0;
    for (const Sketch& sketch : derived->sketches)
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const auto point = instantiate(sketch, seed);
        if (!point) {  // a part of one iteration is no reduction to factor
          EXPECT_ERROR(point, E212);
          EXPECT_EQ(sketch.derivation.front(), "add_rfactor");
          continue;
        }
        ++points;
        EXPECT_TRUE(testing::same_result(func, point->func())) << to_text(sketch);
      }
    EXPECT_GE(points, 3 * derived->sketches.size());
  }
}

TEST(Sketch, SizesComeFromDecisions) {
  const auto derived = derive_sketches(testing::matmul(64, 64, 64));
  ASSERT_OK(derived);
  const auto& sketches = derived->sketches;
  const auto tiled = std::ranges::find_if(
      sketches, [](const Sketch& sketch) { return sketch.derivation.front() == "multi_level_tiling"; });
  ASSERT_NE(tiled, sketches.end());
  const auto wanted = std::make_shared<DecisionMap>(DecisionMap{{"multi_level_tiling/C/i", {2, 2, 4, 4}},
                                                                {"multi_level_tiling/C/j", {1, 4, 1, 16}},
                                                                {"multi_level_tiling/C/k", {16, 4}}});
  const auto point = instantiate(*tiled, 5, wanted);
  ASSERT_OK(point);
  EXPECT_EQ(point->decisions(), *wanted);
  EXPECT_NE(instantiate(*tiled, 5)->decisions(), *wanted);
}

TEST(Sketch, RfactorOverSeveralReductionLoops) {
  const te::Tensor x = te::placeholder({12, 20}, kF32, "X");
  const te::ReduceAxis i = te::reduce_axis(12, "i"), j = te::reduce_axis(20, "j");
  const te::Tensor sum =
      te::compute({1}, [&](const auto&) { return te::sum(x(Expr(i), Expr(j)) * x(Expr(i), Expr(j)), {i, j}); }, "S");
  const Func func = te::create_func("squares", {x}, {sum});
  const auto derived = derive_sketches(func, {.cores = 4});
  ASSERT_OK(derived);
  EXPECT_TRUE(derived->refused.empty());
  EXPECT_EQ(derivations(*derived), (std::vector<std::string>{"skip, skip", "add_rfactor, skip", "add_rfactor, skip"}));
  for (const Sketch& sketch : derived->sketches) {
    const auto point = instantiate(sketch, 1);
    ASSERT_OK(point);
    EXPECT_TRUE(testing::same_result(func, point->func())) << to_text(sketch);
  }
}

// A rule of one's own is one constant.
constexpr DerivationRule kUnrollEverything{
    "unroll_everything", 7,
    [](const SketchState& state) { return state.block() && has_data_reuse(state.schedule.func(), *state.block()); },
    [](const SketchState& state) -> Result<std::vector<SketchState>> {
      SketchState next = state;
      FETTLE_TRY(const BlockRef block, get_block(next.schedule, {.name = next.nodes[next.working - 1]}));
      FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(next.schedule, {block}));
      FETTLE_TRY_VOID(pragma(next.schedule, {loops.front(), "auto_unroll_max_step", 64}));
      --next.working;
      return std::vector{std::move(next)};
    }};

TEST(Sketch, AUsersRuleJoinsTheOthers) {
  DeriveOptions options;
  options.rules.assign(derivation_rules().begin(), derivation_rules().end());
  options.rules.push_back(&kUnrollEverything);
  const auto derived = derive_sketches(testing::matmul(16, 16, 16), options);
  ASSERT_OK(derived);
  const auto found = derivations(*derived);
  EXPECT_EQ(std::ranges::count(found, "unroll_everything, skip, skip"), 1) << found.size();
  EXPECT_EQ(found.size(), derivations(*derive_sketches(testing::matmul(16, 16, 16))).size() * 1 + 2);
}

DeriveOptions for_threads() {
  return {.cores = 64,
          .target = std::make_shared<const Target>(parse_target("opencl").value()),
          .tiling = tiling_for_threads()};
}

TEST(Sketch, TilesOnThreadsReadThroughSharedMemory) {
  const auto derived = derive_sketches(testing::matmul(16, 16, 16), for_threads());
  ASSERT_OK(derived);
  for (const auto& refusal : derived->refused) ADD_FAILURE() << refusal.rule << " " << refusal.why.to_string();
  const auto found = derivations(*derived);
  // C is tiled; B and A are then each read through a copy, or not.
  for (const char* expected : {"multi_level_tiling, skip, skip", "multi_level_tiling, add_cache_read, skip, skip",
                               "multi_level_tiling, skip, add_cache_read, skip",
                               "multi_level_tiling, add_cache_read, skip, add_cache_read, skip"})
    EXPECT_EQ(std::ranges::count(found, expected), 1) << expected;
  for (const Sketch& sketch : derived->sketches)
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto point = instantiate(sketch, seed);
      ASSERT_OK(point) << to_text(sketch);
      EXPECT_TRUE(testing::same_result(sketch.workload, point->func())) << to_text(sketch);
    }
}

TEST(Sketch, ReductionsAreSharedAmongThreads) {
  const auto derived = derive_sketches(testing::reduction_workload(3, 7, 80, false), for_threads());
  ASSERT_OK(derived);
  bool found = false;
  for (const Sketch& sketch : derived->sketches)
    found = found || std::ranges::count(sketch.derivation, "cross_thread_reduction") > 0;
  EXPECT_TRUE(found);
  // Not where nothing is bound.
  const auto unbound = derive_sketches(testing::reduction_workload(3, 7, 80, false), {.cores = 64});
  ASSERT_OK(unbound);
  for (const Sketch& sketch : unbound->sketches)
    EXPECT_EQ(std::ranges::count(sketch.derivation, "cross_thread_reduction"), 0);
}

TEST(Sketch, RefusedStepsAreTold) {
  DeriveOptions options;
  options.tiling.structure = "SS";  // no level for the reduction
  const auto derived = derive_sketches(testing::matmul(16, 16, 16), options);
  ASSERT_OK(derived);
  ASSERT_FALSE(derived->refused.empty());
  EXPECT_EQ(derived->refused[0].rule, "multi_level_tiling");
  EXPECT_EQ(derived->refused[0].node, "C");
  EXPECT_EQ(derived->refused[0].why.code, ErrorCode::E235);
}

TEST(Sketch, TheNumberOfStatesHasALimit) {
  DeriveOptions options;
  options.max_states = 3;
  EXPECT_ERROR(derive_sketches(testing::matmul_relu(16, 16, 16), options), E236);
}

}  // namespace
}  // namespace fettle
