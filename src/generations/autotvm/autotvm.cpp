// AutoTVM (Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018), as TVM 0.18 has it.

#include "generations/autotvm/cost/autotvm_trees.h"
#include "generations/autotvm/cost/loop_features.h"
#include "generations/autotvm/search/tuners.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/generation.h"

namespace fettle {
namespace {

constexpr SpaceDef kSpaces[] = {
    {"autotvm", "templates with knobs: all that match the program", [] { return templates_space().clone(); }},
};

constexpr StrategyDef kStrategies[] = {
    {"annealing", "simulated annealing on the cost model, batches that are good and diverse",
     [](Workbench& bench, uint64_t seed) { return make_annealing_search(bench, {.seed = seed}); }},
    {"genetic", "crossover and mutation of the best measured, without a model",
     [](Workbench& bench, uint64_t seed) { return make_genetic_search(bench, {.seed = seed}); }},
    {"descent", "coordinate descent from the best measured, without a model",
     [](Workbench& bench, uint64_t seed) { return make_coordinate_descent(bench, {.seed = seed}); }},
    {"grid", "every point in turn", [](Workbench& bench, uint64_t) { return make_grid_search(bench); }},
};

template <FeatureKind kind, Loss loss>
std::unique_ptr<CostModel> make(uint64_t seed) {
  return make_autotvm_trees(seed, kind, loss);
}

template <FeatureKind kind>
DescribeFn describe(std::shared_ptr<const Target> target, int threads, const MicroKernelTable* micro_kernels) {
  return describe_row(kind, std::move(target), threads, micro_kernels);
}

template <FeatureKind kind>
DescribeFn describe_only(std::shared_ptr<const Target> target, int threads, const MicroKernelTable* micro_kernels) {
  return describe_only_row(kind, std::move(target), threads, micro_kernels);
}

constexpr CostModelDef kCostModels[] = {
    {"autotvm_knob", "boosted trees on throughput, by the values of knobs", make<FeatureKind::kKnob, Loss::kRegression>,
     describe<FeatureKind::kKnob>, &CandidateFeatures::rows, nullptr},
    {"autotvm_itervar", "… by loops and what they touch", make<FeatureKind::kLoop, Loss::kRegression>,
     describe<FeatureKind::kLoop>, &CandidateFeatures::rows, loop_feature_names, describe_only<FeatureKind::kLoop>},
    {"autotvm_curve", "… by relations between levels of loops", make<FeatureKind::kCurve, Loss::kRegression>,
     describe<FeatureKind::kCurve>, &CandidateFeatures::rows, curve_feature_names, describe_only<FeatureKind::kCurve>},
    {"autotvm_knob_rank", "by knobs, trained on which of two is faster", make<FeatureKind::kKnob, Loss::kRank>,
     describe<FeatureKind::kKnob>, &CandidateFeatures::rows, nullptr},
    {"autotvm_itervar_rank", "… by loops and what they touch", make<FeatureKind::kLoop, Loss::kRank>,
     describe<FeatureKind::kLoop>, &CandidateFeatures::rows, loop_feature_names, describe_only<FeatureKind::kLoop>},
    {"autotvm_curve_rank", "… by relations between levels of loops", make<FeatureKind::kCurve, Loss::kRank>,
     describe<FeatureKind::kCurve>, &CandidateFeatures::rows, curve_feature_names, describe_only<FeatureKind::kCurve>},
};

}  // namespace

// It has no task scheduler: its scripts tune one task after the other, each for as many trials.
extern constinit const GenerationDef autotvm_generation = {
    .name = "autotvm",
    .meaning = "AutoTVM: templates, simulated annealing, trees on loops that rank, as many trials for each task",
    .spaces = kSpaces,
    .strategies = kStrategies,
    .cost_models = kCostModels,
    .schedulers = {},
    .space = "autotvm",
    .strategy = "annealing",
    .cost_model = "autotvm_itervar_rank",
    .scheduler = "round-robin"};

}  // namespace fettle
