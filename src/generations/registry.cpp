#include "generations/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cost/predict/predict.h"

namespace fettle {
namespace {

constexpr SpaceDef kSpaces[] = {
    {.name = "rules",
     .meaning = "the product's own: what a block does to memory decides its rule",
     .make = [] { return rule_space().clone(); },
     .on_gpus = true},
};

constexpr StrategyDef kStrategies[] = {
    {"evolutionary",
     "what decisions did beyond the prediction chooses diverse batches, among neighbours and evolution of the best: "
     "for few trials and many",
     [](Workbench& bench, uint64_t seed) { return make_evolutionary_search(bench, {.seed = seed}); }},
    {"random", "points at random",
     [](Workbench& bench, uint64_t seed) { return make_random_search(bench, {.seed = seed}); }},
};

constexpr CostModelDef kCostModels[] = {
    {"trees", "boosted trees on what the prediction, corrected by what other programs taught, misses",
     [](uint64_t seed) { return make_boosted_trees(seed); }, describe_corrected, &CandidateFeatures::values,
     feature_names},
    {"trees_rank", "the same, trained on which of two is faster",
     [](uint64_t seed) { return make_boosted_trees(seed, Loss::kRank); }, describe_corrected,
     &CandidateFeatures::values, feature_names},
    {"trees_alone", "boosted trees on what the prediction misses; nothing is known of other programs",
     [](uint64_t seed) { return make_boosted_trees(seed); }, describe_by_lowering, &CandidateFeatures::values,
     feature_names},
    {"mlp", "a multi-layer perceptron on what the corrected prediction misses", make_mlp, describe_corrected,
     &CandidateFeatures::values, feature_names},
    {"prediction", "no learning", [](uint64_t) { return make_prediction_only(); }, describe_by_lowering,
     &CandidateFeatures::values, feature_names},
    {"random", "chance", make_random_model, describe_by_lowering, &CandidateFeatures::values, feature_names},
};

constexpr SchedulerDef kSchedulers[] = {
    {"gradient", "where the expected gain is largest; what gains nothing waits",
     [](const AnsorGoal&) { return MakeScheduler(); }},
    {"round-robin", "a batch each in turn",
     [](const AnsorGoal&) -> MakeScheduler {
       return [](std::vector<ScheduledTask> tasks, uint64_t) { return make_round_robin_scheduler(tasks.size()); };
     }},
};

/// The product's own, then what each generation brings.
template <class Def>
std::vector<Def> concatenated(std::span<const Def> own, std::span<const Def> GenerationDef::* brought) {
  std::vector<Def> all(own.begin(), own.end());
  for (const GenerationDef* generation : generations())
    all.insert(all.end(), (generation->*brought).begin(), (generation->*brought).end());
  return all;
}

template <class Def>
const Def* named(std::span<const Def> defs, std::string_view name) {
  const auto found = std::ranges::find(defs, name, &Def::name);
  return found == defs.end() ? nullptr : &*found;
}

/// The one that is asked for, else the generation's, else the first.
template <class Def>
Result<const Def*> chosen(std::span<const Def> defs, const Def* (*find)(std::string_view), std::string_view asked,
                          const GenerationDef* generation, std::string_view own, const char* option) {
  if (asked.empty()) return generation ? find(own) : &defs.front();
  const Def* def = find(asked);
  if (!def && asked == kOwn && !generation) return def;
  if (!def && asked != kOwn) {
    std::string names;
    for (const Def& known : defs) names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
    return fail(ErrorCode::E709, fmt::format("'{}' is none of {}", asked, names), option);
  }
  if (generation && def != find(own))
    return fail(ErrorCode::E709,
                fmt::format("{} has {} {}, not {}; leave out one of the two", generation->name, option + 2, own, asked),
                option);
  return def;
}

}  // namespace

std::span<const SpaceDef> spaces() {
  static const auto all = concatenated<SpaceDef>(kSpaces, &GenerationDef::spaces);
  return all;
}

std::span<const StrategyDef> strategies() {
  static const auto all = concatenated<StrategyDef>(kStrategies, &GenerationDef::strategies);
  return all;
}

std::span<const CostModelDef> cost_models() {
  static const auto all = concatenated<CostModelDef>(kCostModels, &GenerationDef::cost_models);
  return all;
}

std::span<const SchedulerDef> schedulers() {
  static const auto all = concatenated<SchedulerDef>(kSchedulers, &GenerationDef::schedulers);
  return all;
}

const SpaceDef* find_space(std::string_view name) { return named(spaces(), name == "template" ? "autotvm" : name); }
const StrategyDef* find_strategy(std::string_view name) { return named(strategies(), name); }
const CostModelDef* find_cost_model(std::string_view name) { return named(cost_models(), name); }
const SchedulerDef* find_scheduler(std::string_view name) { return named(schedulers(), name); }

const GenerationDef* find_generation(std::string_view name) {
  for (const GenerationDef* generation : generations())
    if (generation->name == name) return generation;
  return nullptr;
}

Result<SearchSetup> resolve_search(const SearchNames& names, const Target& target) {
  SearchSetup setup;
  if (!names.generation.empty()) {
    setup.generation = find_generation(names.generation);
    if (!setup.generation) {
      std::string known;
      for (const GenerationDef* def : generations()) known += fmt::format("{}{}", known.empty() ? "" : ", ", def->name);
      return fail(ErrorCode::E709, fmt::format("'{}' is none of {}", names.generation, known), "--generation");
    }
  }
  const GenerationDef* g = setup.generation;
  FETTLE_TRY(setup.space, chosen(spaces(), find_space, names.space, g, g ? g->space : "", "--space"));
  if (g || !names.strategy.empty()) {
    FETTLE_TRY(setup.strategy,
               chosen(strategies(), find_strategy, names.strategy, g, g ? g->strategy : "", "--strategy"));
  }
  FETTLE_TRY(setup.cost_model,
             chosen(cost_models(), find_cost_model, names.cost_model, g, g ? g->cost_model : "", "--cost-model"));
  FETTLE_TRY(setup.scheduler,
             chosen(schedulers(), find_scheduler, names.scheduler, g, g ? g->scheduler : "", "--scheduler"));
  if (setup.space && target.has_threads() && !setup.space->on_gpus) {
    std::string others;
    for (const SpaceDef& def : spaces())
      if (def.on_gpus) others += fmt::format("{}{}", others.empty() ? "" : " or ", def.name);
    return fail(ErrorCode::E709,
                fmt::format("the space {} has no programs for targets of kind {}; {} has", setup.space->name,
                            target.kind, others),
                "--space");
  }
  return setup;
}

}  // namespace fettle
