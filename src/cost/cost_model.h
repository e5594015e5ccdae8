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
  double predicted_seconds = 0;  // by the atom table and traffic, or the analytic model (predict.h)
  /// For models of statements alone: a row of kStoreFeatures for each store (store_features.h), and what tells
  /// workloads apart, for times of different ones are not compared.
  std::vector<float> stores = {};
  uint64_t workload = 0;
  /// For AutoTVM's models alone: one row of the kind that the model learns from, and a hash of what its columns are,
  /// which only knobs need: those of other kinds have names of their own.
  std::vector<float> row = {};
  uint64_t columns = 0;
};

/// What AutoTVM's models learn from (section 3.1 and the supplement of "Learning to Optimize Tensor Programs"): the
/// values of a candidate's knobs; its loops with what they touch; or relations between these, which know neither of
/// how many loops there are nor of their order. In TVM: knob, itervar, curve.
enum class FeatureKind : uint8_t { kKnob, kLoop, kCurve };
std::string_view name_of(FeatureKind kind);

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
/// prediction is that of the atom table. kRank: candidates of one batch are compared with each other.
std::unique_ptr<CostModel> make_boosted_trees(uint64_t seed, Loss loss = Loss::kRegression);
/// Ansor's model (OSDI 2020, section 5.2): boosted trees give each statement, by its 164 features, a score; a program's
/// is their sum, which is to be its throughput relative to the best known of its workload, with errors weighted by that
/// throughput. What has no rows of statements is predicted as predicted_seconds. Predictions are times of a workload
/// whose best is known; for others they rank only.
/// kPrediction, which is ours: the boosting begins not at zero but at k / predicted_seconds, k by least squares over what is
/// measured of the workload. What nothing is known of then ranks as it is predicted, not as the mean of what is.
enum class ScoreStart : uint8_t { kZero, kPrediction };
std::unique_ptr<CostModel> make_statement_trees(uint64_t seed, ScoreStart start = ScoreStart::kZero);
/// AutoTVM's model (NeurIPS 2018, section 3.2): boosted trees give each candidate, by its row of this kind, a score that
/// is to be its throughput relative to the best known of its workload (kRegression), or higher for the faster one of
/// two of a workload (kRank). What was loaded is the global model of section 4; what is measured after that trains a
/// local one, whose score is added. Loops and curves carry over to other workloads. Knobs do not: each workload has
/// trees of its own, and a loaded model serves those whose knobs have the same names and sizes. What has no row, or
/// none that the model knows, is predicted as predicted_seconds. Predictions are times of a workload whose best is
/// known; for others they rank only. update: E709 rows of another width; knobs of which a loaded model has none
std::unique_ptr<CostModel> make_autotvm_trees(uint64_t seed, FeatureKind kind, Loss loss = Loss::kRank);
/// A multi-layer perceptron with two hidden layers on the same residual.
std::unique_ptr<CostModel> make_mlp(uint64_t seed);
/// No learning: predicted_seconds as they are.
std::unique_ptr<CostModel> make_prediction_only();
/// Ranks at random, the baseline that every model must beat.
std::unique_ptr<CostModel> make_random_model(uint64_t seed);

}  // namespace fettle
