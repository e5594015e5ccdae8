#include "driver/preference.h"

#include <fmt/format.h>

namespace fettle {
namespace {

/// The model by what it computes: the workloads of its plan by rule.
Result<std::string> fact_key(const Graph& graph, int threads) {
  FETTLE_TRY(const Plan plan, make_plan(graph));
  std::string text;
  for (const PlannedCall& call : plan.calls) text += plan.workloads[static_cast<size_t>(call.workload)].hash.hex();
  return fmt::format("model {} {}", digest_bytes(text).hex(), threads);
}

}  // namespace

Result<std::optional<ModelChoice>> find_choice(const Graph& graph, Database& database, const Target& target,
                                               int threads) {
  FETTLE_TRY(const std::string key, fact_key(graph, threads));
  FETTLE_TRY(const auto fact, database.fact(target.fingerprint().hex(), key));
  if (!fact || fact->size() != 2) return std::optional<ModelChoice>();
  const bool last = (*fact)[0] == static_cast<double>(ImageLayout::kChannelsLast);
  return ModelChoice{last ? ImageLayout::kChannelsLast : ImageLayout::kChannelsFirst, (*fact)[1] != 0};
}

Result<> keep_choice(const Graph& graph, Database& database, const Target& target, int threads,
                     const ModelChoice& choice) {
  FETTLE_TRY(const std::string key, fact_key(graph, threads));
  const double fact[] = {static_cast<double>(choice.layout), choice.untuned ? 1.0 : 0.0};
  return database.set_fact(target.fingerprint().hex(), key, fact);
}

}  // namespace fettle
