#include "cost/predict.h"

#include "cost/estimate.h"

namespace fettle {
namespace {

constexpr double kLineBytes = 64, kSharpness = 1.5;

MachineCosts costs_of(const Target& target, const AtomTable* atoms) {
  return atoms ? atoms->costs() : describe_costs(target);
}

}  // namespace

double predict_seconds(const LoweredKernel& kernel, const Target& target, int threads, const AtomTable* atoms) {
  return estimate(make_loop_tree(kernel.kernel, target), costs_of(target, atoms), threads, atoms).seconds();
}

// Threads share what memory delivers.
double predict_cold_seconds(const LoweredKernel& kernel, const Target& target, int threads, const AtomTable* atoms) {
  const MachineCosts costs = costs_of(target, atoms);
  const Estimate known = estimate(make_loop_tree(kernel.kernel, target), costs, threads, atoms);
  const double line_s = costs.line_cycles[static_cast<size_t>(Source::kMemory)] / costs.hz;
  const double memory_s = known.parameter_bytes / kLineBytes * line_s;
  return together(known.seconds(), memory_s, kSharpness);
}

}  // namespace fettle
