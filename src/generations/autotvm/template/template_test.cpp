#include "generations/autotvm/template/template.h"
#include "generations/autotvm/template/draw.h"

#include <set>

#include "generations/ansor/sketch/test_programs.h"
#include "generations/autotvm/template/draw.h"
#include "schedule/primitives/reorder.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

Result<std::vector<LoopRef>> loops_of_c(TemplateContext& t) {
  FETTLE_TRY(const BlockRef c, get_block(t.schedule(), {"C"}));
  return get_loops(t.schedule(), {c});
}

// Every kind of knob.
Result<> everything(TemplateContext& t) {
  FETTLE_TRY(const std::vector<LoopRef> loops, loops_of_c(t));
  FETTLE_TRY(const std::vector<LoopRef> y,
             t.define_split("tile_y", loops[0], {.n = 2, .policy = SplitPolicy::kVerbose}));
  FETTLE_TRY(const std::vector<LoopRef> x,
             t.define_split("tile_x", loops[1], {.n = 2, .filter = [](const Decision::List& d) { return d[1] >= 2; }}));
  FETTLE_TRY(const std::vector<LoopRef> order,
             t.define_reorder("order", {y[0], x[0], loops[2], y[1], x[1]},
                              {.policy = ReorderOptions::Policy::kInterleave, .chains = {{0, 1, 3, 4}, {2}}}));
  FETTLE_TRY_VOID(t.define_annotate("notes", {y[1], x[1]}, {.policy = AnnotateOptions::Policy::kTryUnrollVectorize}));
  FETTLE_TRY_VOID(t.define_annotate("threads", {y[0]}, {.policy = AnnotateOptions::Policy::kTryParallel}));
  FETTLE_TRY_VOID(t.define_knob("weight", {1, 5, 7}));
  t.constrain("tiles of at most 12 elements",
              [](const ConfigView& v) { return v["tile_y"][1] * v["tile_x"][1] <= 12; });
  t.constrain("weight 5 only with even tiles",
              [](const ConfigView& v) { return v["weight"][0] != 5 || v["tile_y"][1] % 2 == 0; });
  return {};
}

const Template kEverything{"everything", everything};

TEST(Template, SpaceIsCounted) {
  const auto space = config_space(kEverything, testing::matmul(6, 8, 4));
  ASSERT_OK(space);
  std::vector<std::pair<std::string, size_t>> sizes;
  for (const Knob& knob : space->knobs()) sizes.emplace_back(knob.name, knob.choices.size());
  EXPECT_EQ(sizes, (std::vector<std::pair<std::string, size_t>>{
                       {"tile_y", 5}, {"tile_x", 3}, {"order", 5}, {"notes", 6}, {"threads", 2}, {"weight", 3}}));
  EXPECT_EQ(space->size(), 5 * 3 * 5 * 6 * 2 * 3);
  // tile_y 1 2 3 4 6, tile_x 2 4 8: at most 12 together are 3 + 2 + 2 + 1 + 1 = 9, of which with even tile_y 2 + 1 + 1.
  EXPECT_EQ(space->count(), (9 * 2 + 4) * 5 * 6 * 2);
}

TEST(Template, IndicesBothWays) {
  const auto space = config_space(kEverything, testing::matmul(6, 8, 4));
  ASSERT_OK(space);
  std::set<Config> seen;
  for (int64_t index = 0; index < space->size(); ++index) {
    const auto config = space->at(index);
    ASSERT_OK(config);
    seen.insert(*config);
    ASSERT_EQ(space->index_of(*config).value(), index);
    ASSERT_EQ(space->find(space->decisions(*config)).value(), *config);
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), space->size());
  EXPECT_EQ(space->at(1).value(), (Config{1, 0, 0, 0, 0, 0}));  // the first knob changes fastest
  EXPECT_ERROR(space->at(-1), E238);
  EXPECT_ERROR(space->at(space->size()), E238);
  EXPECT_ERROR(space->index_of({0, 0}), E238);
  EXPECT_ERROR(space->index_of({5, 0, 0, 0, 0, 0}), E238);
  EXPECT_ERROR(space->find({{"tile_y", {6, 1}}}), E238);
}

TEST(Template, EnumerationMeetsTheConstraints) {
  const auto space = config_space(kEverything, testing::matmul(6, 8, 4));
  ASSERT_OK(space);
  int64_t count = 0, last = -1;
  space->enumerate([&](int64_t index, const Config& config) {
    EXPECT_GT(index, last);
    last = index;
    EXPECT_TRUE(space->check(config).has_value());
    return ++count < 1'000'000;
  });
  EXPECT_EQ(count, space->count());
  int64_t few = 0;
  space->enumerate([&](int64_t, const Config&) { return ++few < 7; });
  EXPECT_EQ(few, 7);
}

// What a search asks for by changing one decision of a point may not go together with the others.
TEST(Template, WhatDoesNotGoTogetherBecomesAPointNearby) {
  const auto space = config_space(kEverything, testing::matmul(6, 8, 4));
  ASSERT_OK(space);
  Config config(space->knobs().size(), 0);
  const auto index_of = [&](const char* name) {
    return static_cast<size_t>(std::ranges::find(space->knobs(), name, &Knob::name) - space->knobs().begin());
  };
  config[index_of("tile_y")] = 4;  // 6 rows of
  for (size_t& x = config[index_of("tile_x")]; space->allows(config);) ++x;
  const DecisionMap asked = space->decisions(config);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto drawn = draw_config(*space, &asked, seed, "test");
    ASSERT_OK(drawn);
    EXPECT_TRUE(space->allows(*drawn));
    int changed = 0;
    for (size_t k = 0; k < config.size(); ++k) changed += (*drawn)[k] != config[k] ? 1 : 0;
    EXPECT_GE(changed, 1);
    EXPECT_LE(changed, 3);
  }
}

TEST(Template, EachConfigurationComputesTheSame) {
  const Func func = testing::matmul(6, 8, 4);
  const auto space = config_space(kEverything, func);
  ASSERT_OK(space);
  int tried = 0;
  std::set<std::string> programs;
  space->enumerate([&](int64_t index, const Config& config) {
    if (index % 11 != 0) return true;
    const auto s = apply_template(kEverything, func, *space, config);
    EXPECT_OK(s);
    if (!s) return false;
    EXPECT_TRUE(testing::same_result(func, s->func())) << space->to_text(config);
    programs.insert(to_text(s->func()));
    return ++tried < 60;
  });
  EXPECT_EQ(tried, 60);
  EXPECT_GT(programs.size(), 20u);
}

TEST(Template, AConfigurationReplaysFromItsTrace) {
  testing::TestSchedule s(testing::matmul(6, 8, 4));
  const auto space = config_space(kEverything, s.original);
  ASSERT_OK(space);
  Result<Schedule> made = fail(ErrorCode::E238);
  space->enumerate([&](int64_t index, const Config& config) {
    made = apply_template(kEverything, s.original, *space, config);
    return index < 100;
  });
  ASSERT_OK(made);
  static_cast<Schedule&>(s) = std::move(*made);
  EXPECT_REPLAYS(s);
}

TEST(Template, WhatAConstraintLeavesOutIsRefused) {
  const Func func = testing::matmul(6, 8, 4);
  const auto space = config_space(kEverything, func);
  ASSERT_OK(space);
  const Config large = {4, 2, 0, 0, 0, 0};  // 6 x 8
  const auto refused = apply_template(kEverything, func, *space, large);
  EXPECT_ERROR(refused, E238);
  EXPECT_NE(refused.error().message.find("at most 12"), std::string::npos) << refused.error().message;
}

TEST(Template, OrdersOfAllPolicies) {
  const auto count = [](const ReorderOptions& options) -> int64_t {
    const Template made{"order", [&](TemplateContext& t) -> Result<> {
                          FETTLE_TRY(const std::vector<LoopRef> loops, loops_of_c(t));
                          FETTLE_TRY_VOID(t.define_reorder("order", loops, options));
                          return {};
                        }};
    const auto space = config_space(made, testing::matmul(4, 4, 4));
    return space ? space->size() : -1;
  };
  using Policy = ReorderOptions::Policy;
  EXPECT_EQ(count({.policy = Policy::kIdentity}), 1);
  EXPECT_EQ(count({.policy = Policy::kAll}), 6);
  EXPECT_EQ(count({.policy = Policy::kIntervalAll, .begin = 1, .end = 3}), 2);
  EXPECT_EQ(count({.policy = Policy::kInterleave, .chains = {{0, 1}, {2}}}), 3);
  EXPECT_EQ(count({.policy = Policy::kCandidates, .candidates = {{2, 0, 1}, {0, 1, 2}}}), 2);
  EXPECT_EQ(count({.policy = Policy::kCandidates, .candidates = {{2, 0}}}), -1);
  EXPECT_EQ(count({.policy = Policy::kInterleave, .chains = {{0, 1}}}), -1);
  EXPECT_EQ(count({.policy = Policy::kIntervalAll, .begin = 2, .end = 4}), -1);
}

TEST(Template, AnnotationsOfAllPolicies) {
  const auto count = [](const AnnotateOptions& options) -> int64_t {
    const Template made{"notes", [&](TemplateContext& t) -> Result<> {
                          FETTLE_TRY(const std::vector<LoopRef> loops, loops_of_c(t));
                          FETTLE_TRY_VOID(t.define_annotate("notes", {loops[0], loops[1]}, options));
                          return {};
                        }};
    const auto space = config_space(made, testing::matmul(4, 4, 4));
    return space ? space->size() : -1;
  };
  using Policy = AnnotateOptions::Policy;
  EXPECT_EQ(count({.policy = Policy::kUnroll}), 1);
  EXPECT_EQ(count({.policy = Policy::kTryUnroll}), 4);
  EXPECT_EQ(count({.policy = Policy::kVectorize}), 1);
  EXPECT_EQ(count({.policy = Policy::kTryVectorize}), 2);
  EXPECT_EQ(count({.policy = Policy::kTryUnrollVectorize}), 6);
  EXPECT_EQ(count({.policy = Policy::kTryParallel}), 2);
  EXPECT_EQ(
      count({.policy = Policy::kCandidates, .candidates = {{LoopAnnotation::kParallel, LoopAnnotation::kVectorize}}}),
      1);
  EXPECT_EQ(count({.policy = Policy::kCandidates, .candidates = {{LoopAnnotation::kParallel}}}), -1);
}

TEST(Template, KnobsThatCannotBe) {
  const Func func = testing::matmul(4, 4, 4);
  const auto with = [&](const std::function<Result<>(TemplateContext&)>& body) {
    return config_space({"bad", body}, func);
  };
  EXPECT_ERROR(with([](TemplateContext& t) -> Result<> {
                 FETTLE_TRY_VOID(t.define_knob("x", {}));
                 return {};
               }),
               E237);
  EXPECT_ERROR(with([](TemplateContext& t) -> Result<> {
                 FETTLE_TRY_VOID(t.define_knob("x", {1}));
                 FETTLE_TRY_VOID(t.define_knob("x", {2}));
                 return {};
               }),
               E239);
  EXPECT_ERROR(
      with([](TemplateContext& t) -> Result<> {
        FETTLE_TRY(const std::vector<LoopRef> loops, loops_of_c(t));
        FETTLE_TRY_VOID(t.define_split("y", loops[0], {.filter = [](const Decision::List&) { return false; }}));
        return {};
      }),
      E237);
}

TEST(Template, IsASpaceToSearch) {
  const Func func = testing::matmul(6, 8, 4);
  const auto space = template_space(kEverything);
  EXPECT_EQ(space->name(), "template everything");
  std::set<std::string> programs;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto point = space->generate(func, nullptr, 1, seed, nullptr);
    ASSERT_OK(point);
    programs.insert(to_text(point->trace()));
    const auto again = space->generate(func, nullptr, 1, seed, nullptr);
    EXPECT_EQ(to_text(again->trace()), to_text(point->trace()));
    // What is given stays.
    const auto kept = std::make_shared<DecisionMap>(point->decisions());
    EXPECT_EQ(space->generate(func, nullptr, 1, seed + 100, kept)->decisions(), *kept);
  }
  EXPECT_GT(programs.size(), 10u);
  const auto impossible = template_space({"impossible", [](TemplateContext& t) -> Result<> {
                                            FETTLE_TRY_VOID(t.define_knob("x", {1, 2}));
                                            t.constrain("never", [](const ConfigView&) { return false; });
                                            return {};
                                          }});
  EXPECT_ERROR(impossible->generate(func, nullptr, 1, 0, nullptr), E238);
}

}  // namespace
}  // namespace fettle
