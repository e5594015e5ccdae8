#include "driver/preference.h"

#include <fmt/format.h>

namespace fettle {
namespace {

std::string fact_key(const Plan& plan, int threads) {
  std::string text;
  for (const PlannedCall& call : plan.calls) text += plan.workloads[static_cast<size_t>(call.workload)].hash.hex();
  return fmt::format("untuned {} {}", digest_bytes(text).hex(), threads);
}

}  // namespace

Result<bool> prefers_untuned(const Plan& plan, Database& database, const Target& target, int threads) {
  FETTLE_TRY(const auto fact, database.fact(target.fingerprint().hex(), fact_key(plan, threads)));
  return fact && !fact->empty() && fact->front() != 0;
}

Result<> set_prefers_untuned(const Plan& plan, Database& database, const Target& target, int threads, bool prefers) {
  const double fact[] = {prefers ? 1.0 : 0.0};
  return database.set_fact(target.fingerprint().hex(), fact_key(plan, threads), fact);
}

}  // namespace fettle
