#include "cost/predict/predict.h"
#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/cost/store_features.h"
#include "lower/lower.h"

namespace fettle {
namespace {

DescribeFn statements(std::shared_ptr<const Target> target, int threads, const MicroKernelTable* micro_kernels,
                      bool always_predict) {
  return [target = std::move(target), threads, micro_kernels,
          always_predict](const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel,
               lower(schedule.func(), *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false, .whole = true}));
    Description description{{}, kernel.kernel.funcs.at(kernel.kernel.entry)};
    std::vector<float> stores = store_features(kernel.whole);
    if (always_predict || stores.empty())
      description.features = extract_features(kernel, *target, threads, micro_kernels);
    description.features.rows = std::move(stores);
    description.features.workload = workload_digest(schedule.func());
    return description;
  };
}

}  // namespace

DescribeFn describe_statements(std::shared_ptr<const Target> target, int threads,
                               const MicroKernelTable* micro_kernels) {
  return statements(std::move(target), threads, micro_kernels, true);
}

DescribeFn describe_only_statements(std::shared_ptr<const Target> target, int threads,
                                    const MicroKernelTable* micro_kernels) {
  return statements(std::move(target), threads, micro_kernels, false);
}

}  // namespace fettle
