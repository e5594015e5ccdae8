#pragma once
// Candidates timed on this machine, by worker processes: see worker/session.h for their side.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/runner.h"
#include "target/target.h"

namespace fettle {

struct LocalMeasurerOptions {
  Target target;
  int threads = 1;                    // that a candidate may use
  int workers = 0;                    // processes that build at once; 0: as many as threads are available, at most 8
  std::filesystem::path worker_path;  // empty: fettle-worker beside this program
  /// Where micro-kernels are kept; none: default_cache_folder(). Empty: in the workers' memory only.
  std::optional<std::filesystem::path> cache_folder;
  double build_timeout_s = 20;
  /// A candidate may run for timeout_factor times the incumbent's time, but at least min_timeout_s; without an
  /// incumbent, for first_timeout_s.
  double timeout_factor = 25;
  double min_timeout_s = 1;
  double first_timeout_s = 20;
  int64_t memory_bytes = int64_t{4} << 30;  // that a candidate may allocate
  /// A worker is replaced, between two batches, after so many candidates, or when it holds so much memory.
  int recycle_after = 1000;
  int64_t recycle_bytes = int64_t{1} << 30;
  std::vector<std::string> worker_args;  // for tests; not given to workers that replace others, unless
  bool worker_args_always = false;
};

struct MeasurerState;

/// Builds all candidates of a batch, on all workers; then times one after another, while nothing else runs here. A
/// worker that dies is replaced, and what it had not finished is done again, once. Ends its workers, and they what they
/// started, when it goes, also by a signal. Used by one thread at a time.
class LocalMeasurer : public Runner {
 public:
  /// E406 where no worker can be started.
  static Result<std::unique_ptr<LocalMeasurer>> start(LocalMeasurerOptions options);
  ~LocalMeasurer() override;

  Result<> set_workload(const Func& workload, const WorkloadOptions& options = {}) override;
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request = {}) override;
  const std::map<ErrorCode, int64_t>& failures() const override;

  /// Of the workers that run now.
  std::vector<int> worker_pids() const;
  /// Workers started in place of others.
  int64_t restarts() const;

 private:
  explicit LocalMeasurer(std::unique_ptr<MeasurerState> state);
  std::unique_ptr<MeasurerState> state_;
};

}  // namespace fettle
