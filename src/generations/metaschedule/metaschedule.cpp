// MetaSchedule (Shao et al., Tensor Program Optimization with Probabilistic Programs, NeurIPS 2022), as TVM's head has
// it.

#include "generations/ansor/ansor_scheduler.h"
#include "generations/generation.h"
#include "generations/metaschedule/evolution.h"
#include "generations/metaschedule/presets.h"

namespace fettle {
namespace {

constexpr SpaceDef kSpaces[] = {
    {.name = "metaschedule",
     .meaning = "schedule rules in post order with the target's post-processors",
     .make = make_metaschedule_space,
     .on_gpus = true},
};

constexpr StrategyDef kStrategies[] = {
    {"metaschedule", "MetaSchedule's evolution, with its defaults",
     [](Workbench& bench, uint64_t seed) { return make_population_search(bench, metaschedule_evolution(seed)); }},
};

// Ansor's gradient with neither similar tasks nor rounds at random.
MakeScheduler gradient_based(const AnsorGoal&) {
  return [](std::vector<ScheduledTask> scheduled, uint64_t seed) {
    std::vector<SharedTask> tasks;
    for (const ScheduledTask& task : scheduled) tasks.push_back({.weights = {task.weight}});
    return make_ansor_scheduler(std::move(tasks), {.seed = seed, .epsilon = 0});
  };
}

constexpr SchedulerDef kSchedulers[] = {
    {"metaschedule", "GradientBased: where the last rounds gained most, and where most time is left", gradient_based},
};

}  // namespace

// Its cost model is Ansor's: trees whose scores of a program's stores are summed.
extern constinit const GenerationDef metaschedule_generation = {
    .name = "metaschedule",
    .meaning = "MetaSchedule: schedule rules, evolution by mutation, a score for each store, gradients of time",
    .spaces = kSpaces,
    .strategies = kStrategies,
    .cost_models = {},
    .schedulers = kSchedulers,
    .space = "metaschedule",
    .strategy = "metaschedule",
    .cost_model = "statements",
    .scheduler = "metaschedule"};

}  // namespace fettle
