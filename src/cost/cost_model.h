#pragma once
// Cost models: from a candidate's description to a prediction that ranks it.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// What a cost model sees of a candidate.
struct CandidateFeatures {
  std::vector<float> values;     // as named by feature_names()
  double predicted_seconds = 0;  // by the micro-kernel table and traffic, or the analytic model (predict.h)
  /// For models that learn from descriptions of their own (CostModelDef::describe): rows, one after the other, and a
  /// hash of what their columns are, where rows of one kind may differ in them.
  std::vector<float> rows = {};
  uint64_t columns = 0;
  /// Tells workloads apart: such models do not compare times of different ones.
  uint64_t workload = 0;
};

/// A model that learns from measurements. Decisions depend on logical time only: `update` takes whole batches, and
/// `predict` uses what earlier updates brought.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string name() const = 0;
  /// One batch: features and measured seconds (infinity for what failed).
  virtual Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) = 0;
  /// Predicted seconds, to be used for ranking; the same order as the candidates.
  virtual std::vector<double> predict(std::span<const CandidateFeatures> candidates) = 0;
  /// Whether predict(), from now on, may depend on `values` or `predicted_seconds` of a candidate that has rows of its
  /// own kind: else they need not be found.
  virtual bool asks_prediction() const { return true; }
  /// Whether predict() follows from more than what candidates come with. A model that corrects a prediction ranks from
  /// the start.
  virtual bool can_rank() const { return true; }
  virtual Result<> save(const std::string& path) const = 0;
  virtual Result<> load(const std::string& path) = 0;
};

/// What a model is trained to have small: the error of each prediction, or the number of pairs in the wrong order.
enum class Loss : uint8_t { kRegression, kRank };

/// Boosted trees (XGBoost) on the residual: log(measured / predicted_seconds), so that with no data at all the
/// prediction is that of the micro-kernel table. kRank: candidates of one batch are compared with each other.
std::unique_ptr<CostModel> make_boosted_trees(uint64_t seed, Loss loss = Loss::kRegression);
/// A multi-layer perceptron with two hidden layers on the same residual.
std::unique_ptr<CostModel> make_mlp(uint64_t seed);
/// No learning: predicted_seconds as they are.
std::unique_ptr<CostModel> make_prediction_only();
/// Ranks at random, the baseline that every model must beat.
std::unique_ptr<CostModel> make_random_model(uint64_t seed);

}  // namespace fettle
