#include "driver/kernel_costs.h"

#include <limits>

#include "cost/predict.h"
#include "driver/untuned.h"
#include "ir/compare.h"
#include "measure/builder.h"

namespace fettle {

double KnownKernelCosts::seconds(const Func& workload, int threads) {
  const Digest key = digest_bytes(canonical_hash(workload).hex() + " " + std::to_string(threads));
  const auto [found, fresh] = known_.emplace(key, 0);
  if (fresh) found->second = find(workload, threads);
  return found->second;
}

double KnownKernelCosts::find(const Func& workload, int threads) const {
  if (database_) {
    const auto best = best_checked(*database_, make_task_key(workload, *target_, threads, program_versions()));
    if (best && *best) return (*best)->median_s;
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto schedule = untuned_schedule(workload, target_, threads);
  if (!schedule) return kNever;
  const auto lowered = lower(schedule->func(), *target_);
  return lowered ? predict_seconds(*lowered, *target_, threads, atoms_) : kNever;
}

}  // namespace fettle
