#pragma once
// What learned cost models learn from: candidates' features, and by how much the prediction missed what was measured.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/cost_model.h"

namespace fettle {

/// One row a candidate; of many, the last kMostRows. Kept in files as it is: training is deterministic, so a model that
/// is read is trained again, and goes on from there.
class Residuals {
 public:
  static constexpr size_t kMostRows = 20000;
  static constexpr float kLargest = 3;  // e^3 = 20 times off; what failed counts as this

  /// One batch. Candidates without a prediction are passed over.
  void add(std::span<const CandidateFeatures> candidates, std::span<const double> seconds);

  size_t rows() const { return labels_.size(); }
  size_t features() const { return n_features_; }
  const std::vector<float>& values() const { return values_; }  // rows x features
  const std::vector<float>& labels() const { return labels_; }  // log(measured / predicted), within ±kLargest
  const std::vector<float>& weights() const {
    return weights_;
  }  // what is far from the best of its batch need not be known well
  const std::vector<float>& predicted() const { return predicted_; }  // log of predicted seconds
  const std::vector<unsigned>& batches() const { return batches_; }   // rows of each batch, in order

  /// The candidates' values, row by row, to be predicted. All must have features() of them.
  std::vector<float> rows_of(std::span<const CandidateFeatures> candidates) const;

  /// `model` names what was trained; a file of another model, or of a version with other features, is not read. E702.
  Result<> save(const std::string& path, std::string_view model) const;
  /// E701 no such file · E503 damaged, or not of this model and version.
  Result<> load(const std::string& path, std::string_view model);

 private:
  size_t n_features_ = 0;
  std::vector<float> values_, labels_, weights_, predicted_;
  std::vector<unsigned> batches_;
};

/// A model that learns by how much the prediction is off. Its file holds what it has learned from.
class ResidualModel : public CostModel {
 public:
  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) final;
  /// What was predicted, corrected where there is a correction.
  std::vector<double> predict(std::span<const CandidateFeatures> candidates) final;
  Result<> save(const std::string& path) const final { return data_.save(path, name()); }
  Result<> load(const std::string& path) final;

 protected:
  /// Anew, from data().
  virtual void train() = 0;
  /// Multiplies each time by what is missed. Called once there are candidates; does nothing as long as too little is
  /// known.
  virtual void correct(std::span<const CandidateFeatures> candidates, std::vector<double>& seconds) = 0;
  const Residuals& data() const { return data_; }

 private:
  Residuals data_;
};

}  // namespace fettle
