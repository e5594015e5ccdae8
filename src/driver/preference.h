#pragma once
// What is decided for a model as a whole, and remembered beside the records of its tasks.

#include <optional>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "graph/plan/plan.h"
#include "target/target.h"

namespace fettle {

/// What tuning found out about a model as a whole, on this machine.
struct ModelChoice {
  ImageLayout layout = ImageLayout::kChannelsLast;
  bool untuned = false;     // the defaults beat what is recorded for its tasks
  std::vector<int> joined;  // PlanOptions::joined
  /// Tasks that keep their defaults, since inside the model these are faster than what is recorded: numbers of
  /// workloads of make_plan(graph, {layout, joined}).
  std::vector<int> defaults;
};

/// What the database says, if tuning has been there. E502, E503.
Result<std::optional<ModelChoice>> find_choice(const Graph& graph, Database& database, const Target& target,
                                               int threads);
/// E502, E503, E505.
Result<> keep_choice(const Graph& graph, Database& database, const Target& target, int threads,
                     const ModelChoice& choice);

}  // namespace fettle
