#pragma once
// The cost models that a user can name, each with the description of candidates that it learns from.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/cost_model.h"
#include "tune/describe.h"

namespace fettle {

struct CostModelDef {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<CostModel> (*make)(uint64_t seed);
  DescribeFn (*describe)(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms);
  std::vector<float> CandidateFeatures::* row;   // what of a description it learns from
  const std::vector<std::string>& (*columns)();  // of a row; null: they depend on the task
  /// What candidates need of `describe` while the model does not ask for a prediction; null: all of it.
  DescribeFn (*describe_unpredicted)(std::shared_ptr<const Target> target, int threads,
                                     const AtomTable* atoms) = nullptr;
};

/// "trees" (the default) first.
std::span<const CostModelDef> cost_models();
/// Null: there is none of this name.
const CostModelDef* find_cost_model(std::string_view name);

}  // namespace fettle
