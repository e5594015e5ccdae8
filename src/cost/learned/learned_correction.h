#pragma once
// What tuning other programs on several machines taught about the prediction.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// To be added to the logarithm of a program's predicted seconds, from its features (feature_names()): by how much the
/// prediction misses programs like this one, compared with others of its workload. It improves their order, not the
/// seconds. Within ±1.
///
/// A sum of small trees, in learned_correction.txt; `bench-learning` trains them and says what they are worth
/// (docs/search.md, "The model that ranks").
double learned_correction(std::span<const float> features);

/// A tree all of whose paths are as long: node i goes on to 2i + 1 where the feature is less than the threshold, else
/// to 2i + 2; leaves follow the splits.
struct CorrectionTree {
  static constexpr int kDepth = 4;
  static constexpr int kSplits = (1 << kDepth) - 1;

  uint8_t feature[kSplits];
  float threshold[kSplits];
  float leaf[kSplits + 1];
};
double sum_of_trees(std::span<const CorrectionTree> trees, std::span<const float> features);

/// Of the names of features.
uint64_t hash_of_features();

struct Correction {
  uint64_t features = 0;  // hash_of_features() when it was trained
  std::vector<CorrectionTree> trees;
};
/// The hash, then a tree a line: features, thresholds, leaves.
std::string to_text(const Correction& correction);
/// E503 it is no such text
Result<Correction> parse_correction(std::string_view text);
/// That of learned_correction.txt.
const Correction& kept_correction();

}  // namespace fettle
