#include "tune/describe.h"

#include <cmath>

#include "base/hash.h"
#include "cost/learned/learned_correction.h"
#include "cost/predict/predict.h"
#include "ir/compare.h"
#include "lower/lower.h"

namespace fettle {

DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads,
                                const MicroKernelTable* micro_kernels) {
  return [target = std::move(target), threads, micro_kernels](const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel,
               lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false}));
    return Description{extract_features(kernel, *target, threads, micro_kernels),
                       kernel.kernel.funcs.at(kernel.kernel.entry)};
  };
}

DescribeFn describe_corrected(std::shared_ptr<const Target> target, int threads,
                              const MicroKernelTable* micro_kernels) {
  if (target->has_threads()) return describe_by_lowering(std::move(target), threads, micro_kernels);
  return [describe = describe_by_lowering(std::move(target), threads, micro_kernels)](
             const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(Description description, describe(schedule));
    CandidateFeatures& features = description.features;
    features.predicted_seconds *= std::exp(learned_correction(features.values));
    return description;
  };
}

DescribeFn describe_rows(std::shared_ptr<const Target> target, int threads, const MicroKernelTable* micro_kernels,
                         bool whole, bool always_predict, ReadRows read) {
  return [=](const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel,
               lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false, .whole = whole}));
    CandidateFeatures rows;
    read(schedule, kernel, rows);
    Description description{{}, kernel.kernel.funcs.at(kernel.kernel.entry)};
    CandidateFeatures& features = description.features;
    if (always_predict || rows.rows.empty()) features = extract_features(kernel, *target, threads, micro_kernels);
    features.rows = std::move(rows.rows);
    features.columns = rows.columns;
    features.workload = workload_digest(schedule.func());
    return description;
  };
}

uint64_t workload_digest(const Func& scheduled) {
  uint64_t workload = hash_bytes(scheduled->name);
  for (const Param& param : scheduled->params) {
    workload = hash_combine(workload, static_cast<uint64_t>(param.kind));
    for (const Expr& extent : param.buffer->shape) workload = hash_combine(workload, structural_hash(extent));
  }
  return workload;
}

}  // namespace fettle
