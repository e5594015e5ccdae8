#pragma once
// Describes scheduled programs to cost models, by lowering them.

#include <memory>

#include "cost/cost_model.h"
#include "target/target.h"
#include "tune/search/workbench.h"

namespace fettle {

class MicroKernelTable;

/// By lower() and extract_features(); null micro-kernels: the analytic model. `micro_kernels` must outlive the
/// function.
DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads,
                                const MicroKernelTable* micro_kernels = nullptr);

/// As describe_by_lowering; what other programs taught corrects the prediction (cost/learned/learned_correction.h). Not
/// on GPUs, of which nothing was learned.
DescribeFn describe_corrected(std::shared_ptr<const Target> target, int threads,
                              const MicroKernelTable* micro_kernels = nullptr);

/// Tells workloads apart by their names and parameters, of which schedules change nothing but the layouts of constants.
uint64_t workload_digest(const Func& scheduled);

}  // namespace fettle
