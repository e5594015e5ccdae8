#include "tune/describe.h"

#include "base/hash.h"
#include "cost/predict.h"
#include "cost/store_features.h"
#include "ir/compare.h"
#include "lower/lower.h"

namespace fettle {

DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return [target = std::move(target), threads, atoms](const Func& scheduled) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel, lower(scheduled, *target, {.prologue = false, .expand = false}));
    return Description{extract_features(kernel, *target, threads, atoms), kernel.kernel.funcs.at(kernel.kernel.entry)};
  };
}

DescribeFn describe_statements(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  DescribeFn describe = describe_by_lowering(target, threads, atoms);
  return [target = std::move(target), describe = std::move(describe)](const Func& scheduled) -> Result<Description> {
    FETTLE_TRY(Description description, describe(scheduled));
    FETTLE_TRY(const LoweredKernel whole,
               lower(scheduled, *target, {.outline_atoms = false, .prologue = false, .expand = false}));
    description.features.stores = store_features(whole.kernel.funcs.at(whole.kernel.entry));
    // By its name and its parameters, of which schedules change nothing but the layouts of constants.
    uint64_t workload = hash_bytes(scheduled->name);
    for (const Param& param : scheduled->params) {
      workload = hash_combine(workload, static_cast<uint64_t>(param.kind));
      for (const Expr& extent : param.buffer->shape) workload = hash_combine(workload, structural_hash(extent));
    }
    description.features.workload = workload;
    return description;
  };
}

}  // namespace fettle
