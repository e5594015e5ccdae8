#pragma once
// KernelCosts as the compiler knows them: records, else what the analytic model predicts of the untuned default.

#include <limits>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/hash.h"
#include "codegen/kernel_source.h"
#include "cost/predict/micro_kernel_table.h"
#include "database/database.h"
#include "driver/kernels.h"
#include "graph/plan/costs.h"
#include "target/target.h"

namespace fettle {

class KnownKernelCosts : public KernelCosts {
 public:
  /// micro-kernels: null for the analytic model alone; database: null for predictions alone. Both must outlive this.
  /// max_error_bound: of the untuned default. sources: whose kernels' records count.
  KnownKernelCosts(Target target, const MicroKernelTable* micro_kernels, Database* database,
                   double max_error_bound = std::numeric_limits<double>::infinity(), KernelSources sources = {})
      : target_(std::make_shared<const Target>(std::move(target))),
        micro_kernels_(micro_kernels),
        database_(database),
        max_error_bound_(max_error_bound),
        sources_(std::move(sources)) {}
  /// Infinity where the program cannot be lowered.
  double seconds(const Func& workload, int threads) override;
  /// What exceeds a quarter of the second-level caches is written, with the lines read before, and read again from
  /// beyond.
  double intermediate_seconds(int64_t bytes, int threads) override;
  /// The untuned default that was constructed for the costs of this workload (canonical_hash), or null.
  const MadeSchedule* made_default(const Digest& workload, int threads) const;

 private:
  double find(const Func& workload, const Digest& key, int threads);

  std::shared_ptr<const Target> target_;
  const MicroKernelTable* micro_kernels_;
  Database* database_;
  double max_error_bound_;
  KernelSources sources_;
  std::unordered_map<Digest, double> known_;
  std::unordered_map<Digest, MadeSchedule> defaults_;
};

}  // namespace fettle
