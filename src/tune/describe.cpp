#include "tune/describe.h"

#include "cost/predict.h"
#include "lower/lower.h"

namespace fettle {

DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms) {
  auto memory = std::make_shared<AtomMemory>();
  return [target = std::move(target), threads, atoms, memory](const Func& scheduled) -> Result<Description> {
    FETTLE_TRY(const LoweredKernel kernel, lower(scheduled, *target, {.prologue = false, .atoms = memory.get()}));
    return Description{extract_features(kernel, *target, threads, atoms), kernel.kernel.funcs.at(kernel.kernel.entry)};
  };
}

}  // namespace fettle
