#pragma once
// A cost model as a user names it, with the description of candidates that it learns from.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cost/cost_model.h"
#include "tune/describe.h"

namespace fettle {

struct CostModelDef {
  using Describe = DescribeFn (*)(std::shared_ptr<const Target> target, int threads,
                                  const MicroKernelTable* micro_kernels);

  std::string_view name;
  std::string_view meaning;  // one sentence
  std::unique_ptr<CostModel> (*make)(uint64_t seed);
  Describe describe;
  std::vector<float> CandidateFeatures::* learns_from;  // of a description
  const std::vector<std::string>& (*columns)();         // of a row; null: they depend on the task
  /// What candidates need of `describe` while the model does not ask for a prediction; null: all of it.
  Describe describe_unpredicted = nullptr;
  bool many_rows = false;  // of one candidate
};

}  // namespace fettle
