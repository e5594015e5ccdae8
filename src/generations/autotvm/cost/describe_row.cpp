#include "cost/predict/predict.h"
#include "generations/autotvm/cost/autotvm_trees.h"
#include "generations/autotvm/cost/knob_features.h"
#include "generations/autotvm/cost/loop_features.h"
#include "lower/lower.h"

namespace fettle {
namespace {

DescribeFn row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
               const MicroKernelTable* micro_kernels, bool always_predict) {
  return [kind, target = std::move(target), threads, micro_kernels,
          always_predict](const Schedule& schedule) -> Result<Description> {
    const bool knobs_alone = kind == FeatureKind::kKnob;
    FETTLE_TRY(
        const LoweredKernel kernel,
        lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false, .whole = !knobs_alone}));
    Description description{{}, kernel.kernel.funcs.at(kernel.kernel.entry)};
    CandidateFeatures& features = description.features;
    if (always_predict) features = extract_features(kernel, *target, threads, micro_kernels);
    features.workload = workload_digest(schedule.func());
    if (knobs_alone) {
      KnobFeatures knobs = knob_features(schedule.decisions());
      features.rows = std::move(knobs.values);
      features.columns = knobs.columns;
    } else {
      features.rows = kind == FeatureKind::kLoop ? loop_features(kernel.whole) : curve_features(kernel.whole);
    }
    return description;
  };
}

}  // namespace

DescribeFn describe_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                        const MicroKernelTable* micro_kernels) {
  return row(kind, std::move(target), threads, micro_kernels, true);
}

DescribeFn describe_only_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                             const MicroKernelTable* micro_kernels) {
  return row(kind, std::move(target), threads, micro_kernels, false);
}

}  // namespace fettle
