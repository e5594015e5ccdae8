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
  if (!fact || fact->size() < 2) return std::optional<ModelChoice>();
  const bool last = (*fact)[0] == static_cast<double>(ImageLayout::kChannelsLast);
  ModelChoice choice{last ? ImageLayout::kChannelsLast : ImageLayout::kChannelsFirst, (*fact)[1] != 0, {}, {}};
  // How many are joined, these; then the defaults.
  const size_t n_joined = fact->size() > 2 && (*fact)[2] > 0 ? static_cast<size_t>((*fact)[2]) : 0;
  for (size_t i = 3; i < fact->size(); ++i)
    (i < 3 + n_joined ? choice.joined : choice.defaults).push_back(static_cast<int>((*fact)[i]));
  return choice;
}

Result<> keep_choice(const Graph& graph, Database& database, const Target& target, int threads,
                     const ModelChoice& choice) {
  FETTLE_TRY(const std::string key, fact_key(graph, threads));
  std::vector<double> fact = {static_cast<double>(choice.layout), choice.untuned ? 1.0 : 0.0,
                              static_cast<double>(choice.joined.size())};
  fact.insert(fact.end(), choice.joined.begin(), choice.joined.end());
  fact.insert(fact.end(), choice.defaults.begin(), choice.defaults.end());
  return database.set_fact(target.fingerprint().hex(), key, fact);
}

}  // namespace fettle
