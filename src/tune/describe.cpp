#include "tune/describe.h"

#include "cost/predict.h"
#include "lower/lower.h"

namespace fettle {

DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  return [target = std::move(target), threads, atoms](const Func& scheduled) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel, lower(scheduled, *target));
    return Description{extract_features(kernel, *target, threads, atoms), kernel.kernel.funcs.at(kernel.kernel.entry)};
  };
}

}  // namespace fettle
