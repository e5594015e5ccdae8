#include <algorithm>

#include "analysis/verify.h"
#include "schedule/dataflow.h"
#include "schedule/primitives/get_block.h"
#include "tune/space/auto_inline.h"
#include "tune/space/rule.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

std::vector<const SketchRule*> ordered_rules() {
  std::vector<const SketchRule*> rules(sketch_rules().begin(), sketch_rules().end());
  std::stable_sort(rules.begin(), rules.end(), [](const auto* a, const auto* b) { return a->order < b->order; });
  return rules;
}

// The block that no rule has dealt with and that does most, or null.
const BlockNode* next_block(const RuleContext& ctx) {
  const BlockNode* best = nullptr;
  int64_t best_points = -1;
  for (const BlockNode* block : blocks_of(ctx.schedule.func().root())) {
    if (ctx.is_done(*block)) continue;
    const auto structure = block_structure(ctx.schedule.func(), *block);
    const int64_t points = structure ? structure->points() + (block->init ? INT64_MAX / 2 : 0) : 0;
    if (points > best_points) {
      best_points = points;
      best = block;
    }
  }
  return best;
}

Result<> run_rules(RuleContext& ctx) {
  static const std::vector<const SketchRule*> rules = ordered_rules();
  FETTLE_TRY_VOID(auto_inline(ctx));
  while (const BlockNode* block = next_block(ctx)) {
    const std::string name = block->name;
    const Func func = ctx.schedule.func();
    bool taken = false;
    for (const SketchRule* rule : rules) {
      if (!rule->applies(ctx, *block)) continue;
      RuleContext trial = ctx;
      auto ref = get_block(trial.schedule, {.name = name});
      if (!ref || !rule->apply(trial, *ref)) continue;
      if (!verify(trial.schedule.func(), *ctx.target, {.races = false})) continue;
      ctx = std::move(trial);
      taken = true;
      break;
    }
    if (!taken) ctx.done.insert(name);  // stays the serial nest that it is
  }
  return {};
}

class RuleSpace : public Space {
 public:
  std::string name() const override { return "rules"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads, uint64_t seed,
                            std::shared_ptr<const DecisionMap> decisions) const override {
    RuleContext ctx{.schedule = Schedule(workload, seed, std::move(decisions)), .target = target, .threads = threads};
    ctx.schedule.set_target(std::move(target));
    FETTLE_TRY_VOID(run_rules(ctx));
    return std::move(ctx.schedule);
  }
};

}  // namespace

const Space& rule_space() {
  static const RuleSpace space;
  return space;
}

Result<Schedule> default_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  const AtomTable*) {
  RuleContext ctx{.schedule = Schedule(workload), .target = target, .threads = threads, .constructed = true};
  ctx.schedule.set_target(std::move(target));
  FETTLE_TRY_VOID(run_rules(ctx));
  return std::move(ctx.schedule);
}

}  // namespace fettle
