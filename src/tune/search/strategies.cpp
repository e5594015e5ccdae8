// The strategies that a user can name.

#include "tune/search/search_strategy.h"

namespace fettle {
namespace {

constexpr StrategyDef kStrategies[] = {
    {"evolutionary",
     "what decisions did beyond the prediction chooses diverse batches, among neighbours and evolution of the best: "
     "for few trials and many",
     [](Workbench& bench, uint64_t seed) { return make_evolutionary_search(bench, {.seed = seed}); }},
    {"ansor", "Ansor's evolution, with its defaults",
     [](Workbench& bench, uint64_t seed) { return make_population_search(bench, ansor_evolution(seed)); }},
    {"metaschedule", "MetaSchedule's evolution, with its defaults",
     [](Workbench& bench, uint64_t seed) { return make_population_search(bench, metaschedule_evolution(seed)); }},
    {"annealing", "simulated annealing on the cost model, batches that are good and diverse",
     [](Workbench& bench, uint64_t seed) { return make_annealing_search(bench, {.seed = seed}); }},
    {"genetic", "crossover and mutation of the best measured, without a model",
     [](Workbench& bench, uint64_t seed) { return make_genetic_search(bench, {.seed = seed}); }},
    {"descent", "coordinate descent from the best measured, without a model",
     [](Workbench& bench, uint64_t seed) { return make_coordinate_descent(bench, {.seed = seed}); }},
    {"grid", "every point in turn", [](Workbench& bench, uint64_t) { return make_grid_search(bench); }},
    {"random", "points at random",
     [](Workbench& bench, uint64_t seed) { return make_random_search(bench, {.seed = seed}); }},
};

}  // namespace

std::span<const StrategyDef> strategies() { return kStrategies; }

const StrategyDef* find_strategy(std::string_view name) {
  for (const StrategyDef& def : kStrategies)
    if (def.name == name) return &def;
  return nullptr;
}

}  // namespace fettle
