#include "cost/learned/learned_correction.h"

#include <algorithm>

#include "base/hash.h"
#include "cost/predict/predict.h"

namespace fettle {
namespace {

#include "cost/learned/learned_correction_trees.inc"

}  // namespace

double sum_of_trees(std::span<const CorrectionTree> trees, std::span<const float> features) {
  double sum = 0;
  for (const CorrectionTree& tree : trees) {
    int node = 0;
    for (int depth = 0; depth < CorrectionTree::kDepth; ++depth)
      node = 2 * node + (features[tree.feature[node]] < tree.threshold[node] ? 1 : 2);
    sum += tree.leaf[node - CorrectionTree::kSplits];
  }
  return sum;
}

double learned_correction(std::span<const float> features) {
  return std::clamp(sum_of_trees(kTrees, features), -1.0, 1.0);
}

uint64_t hash_of_features() {
  uint64_t hash = 0;
  for (const std::string& name : feature_names()) hash = hash_bytes(name, hash);
  return hash;
}

uint64_t hash_of_corrected_features() { return kTrainedOn; }

}  // namespace fettle
