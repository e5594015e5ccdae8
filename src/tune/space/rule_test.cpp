#include "tune/space/rule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/primitives/parallel.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

std::shared_ptr<const Target> avx512() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  return target;
}

bool always(const RuleContext&, const BlockNode&) { return true; }

Result<> note(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx.schedule, block));
  ctx.done.insert(node->name);
  return {};
}
Result<> outermost_parallel(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY_VOID(note(ctx, block));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(ctx.schedule, {.block = block}));
  return parallel(ctx.schedule, {.loop = loops.front()});
}
Result<> nothing(RuleContext&, BlockRef) { return {}; }
Result<> refuse(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY_VOID(outermost_parallel(ctx, block));
  return fail(ErrorCode::E230, "not this one");
}

constexpr Rule kForgets = {"forgets", always, nothing};
constexpr Rule kRefuses = {"refuses", always, refuse};
constexpr Rule kNotes = {"notes", always, note};
constexpr Rule kParallel = {"parallel", always, outermost_parallel};

std::string made_by(std::span<const Rule* const> rules) {
  const auto space = make_rule_space(rules);
  const auto made = space->generate(testing::small_workloads().front().func, avx512(), 1, DecisionSource(1), nullptr);
  return made ? to_text(made->trace()) : made.error().to_string();
}

TEST(Rule, TheFirstThatSucceedsHasTheBlock) {
  const Rule* refused_first[] = {&kRefuses, &kParallel, &kNotes};
  const Rule* noted_first[] = {&kRefuses, &kNotes, &kParallel};
  EXPECT_NE(made_by(refused_first).find("parallel("), std::string::npos);
  EXPECT_EQ(made_by(noted_first).find("parallel("), std::string::npos);
}

TEST(RuleDeathTest, ThatForgetsToNoteItsBlockAborts) {
  const Rule* rules[] = {&kForgets};
  EXPECT_DEATH(made_by(rules), "the rule forgets succeeded, but did not note");
}

TEST(Rule, AnyBlockHasABuiltInOne) {
  const Target gpu = *parse_target("opencl");
  EXPECT_EQ(space_rules(*avx512()).back()->name, "loop_nest");
  EXPECT_EQ(space_rules(gpu).back()->name, "gpu_nest");
  for (const Target& target : {*avx512(), gpu})
    for (const Rule* rule : space_rules(target))
      EXPECT_EQ(std::ranges::count(space_rules(target), rule->name, [](const Rule* r) { return r->name; }), 1);
}

}  // namespace
}  // namespace fettle
