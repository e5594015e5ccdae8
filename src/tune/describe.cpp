#include "tune/describe.h"

#include <cmath>

#include "base/hash.h"
#include "cost/features/loop_features.h"
#include "cost/features/store_features.h"
#include "cost/learned/learned_correction.h"
#include "cost/predict/predict.h"
#include "ir/compare.h"
#include "lower/lower.h"
#include "tune/knob_features.h"

namespace fettle {
namespace {

/// By its name and its parameters, of which schedules change nothing but the layouts of constants.
uint64_t workload_of(const Func& scheduled) {
  uint64_t workload = hash_bytes(scheduled->name);
  for (const Param& param : scheduled->params) {
    workload = hash_combine(workload, static_cast<uint64_t>(param.kind));
    for (const Expr& extent : param.buffer->shape) workload = hash_combine(workload, structural_hash(extent));
  }
  return workload;
}

DescribeFn statements(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms, bool always_predict) {
  return [target = std::move(target), threads, atoms, always_predict](const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel,
               lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false, .whole = true}));
    Description description{{}, kernel.kernel.funcs.at(kernel.kernel.entry)};
    std::vector<float> stores = store_features(kernel.whole);
    if (always_predict || stores.empty()) description.features = extract_features(kernel, *target, threads, atoms);
    description.features.stores = std::move(stores);
    description.features.workload = workload_of(schedule.func());
    return description;
  };
}

DescribeFn row(FeatureKind kind, std::shared_ptr<const Target> target, int threads, const AtomTable* atoms,
               bool always_predict) {
  return [kind, target = std::move(target), threads, atoms,
          always_predict](const Schedule& schedule) -> Result<Description> {
    const bool knobs_alone = kind == FeatureKind::kKnob;
    FETTLE_TRY(const LoweredKernel kernel,
               lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false, .whole = !knobs_alone}));
    Description description{{}, kernel.kernel.funcs.at(kernel.kernel.entry)};
    CandidateFeatures& features = description.features;
    if (always_predict) features = extract_features(kernel, *target, threads, atoms);
    features.workload = workload_of(schedule.func());
    if (knobs_alone) {
      KnobFeatures knobs = knob_features(schedule.decisions());
      features.row = std::move(knobs.values);
      features.columns = knobs.columns;
    } else {
      features.row = kind == FeatureKind::kLoop ? loop_features(kernel.whole) : curve_features(kernel.whole);
    }
    return description;
  };
}

}  // namespace

DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return [target = std::move(target), threads, atoms](const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel, lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false}));
    return Description{extract_features(kernel, *target, threads, atoms), kernel.kernel.funcs.at(kernel.kernel.entry)};
  };
}

DescribeFn describe_corrected(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  if (target->has_threads()) return describe_by_lowering(std::move(target), threads, atoms);
  return [describe = describe_by_lowering(std::move(target), threads, atoms)](
             const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(Description description, describe(schedule));
    CandidateFeatures& features = description.features;
    features.predicted_seconds *= std::exp(learned_correction(features.values));
    return description;
  };
}

DescribeFn describe_statements(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return statements(std::move(target), threads, atoms, true);
}

DescribeFn describe_only_statements(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return statements(std::move(target), threads, atoms, false);
}

DescribeFn describe_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return row(kind, std::move(target), threads, atoms, true);
}

DescribeFn describe_only_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                             const AtomTable* atoms) {
  return row(kind, std::move(target), threads, atoms, false);
}

}  // namespace fettle
