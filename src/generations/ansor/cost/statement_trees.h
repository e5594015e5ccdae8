#pragma once
// Ansor's cost model, and the description of candidates that it learns from.

#include <cstdint>
#include <memory>

#include "cost/cost_model.h"
#include "tune/describe.h"

namespace fettle {

/// Ansor's model (OSDI 2020, section 5.2). Boosted trees give each statement a score by its 164 features; a program's
/// score is their sum. It shall be the throughput relative to the best known of the workload. Errors are weighted by
/// that throughput. What has no rows of statements is predicted as predicted_seconds. Predictions are times of a
/// workload whose best is known; for others they rank only. kPrediction, which is ours: the boosting begins not at zero
/// but at k / predicted_seconds, k by least squares over what is measured of the workload. What nothing is known of
/// then ranks as it is predicted, not as the mean of what is.
enum class ScoreStart : uint8_t { kZero, kPrediction };
std::unique_ptr<CostModel> make_statement_trees(uint64_t seed, ScoreStart start = ScoreStart::kZero);

/// As describe_by_lowering, with the features of each store (store_features.h) as rows.
DescribeFn describe_statements(std::shared_ptr<const Target> target, int threads,
                               const MicroKernelTable* micro_kernels = nullptr);

/// As describe_statements, without a prediction where there are stores: for what is ranked by a trained model alone
/// (CostModel::asks_prediction).
DescribeFn describe_only_statements(std::shared_ptr<const Target> target, int threads,
                                    const MicroKernelTable* micro_kernels = nullptr);

}  // namespace fettle
