#include "cost/predict.h"

#include "cost/estimate.h"

namespace fettle {

double predict_seconds(const LoweredKernel& kernel, const Target& target, int threads, const AtomTable* atoms) {
  const LoopTree tree = make_loop_tree(kernel.kernel, target);
  return estimate(tree, atoms ? atoms->costs() : describe_costs(target), threads, atoms).seconds();
}

}  // namespace fettle
