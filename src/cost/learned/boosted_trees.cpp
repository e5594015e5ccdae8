// Boosted trees, by XGBoost's C interface.

#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "cost/learned/boosting.h"
#include "cost/learned/residuals.h"

namespace fettle {
namespace {

constexpr size_t kLeastRows = 8;  // with fewer, nothing is learned
constexpr int kRounds = 80;
constexpr float kSharpness = 12;  // ranks: a time longer by 1/12 is worse with odds of e to 1

class BoostedTrees : public ResidualModel {
 public:
  BoostedTrees(uint64_t seed, Loss loss) : seed_(seed), loss_(loss) {}

  std::string name() const override { return loss_ == Loss::kRank ? "boosted trees by rank" : "boosted trees"; }

 private:
  void correct(std::span<const CandidateFeatures> candidates, std::vector<double>& seconds) override {
    if (!booster_) return;
    const Matrix matrix = make_matrix(data().rows_of(candidates), candidates.size(), data().features());
    if (loss_ == Loss::kRank) set_info(matrix, "base_margin", std::vector<float>(candidates.size(), 0.0f));
    const std::vector<float> scores = scores_of(booster_, matrix);
    // Regression: the logarithm of what is missed. Ranks: higher is faster, beyond what was predicted.
    const double unit = loss_ == Loss::kRank ? -1 / static_cast<double>(kSharpness) : 1;
    for (size_t i = 0; i < seconds.size(); ++i) seconds[i] *= std::exp(unit * static_cast<double>(scores[i]));
  }

  void train() override {
    booster_.reset();
    if (data().rows() < kLeastRows) return;
    const Matrix matrix = make_matrix(data().values(), data().rows(), data().features());
    std::vector<std::pair<const char*, std::string>> params = {
        {"max_depth", "5"}, {"eta", "0.12"}, {"min_child_weight", "0.5"}};
    std::vector<float> targets = data().labels();
    if (loss_ == Loss::kRegression) {
      const auto& labels = data().labels();
      const auto& weights = data().weights();
      const double weight = std::accumulate(weights.begin(), weights.end(), 0.0);
      const double sum = std::inner_product(labels.begin(), labels.end(), weights.begin(), 0.0);
      set_info(matrix, "weight", weights);
      params.insert(params.end(), {{"objective", "reg:squarederror"}, {"base_score", fmt::format("{}", sum / weight)}});
    } else {
      // Of two candidates of a batch, the faster one; the trees add to what the prediction says.
      std::vector<float> margins = data().predicted();
      for (size_t i = 0; i < targets.size(); ++i) targets[i] = -(targets[i] + margins[i]);
      for (float& margin : margins) margin *= -kSharpness;
      set_info(matrix, "base_margin", margins);
      set_info(matrix, "group", data().batches());
      params.push_back({"objective", "rank:pairwise"});
    }
    set_info(matrix, "label", targets);
    booster_ = make_booster(matrix, seed_, params);
    grow(booster_, matrix, kRounds);
  }

  const uint64_t seed_;
  const Loss loss_;
  Booster booster_;
};

}  // namespace

std::unique_ptr<CostModel> make_boosted_trees(uint64_t seed, Loss loss) {
  return std::make_unique<BoostedTrees>(seed, loss);
}

}  // namespace fettle
