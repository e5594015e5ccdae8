#include "cost/predict/predict.h"

#include "cost/predict/estimate.h"

namespace fettle {
namespace {

constexpr double kLineBytes = 64, kLimitSharpness = 1.5;
/// Kernels that a cache holds what belongs to, at least.
constexpr double kOthers = 4;

}  // namespace

MachineCosts costs_of(const Target& target, const MicroKernelTable* micro_kernels) {
  if (!micro_kernels) return describe_costs(target);
  MachineCosts costs = micro_kernels->costs();
  costs.streams = target.streams;
  return costs;
}

double predict_seconds(const LoweredKernel& kernel, const Target& target, int threads,
                       const MicroKernelTable* micro_kernels) {
  return estimate(make_loop_tree(kernel.kernel, target), costs_of(target, micro_kernels), threads, micro_kernels)
      .seconds();
}

double predict_crowded_seconds(const LoweredKernel& kernel, const Target& target, int busy_threads) {
  MachineCosts costs = describe_costs(target);
  costs.streams *= busy_threads;
  return estimate(make_loop_tree(kernel.kernel, target), costs, 1, nullptr).seconds();
}

// Threads share what memory delivers.
double predict_cold_seconds(const LoweredKernel& kernel, const Target& target, int threads,
                            const MicroKernelTable* micro_kernels) {
  const MachineCosts costs = costs_of(target, micro_kernels);
  const Estimate known = estimate(make_loop_tree(kernel.kernel, target), costs, threads, micro_kernels);
  const double held = target.caches.size() > 2 ? static_cast<double>(target.caches[2].size_bytes) / kOthers : 0;
  const LineSource source = known.parameter_bytes <= held ? LineSource::kL3 : LineSource::kMemory;
  const double line_s = costs.line_cycles[static_cast<size_t>(source)] / costs.hz;
  return together(known.seconds(), known.parameter_bytes / kLineBytes * line_s, kLimitSharpness);
}

}  // namespace fettle
