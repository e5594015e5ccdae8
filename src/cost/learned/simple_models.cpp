// Models that learn nothing.

#include "base/random.h"
#include "cost/cost_model.h"

namespace fettle {
namespace {

class PredictionOnly : public CostModel {
 public:
  std::string name() const override { return "prediction only"; }
  Result<> update(std::span<const CandidateFeatures>, std::span<const double>) override { return {}; }
  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    std::vector<double> result;
    for (const CandidateFeatures& c : candidates) result.push_back(c.predicted_seconds);
    return result;
  }
  Result<> save(const std::string&) const override { return {}; }
  Result<> load(const std::string&) override { return {}; }
};

class RandomModel : public CostModel {
 public:
  explicit RandomModel(uint64_t seed) : seed_(seed) {}
  std::string name() const override { return "random"; }
  Result<> update(std::span<const CandidateFeatures>, std::span<const double>) override { return {}; }
  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    RandomStream stream{seed_, calls_++};
    std::vector<double> result;
    for (size_t i = 0; i < candidates.size(); ++i) result.push_back(stream.uniform());
    return result;
  }
  Result<> save(const std::string&) const override { return {}; }
  Result<> load(const std::string&) override { return {}; }

 private:
  const uint64_t seed_;
  uint64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<CostModel> make_prediction_only() { return std::make_unique<PredictionOnly>(); }
std::unique_ptr<CostModel> make_random_model(uint64_t seed) { return std::make_unique<RandomModel>(seed); }

}  // namespace fettle
