#include "tune/named_cost_models.h"

#include "cost/features/loop_features.h"
#include "cost/features/store_features.h"
#include "cost/predict/predict.h"

namespace fettle {
namespace {

template <FeatureKind kind, Loss loss>
std::unique_ptr<CostModel> make_autotvm(uint64_t seed) {
  return make_autotvm_trees(seed, kind, loss);
}

template <FeatureKind kind>
DescribeFn describe_kind(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return describe_row(kind, std::move(target), threads, atoms);
}

template <FeatureKind kind>
DescribeFn describe_only_kind(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return describe_only_row(kind, std::move(target), threads, atoms);
}

constexpr CostModelDef kModels[] = {
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
    {"statements", "Ansor's: a score for each statement by 164 features",
     [](uint64_t seed) { return make_statement_trees(seed); }, describe_statements, &CandidateFeatures::stores,
     store_feature_names, describe_only_statements},
    {"statements_residual", "the same, on what the prediction misses",
     [](uint64_t seed) { return make_statement_trees(seed, ScoreStart::kPrediction); }, describe_statements,
     &CandidateFeatures::stores, store_feature_names, describe_only_statements},
    {"autotvm_knob", "AutoTVM's: boosted trees on throughput, by the values of knobs",
     make_autotvm<FeatureKind::kKnob, Loss::kRegression>, describe_kind<FeatureKind::kKnob>, &CandidateFeatures::row,
     nullptr},
    {"autotvm_itervar", "… by loops and what they touch", make_autotvm<FeatureKind::kLoop, Loss::kRegression>,
     describe_kind<FeatureKind::kLoop>, &CandidateFeatures::row, loop_feature_names,
     describe_only_kind<FeatureKind::kLoop>},
    {"autotvm_curve", "… by relations between levels of loops", make_autotvm<FeatureKind::kCurve, Loss::kRegression>,
     describe_kind<FeatureKind::kCurve>, &CandidateFeatures::row, curve_feature_names,
     describe_only_kind<FeatureKind::kCurve>},
    {"autotvm_knob_rank", "AutoTVM's by knobs, trained on which of two is faster",
     make_autotvm<FeatureKind::kKnob, Loss::kRank>, describe_kind<FeatureKind::kKnob>, &CandidateFeatures::row,
     nullptr},
    {"autotvm_itervar_rank", "… by loops and what they touch", make_autotvm<FeatureKind::kLoop, Loss::kRank>,
     describe_kind<FeatureKind::kLoop>, &CandidateFeatures::row, loop_feature_names,
     describe_only_kind<FeatureKind::kLoop>},
    {"autotvm_curve_rank", "… by relations between levels of loops", make_autotvm<FeatureKind::kCurve, Loss::kRank>,
     describe_kind<FeatureKind::kCurve>, &CandidateFeatures::row, curve_feature_names,
     describe_only_kind<FeatureKind::kCurve>},
    {"prediction", "no learning", [](uint64_t) { return make_prediction_only(); }, describe_by_lowering,
     &CandidateFeatures::values, feature_names},
    {"random", "chance", make_random_model, describe_by_lowering, &CandidateFeatures::values, feature_names},
};

}  // namespace

std::span<const CostModelDef> cost_models() { return kModels; }

const CostModelDef* find_cost_model(std::string_view name) {
  for (const CostModelDef& def : kModels)
    if (def.name == name) return &def;
  return nullptr;
}

}  // namespace fettle
