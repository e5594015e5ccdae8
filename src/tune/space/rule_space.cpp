#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "analysis/verify.h"
#include "arith/analyzer.h"
#include "base/check.h"
#include "cost/predict/predict.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/get_block.h"
#include "schedule/reformulation.h"
#include "tables/tune_rules.h"
#include "tune/parts/auto_inline.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_implicit_product.h"
#include "tune/parts/gpu_reductions.h"
#include "tune/parts/lane_reductions.h"
#include "tune/parts/preferences.h"
#include "tune/parts/split_product.h"
#include "tune/parts/tile_steps.h"
#include "tune/parts/winograd.h"
#include "tune/space/affine_orders.h"
#include "tune/space/rules/attention.h"
#include "tune/space/rules/factored_sum.h"
#include "tune/space/rules/materialized_factors.h"
#include "tune/space/rules/split_product.h"
#include "tune/space/rules/winograd.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

/// For processors that work in vectors.
constexpr Stage kStages[] = {
    {"attention", choose_attention},
    {"winograd", choose_winograd},
    {"split_product", choose_split_product},
    {"factored_sum", choose_factored_sum},
    {"materialized_factors", choose_materialized_factors},
    {"lane_reductions", [](RuleContext& ctx) { return lane_reductions(ctx.schedule, *ctx.target, *ctx.decider); }},
    {"auto_inline", [](RuleContext& ctx) { return auto_inline(ctx.schedule, *ctx.target, *ctx.decider); }},
};

/// For targets with threads (Target::has_threads).
constexpr Stage kGpuStages[] = {
    {"attention", choose_tensor_attention},
    {"gpu_rows", [](RuleContext& ctx) { return split_rows_among_threads(ctx.schedule, *ctx.target, *ctx.decider); }},
    {"gpu_products", [](RuleContext& ctx) { return make_matrix_products(ctx.schedule); }},
    {"auto_inline", [](RuleContext& ctx) { return auto_inline(ctx.schedule, *ctx.target, *ctx.decider); }},
};

constexpr const Rule* kRules[] = {
    &winograd_rule_def,                   // a convolution that choose_winograd has replaced
    &split_product_rule_def,              // a product that choose_split_product has replaced
    &factored_sum_rule_def,               // a sum that choose_factored_sum has replaced
    &strip_fusion_def,                    // a chain of reductions
    &multi_level_tiling_with_intrin_def,  // a product that a tensor intrinsic computes
    &row_fusion_def,                      // rows that several blocks work on
    &register_tiling_def,                 // a reduction
    &element_fusion_def,                  // blocks that work on the same elements
    &loop_nest_def,                       // anything
};

constexpr const Rule* kGpuRules[] = {
    &gpu_warp_group_product_def,  // a product of matrices that warp groups do fastest
    &gpu_tensor_product_def,      // a product of 16 bits by single warps
    &gpu_product_def,             // a product of matrices
    &gpu_rows_def,                // rows that are reduced, with what works on the same ones
    &gpu_transpose_def,           // what reads along another dimension than it writes
    &gpu_nest_def,                // anything
};
static_assert(std::size(kRules) + std::size(kGpuRules) == tune_rules::kDefined,
              "each rule in rules/ has its place in one of these lists");

/// What the points of a space are made of.
struct Makers {
  std::span<const Stage> stages;
  std::span<const Rule* const> rules;
};
Makers makers_for(const Target& target) { return {space_stages(target), space_rules(target)}; }

// The block that no rule has dealt with and that does most, or null.
const BlockNode* next_block(const RuleContext& ctx) {
  const BlockNode* best = nullptr;
  int64_t best_points = -1;
  for (const BlockNode* block : blocks_of(ctx.schedule.func().root())) {
    if (ctx.is_done(*block)) continue;
    const auto structure = block_structure(ctx.schedule.func(), *block, Extents::kOpen);
    const int64_t points = structure ? structure->points() + (block->init ? INT64_MAX / 2 : 0) : 0;
    if (points > best_points) {
      best_points = points;
      best = block;
    }
  }
  return best;
}

Result<> keeps_rules(const Schedule& s, const Target& target) {
  return target.has_threads() ? check_on_device(s.func(), target) : verify(s.func(), target, {.races = false});
}

// One rule on one block, on a copy of the state. A sampled point that turns out not to be legal gives way to the one
// that the rule constructs.
bool attempt(RuleContext& ctx, const Rule& rule, const std::string& block) {
  static PreferringDecider preferring;
  for (Decider* decider : {ctx.decider, static_cast<Decider*>(&preferring)}) {
    RuleContext trial = ctx;
    trial.decider = decider;
    auto ref = get_block(trial.schedule, {.name = block});
    if (ref && rule.apply(trial, *ref) && keeps_rules(trial.schedule, *ctx.target)) {
      FETTLE_CHECK_MSG(trial.done.contains(block) || !find_block(trial.schedule.func()->body, block),
                       "the rule " + std::string(rule.name) + " succeeded, but did not note " + block + " as done");
      trial.decider = ctx.decider;
      ctx = std::move(trial);
      return true;
    }
    if (!ctx.decider->draws()) return false;
  }
  return false;
}

// What is reduced over a number of terms that may be none begins outside of its loops.
Result<> begin_empty_sums(RuleContext& ctx) {
  Schedule& s = ctx.schedule;
  if (s.func()->int_params.empty()) return {};
  Analyzer analyzer;
  analyzer.bind_params(s.func());
  std::vector<std::string> reductions;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (block->init) reductions.push_back(block->name);
  for (const std::string& name : reductions) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY(const LoopsByKind loops, loops_by_kind(s, block));
    bool may_be_empty = false;
    for (const LoopRef& loop : loops.reduction) {
      FETTLE_TRY(const Stmt stmt, s.loop(loop));
      may_be_empty |= !analyzer.can_prove(lt(Expr(0), stmt.as<ForNode>()->extent));
    }
    if (may_be_empty) FETTLE_TRY_VOID(begin_sums(s, block, loops.reduction.front()));
  }
  return {};
}

Result<> run_rules(RuleContext& ctx, const Makers& makers) {
  for (const Stage& stage : makers.stages) {
    if (!ctx.done.empty()) break;  // one has taken the whole program
    const Schedule before = ctx.schedule;
    FETTLE_TRY_VOID(stage.apply(ctx));
    // No kernel could be shown to be right then, and each rule would be refused.
    if (ctx.target->has_threads() && !verify(ctx.schedule.func(), *ctx.target, {.races = false})) ctx.schedule = before;
  }
  while (const BlockNode* block = next_block(ctx)) {
    const std::string name = block->name;
    const bool taken = std::ranges::any_of(makers.rules, [&](const Rule* rule) {
      const BlockNode* now = find_block(ctx.schedule.func()->body, name);
      return rule->applies(ctx, *now) && attempt(ctx, *rule, name);
    });
    if (!taken) ctx.done.insert(name);  // stays the serial nest that it is
  }
  return begin_empty_sums(ctx);
}

class RuleSpace : public Space {
 public:
  /// Without rules: those for the target.
  RuleSpace(std::optional<std::span<const Rule* const>> rules, double max_error_bound)
      : rules_(rules), max_error_bound_(max_error_bound) {}
  std::string name() const override { return "rules"; }
  bool draws_by_address() const override { return true; }
  std::unique_ptr<Space> clone() const override { return std::make_unique<RuleSpace>(rules_, max_error_bound_); }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    RuleContext ctx{.schedule = Schedule(workload, source, std::move(decisions)),
                    .target = target,
                    .threads = threads,
                    .max_error_bound = max_error_bound_};
    ctx.schedule.set_target(ctx.target);
    Makers makers = makers_for(*ctx.target);
    if (rules_) makers.rules = *rules_;
    FETTLE_TRY_VOID(run_rules(ctx, makers));
    return std::move(ctx.schedule);
  }

 private:
  const std::optional<std::span<const Rule* const>> rules_;
  const double max_error_bound_;
};

// Another space, without what exceeds the bound.
class BoundedSpace : public Space {
 public:
  BoundedSpace(const Space& space, double max_error_bound) : space_(space), max_error_bound_(max_error_bound) {}
  BoundedSpace(std::unique_ptr<Space> space, double max_error_bound)
      : own_(std::move(space)), space_(*own_), max_error_bound_(max_error_bound) {}
  std::string name() const override { return space_.name(); }
  bool draws_by_address() const override { return space_.draws_by_address(); }
  std::unique_ptr<Space> clone() const override {
    std::unique_ptr<Space> copy = space_.clone();
    return copy ? std::make_unique<BoundedSpace>(std::move(copy), max_error_bound_) : nullptr;
  }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    // What exceeds it is drawn anew, but where a point follows from its address.
    const int attempts = draws_by_address() ? 1 : 30;
    for (int attempt = 0; attempt < attempts; ++attempt) {
      const DecisionSource drawn = attempt == 0 ? source : source.another(static_cast<uint64_t>(attempt));
      FETTLE_TRY(Schedule made, space_.generate(workload, target, threads, drawn, decisions));
      if (error_bound_of(made.func()) <= max_error_bound_) return made;
      if (decisions && !decisions->empty()) break;
    }
    return fail(ErrorCode::E230, "its error bound is more than was allowed");
  }

 private:
  std::unique_ptr<Space> own_;
  const Space& space_;
  const double max_error_bound_;
};

}  // namespace

std::span<const Stage> space_stages(const Target& target) {
  return target.has_threads() ? std::span<const Stage>(kGpuStages) : kStages;
}

std::span<const Rule* const> space_rules(const Target& target) {
  return target.has_threads() ? std::span<const Rule* const>(kGpuRules) : kRules;
}

std::unique_ptr<Space> make_rule_space(std::span<const Rule* const> rules, double max_error_bound) {
  return std::make_unique<RuleSpace>(rules, max_error_bound);
}

const Space& rule_space() {
  static const RuleSpace space(std::nullopt, std::numeric_limits<double>::infinity());
  return space;
}

std::unique_ptr<Space> within_error_bound(const Space& space, double max_error_bound) {
  if (&space == &rule_space()) return std::make_unique<RuleSpace>(std::nullopt, max_error_bound);
  return std::make_unique<BoundedSpace>(space, max_error_bound);
}

namespace {

using Instead = PreferringDecider::Instead;

RuleContext context_of(const Func& workload, const std::shared_ptr<const Target>& target, int threads,
                       double max_error_bound, Decider& decider) {
  RuleContext ctx{.schedule = Schedule(workload),
                  .target = target,
                  .threads = threads,
                  .decider = &decider,
                  .max_error_bound = max_error_bound};
  ctx.schedule.set_target(target);
  return ctx;
}

Result<Schedule> construct(const Func& workload, const std::shared_ptr<const Target>& target, int threads,
                           double max_error_bound, const Instead& which) {
  PreferringDecider decider(which);
  RuleContext ctx = context_of(workload, target, threads, max_error_bound, decider);
  FETTLE_TRY_VOID(run_rules(ctx, makers_for(*target)));
  return std::move(ctx.schedule);
}

// Infinite where it is not lowered.
double predicted(const Schedule& schedule, decltype(&predict_seconds) predict, const Target& target, int threads,
                 const MicroKernelTable* micro_kernels) {
  const auto lowered = lower(schedule.func(), target, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
  return lowered ? predict(*lowered, target, threads, micro_kernels) : std::numeric_limits<double>::infinity();
}

// An order of iterations that isl's scheduler finds and that is predicted to take clearly less time than `constructed`.
std::optional<Schedule> best_affine_order(const Schedule& constructed, const Func& workload,
                                          const std::shared_ptr<const Target>& target, int threads,
                                          double max_error_bound, const MicroKernelTable* micro_kernels) {
  PreferringDecider decider;
  const RuleContext start = context_of(workload, target, threads, max_error_bound, decider);
  const auto predict = [&](const Schedule& schedule) {
    return predicted(schedule, predict_cold_seconds, *target, threads, micro_kernels);
  };
  std::optional<Schedule> best;
  std::optional<double> best_s;
  for_each_affine_order(start, [&](RuleContext made, double overrated) {
    if (!run_rules(made, makers_for(*target)) || !verify(made.schedule.func(), *target, {.races = false})) return;
    if (!best_s) best_s = preferences::kPaysToReorder * predict(constructed);
    const double seconds = predict(made.schedule) / overrated;
    if (seconds >= *best_s) return;
    best_s = seconds;
    best = std::move(made.schedule);
  });
  return best;
}

}  // namespace

Result<Schedule> default_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  const MicroKernelTable* micro_kernels, double max_error_bound) {
  Instead chosen;
  FETTLE_TRY(Schedule best, construct(workload, target, threads, max_error_bound, chosen));
  if (target->has_threads()) return best;  // what there is to predict is a CPU's
  if (auto ordered = best_affine_order(best, workload, target, threads, max_error_bound, micro_kernels))
    return std::move(*ordered);
  const bool may_be_winograd = max_error_bound > 0 && winograd_convolution(workload);
  const bool may_be_split = max_error_bound > 0 && splits_by_default(workload, *target);
  if (!micro_kernels && !may_be_winograd && !may_be_split) return best;
  const auto predict = [&](const Schedule& schedule) {
    // Transformed weights are up to four times as large, and those in parts half as large again.
    return predicted(schedule, may_be_winograd || may_be_split ? predict_cold_seconds : predict_seconds, *target,
                     threads, micro_kernels);
  };
  double best_s = predict(best);
  std::set<std::string> seen = {to_text(best.trace())};
  // Takes these where they take less time than what is best so far, and than this. False: they make nothing new.
  const auto consider = [&](const Instead& which, double limit_s) {
    auto other = construct(workload, target, threads, max_error_bound, which);
    if (!other || !seen.insert(to_text(other->trace())).second) return false;
    if (const double seconds = predict(*other); seconds < std::min(best_s, limit_s)) {
      best_s = seconds;
      best = std::move(*other);
      chosen = which;
    }
    return true;
  };
  if (may_be_winograd) {
    const double limit_s = preferences::kPays * best_s;
    for (const Instead& point : winograd_points(workload)) consider(point, limit_s);
  }
  if (may_be_split) {
    const double limit_s = preferences::kPaysInParts * best_s;
    // Three products are less exact than those of singles: they have to be allowed in so many words.
    for (const int64_t terms : kSplitTerms)
      if (terms == kExactTerms || std::isfinite(max_error_bound)) consider({.values = {{"terms", terms}}}, limit_s);
  }
  if (!micro_kernels) return best;
  const double limit_s = preferences::kClearly * best_s;
  Instead which = chosen;
  for (size_t tile = 1; tile < preferences::kFavourites; ++tile) {
    which.ranks["tile"] = tile;
    if (!consider(which, limit_s)) break;
  }
  return best;
}

Result<Schedule> default_neighbour(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                   const PreferringDecider::Instead& instead) {
  return construct(workload, target, threads, std::numeric_limits<double>::infinity(), instead);
}

Result<Schedule> accepted_default(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  double max_error_bound, const std::function<bool(const Schedule&)>& accept) {
  if (target->has_threads()) {
    FETTLE_TRY(Schedule made, construct(workload, target, threads, max_error_bound, {}));
    if (!accept(made)) return fail(ErrorCode::E230, "no constructed schedule is accepted");
    return made;
  }
  std::vector<Instead> considered;
  if (max_error_bound > 0) considered = winograd_points(workload);
  for (size_t tile = preferences::kFavourites; tile-- > 0;)
    considered.insert(considered.begin(), {.ranks = {{"tile", tile}}});
  std::optional<Schedule> best;
  double best_s = std::numeric_limits<double>::infinity();
  for (const Instead& which : considered) {
    auto made = construct(workload, target, threads, max_error_bound, which);
    if (!made || !accept(*made)) continue;
    const auto lowered = lower(made->func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
    if (!lowered) continue;
    if (const double seconds = predict_seconds(*lowered, *target, threads, nullptr); seconds < best_s) {
      best_s = seconds;
      best = std::move(*made);
    }
  }
  if (!best) return fail(ErrorCode::E230, "no constructed schedule is accepted");
  return std::move(*best);
}

}  // namespace fettle
