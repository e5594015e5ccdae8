#pragma once
// Describes scheduled programs to cost models, by lowering them.

#include <functional>
#include <memory>

#include "cost/cost_model.h"
#include "target/target.h"
#include "tune/search/workbench.h"

namespace fettle {

class MicroKernelTable;
struct LoweredKernel;

/// By lower() and extract_features(); null micro-kernels: the analytic model. `micro_kernels` must outlive the
/// function.
DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads,
                                const MicroKernelTable* micro_kernels = nullptr);

/// As describe_by_lowering; what other programs taught corrects the prediction (cost/learned/learned_correction.h). Not
/// on GPUs, of which nothing was learned.
DescribeFn describe_corrected(std::shared_ptr<const Target> target, int threads,
                              const MicroKernelTable* micro_kernels = nullptr);

/// What a model of rows reads of a lowered program: rows, perhaps columns.
using ReadRows =
    std::function<void(const Schedule& schedule, const LoweredKernel& kernel, CandidateFeatures& features)>;
/// As describe_by_lowering, with rows and the workload's digest. `whole`: `read` wants LoweredKernel::whole.
/// `always_predict`: else what has rows is not predicted, for what is ranked by a trained model alone
/// (CostModel::asks_prediction).
DescribeFn describe_rows(std::shared_ptr<const Target> target, int threads, const MicroKernelTable* micro_kernels,
                         bool whole, bool always_predict, ReadRows read);

/// Tells workloads apart by their names and parameters, of which schedules change nothing but the layouts of constants.
uint64_t workload_digest(const Func& scheduled);

}  // namespace fettle
