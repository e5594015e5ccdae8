#pragma once
// What is decided for a model as a whole, and remembered beside the records of its tasks.

#include <optional>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "codegen/kernel_source.h"
#include "database/database.h"
#include "graph/plan/plan.h"
#include "target/target.h"

namespace fettle {

/// What tuning found out about a model as a whole, on this machine. Workloads go by the hashes of their programs, which
/// mean the same whatever partition or the passes become.
struct ModelChoice {
  ImageLayout layout = ImageLayout::kChannelsLast;
  bool untuned = false;       // the defaults beat what is recorded for its tasks
  std::vector<Digest> fused;  // of fused_programs: those that become one kernel
  /// Tasks that keep their defaults, since inside the model these are faster than what is recorded.
  std::vector<Digest> defaults;
};

/// PlanOptions::fused of a choice. What the graph does not have any more is left out. Errors: those of fused_programs.
Result<std::vector<int>> fused_numbers(const Graph& graph, const ModelChoice& choice);
/// The other way round, for the numbers in this layout.
Result<std::vector<Digest>> fused_hashes(const Graph& graph, ImageLayout layout, const std::vector<int>& numbers);

/// What the database says, if tuning has been there with these sources of kernels, whose offers the choice compared.
/// E502, E503.
Result<std::optional<ModelChoice>> find_choice(Plans& plans, Database& database, const Target& target, int threads,
                                               const KernelSources& sources = {});
/// E502, E503, E505.
Result<> keep_choice(Plans& plans, Database& database, const Target& target, int threads, const ModelChoice& choice,
                     const KernelSources& sources = {});

}  // namespace fettle
