#pragma once
// AutoTVM's cost model, and the descriptions of candidates that it learns from.

#include <cstdint>
#include <memory>
#include <string_view>

#include "cost/cost_model.h"
#include "tune/describe.h"

namespace fettle {

/// The descriptions that AutoTVM's models learn from (section 3.1 and the supplement of "Learning to Optimize Tensor
/// Programs"). They are the values of a candidate's knobs, its loops with what they touch, or relations between these.
/// Relations depend neither on the number of loops nor on their order. In TVM: knob, itervar, curve.
enum class FeatureKind : uint8_t { kKnob, kLoop, kCurve };
std::string_view name_of(FeatureKind kind);

/// AutoTVM's model (NeurIPS 2018, section 3.2): boosted trees give each candidate, by its row of this kind, a score
/// that is to be its throughput relative to the best known of its workload (kRegression), or higher for the faster one
/// of two of a workload (kRank). What was loaded is the global model of section 4; what is measured after that trains a
/// local one, whose score is added. Loops and curves carry over to other workloads. Knobs do not: each workload has
/// trees of its own, and a loaded model serves those whose knobs have the same names and sizes. What has no row, or
/// none that the model knows, is predicted as predicted_seconds. Predictions are times of a workload whose best is
/// known; for others they rank only. update: E709 rows of another width; knobs of which a loaded model has none
std::unique_ptr<CostModel> make_autotvm_trees(uint64_t seed, FeatureKind kind, Loss loss = Loss::kRank);

/// As describe_by_lowering, and the row of this kind.
DescribeFn describe_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                        const MicroKernelTable* micro_kernels = nullptr);

/// As describe_row, without a prediction: for what is ranked by a trained model alone (CostModel::asks_prediction).
DescribeFn describe_only_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                             const MicroKernelTable* micro_kernels = nullptr);

}  // namespace fettle
