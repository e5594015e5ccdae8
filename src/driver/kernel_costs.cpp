#include "driver/kernel_costs.h"

#include <limits>

#include "codegen/build.h"
#include "cost/predict/machine_costs.h"
#include "cost/predict/predict.h"
#include "driver/untuned.h"
#include "ir/compare.h"
#include "target/caches.h"

namespace fettle {
namespace {

Digest key_of(const Digest& workload, int threads) {
  return digest_bytes(workload.hex() + " " + std::to_string(threads));
}

}  // namespace

double KnownKernelCosts::seconds(const Func& workload, int threads) {
  const Digest key = key_of(canonical_hash(workload), threads);
  const auto [found, fresh] = known_.emplace(key, 0);
  if (fresh) found->second = find(workload, key, threads);
  return found->second;
}

const MadeSchedule* KnownKernelCosts::made_default(const Digest& workload, int threads) const {
  const auto found = defaults_.find(key_of(workload, threads));
  return found == defaults_.end() ? nullptr : &found->second;
}

double KnownKernelCosts::intermediate_seconds(int64_t bytes, int threads) {
  const int64_t l2 = cache_bytes(*target_, 1);
  if (bytes <= l2 / 4 * threads) return 0;
  constexpr double kLine = 64;
  const MachineCosts costs = describe_costs(*target_);
  const double lines = static_cast<double>(bytes) / kLine;
  return lines * costs.hand_over_line_cycles / (costs.hz * threads);
}

double KnownKernelCosts::find(const Func& workload, const Digest& key, int threads) {
  if (database_) {
    const auto best = best_checked(*database_, make_task_key(workload, *target_, threads, program_versions()),
                                   [&](const Record& record) { return is_allowed(record.trace, sources_); });
    if (best && *best) return (*best)->median_s;
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto schedule = untuned_schedule(workload, target_, threads, max_error_bound_);
  if (!schedule) return kNever;
  defaults_[key] = made_schedule(*schedule);
  const auto lowered = lower(schedule->func(), *target_, {.pipeline = Pipeline::kUnexpanded, .prologue = false});
  return lowered ? predict_seconds(*lowered, *target_, threads, micro_kernels_) : kNever;
}

}  // namespace fettle
