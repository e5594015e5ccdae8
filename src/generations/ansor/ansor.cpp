// Ansor (Zheng et al., OSDI 2020), as TVM 0.18 has it.

#include "generations/ansor/ansor_scheduler.h"
#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/cost/store_features.h"
#include "generations/ansor/search/population_search.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "generations/generation.h"

namespace fettle {
namespace {

constexpr SpaceDef kSpaces[] = {
    {.name = "ansor",
     .meaning = "sketches, derived by rules, with sizes and annotations drawn",
     .make = [] { return make_sketch_space({.equally_likely = EquallyLikely::kChoices}); },
     .on_gpus = true},
};

constexpr StrategyDef kStrategies[] = {
    {"ansor", "Ansor's evolution, with its defaults",
     [](Workbench& bench, uint64_t seed) { return make_population_search(bench, ansor_evolution(seed)); }},
};

constexpr CostModelDef kCostModels[] = {
    {"statements", "a score for each statement by 164 features",
     [](uint64_t seed) { return make_statement_trees(seed); }, describe_statements, &CandidateFeatures::rows,
     store_feature_names, describe_only_statements, true},
    {"statements_residual", "the same, on what the prediction misses",
     [](uint64_t seed) { return make_statement_trees(seed, ScoreStart::kPrediction); }, describe_statements,
     &CandidateFeatures::rows, store_feature_names, describe_only_statements, true},
};

constexpr SchedulerDef kSchedulers[] = {
    {"ansor", "where the objective falls fastest, by what was gained and what similar tasks reach", ansor_scheduling,
     true},
};

}  // namespace

extern constinit const GenerationDef ansor_generation = {
    .name = "ansor",
    .meaning = "Ansor: sketches, evolution, a score for each statement, gradients of an objective",
    .spaces = kSpaces,
    .strategies = kStrategies,
    .cost_models = kCostModels,
    .schedulers = kSchedulers,
    .space = "ansor",
    .strategy = "ansor",
    .cost_model = "statements",
    .scheduler = "ansor"};

}  // namespace fettle
