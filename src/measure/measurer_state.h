#pragma once
// What a LocalMeasurer holds: its workers, and how one of them is asked.

#include <nlohmann/json.hpp>

#include "measure/local_measurer.h"
#include "measure/worker_process.h"

namespace fettle {

struct MeasurerState {
  struct Worker {
    WorkerProcess process;
    int64_t workload = -1;  // number of the workload that it knows
    int candidates = 0;     // that it has built
    bool started = false;   // this one, or one before it
  };

  LocalMeasurerOptions options;
  std::vector<Worker> workers;
  int64_t workload = 0;  // its number
  nlohmann::json workload_message;
  std::map<ErrorCode, int64_t> failures;
  int64_t restarts = 0;
  int64_t next_id = 0;

  /// Starts the worker, in place of the one that there is. E406.
  Result<> start(Worker& worker);
  /// One request and its reply. E406 where the worker is lost; then it has been ended, and the message says how.
  Result<nlohmann::json> ask(Worker& worker, const nlohmann::json& request, double timeout_s);
  Result<> send(Worker& worker, const nlohmann::json& request);
  Result<nlohmann::json> receive(Worker& worker, Deadline deadline, double timeout_s);
  /// A running worker that knows the workload. E406; E1xx, E7xx where the workload itself is refused.
  Result<> ready(Worker& worker);
  /// Replaces workers that have built many candidates or hold much memory.
  Result<> recycle();
  /// What a candidate may take, given the best so far (0: none).
  double timeout_s(double incumbent_s) const;

 private:
  tl::unexpected<Diagnostic> lost(Worker& worker, const std::string& why);
};

/// What a worker said of a failure.
ErrorCode code_in(const nlohmann::json& reply);
std::string message_in(const nlohmann::json& reply);

}  // namespace fettle
