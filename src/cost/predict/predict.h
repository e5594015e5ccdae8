#pragma once
// Predicted time of a lowered kernel: the sum of its micro-kernels' times and of traffic, without running it.

#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "cost/predict/micro_kernel_table.h"
#include "lower/lower.h"
#include "target/target.h"

namespace fettle {

/// What is measured of the target or, without a table, described of it. A table knows nothing of streams.
MachineCosts costs_of(const Target& target, const MicroKernelTable* micro_kernels);

/// Seconds of one run on `threads` threads. With a table: measured micro-kernels, from the caches that their operands
/// come from. Null: the analytic model (registers, ports, latency, caches of the target).
double predict_seconds(const LoweredKernel& kernel, const Target& target, int threads,
                       const MicroKernelTable* micro_kernels);

/// The same where all that is read or written has left the near caches since the last run, as in a model that is larger
/// than they are. Data come from the third level where a quarter of that would hold them, else from memory. Predictions
/// know a kernel that runs again and again.
double predict_cold_seconds(const LoweredKernel& kernel, const Target& target, int threads,
                            const MicroKernelTable* micro_kernels);

/// Seconds of one run on one thread, while so many threads in all, this one included, run kernels of their own. By the
/// analytic model.
double predict_crowded_seconds(const LoweredKernel& kernel, const Target& target, int busy_threads);

/// The description that learned models use. The names are constant; the vector's order is that of the names.
CandidateFeatures extract_features(const LoweredKernel& kernel, const Target& target, int threads,
                                   const MicroKernelTable* micro_kernels);
const std::vector<std::string>& feature_names();

}  // namespace fettle
