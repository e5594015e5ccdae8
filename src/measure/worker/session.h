#pragma once
// What a worker does for its tuner: builds candidates, and runs each in a child of its own.
//
// Messages are JSON objects, answered in order:
//   {"do": "workload", "func": text, "target": {…}, "cache": folder, "seed": n, "ints": [n…],
//    "reference_trace": text}                                       → {"ok": true}
//   {"do": "build", "id": n, "first_id": n, "trace": text, "limit_s": s}
//                                                                   → {"ok": true, "id": n, "build_s": s}
//   {"do": "measure", "id": n, "keep": b, "threads": n, "time": {…} or null, "beside": trace or "", "timeout_s": s,
//    "prologue_s": s, "memory_bytes": n, "check": b}                → {"ok": true, "id": n, "median_s": s, …}
// A failure is {"ok": false, "id": n, "code": "E403", "signal": n, "message": text}. A built candidate is dropped once
// it was measured, unless it is to be kept; with the next build, where its id is below first_id; and with a new
// workload.

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "ir/func.h"
#include "measure/protocol.h"
#include "measure/worker/buffers.h"
#include "measure/worker/candidate.h"
#include "measure/worker/device_process.h"

namespace fettle {

/// In tests: what candidate number `at` (counted from 0, by this worker) does wrong. With `every` n: one in n, by their
/// ids, from the n-th on, misbehaves, as planned_by_id says.
struct PlannedMisbehaviour {
  Misbehaviour what = Misbehaviour::kNone;
  int64_t at = 0;
  int64_t every = 0;
};

/// One an output of the workload, row-major.
using Outputs = std::vector<std::vector<char>>;

/// What the outputs should be. Small workloads: all that the plain program computes. Larger ones: the sample of it
/// that can be computed in time or, where a trusted trace agrees with that, all that this trace computes.
struct Reference {
  Outputs outputs;
  std::vector<std::vector<bool>> known;  // of each output, the elements that count; empty: all of all
};

class Session {
 public:
  Session(Channel channel, PlannedMisbehaviour plan) : channel_(std::move(channel)), plan_(plan) {}

  /// Serves until the tuner closes its end: 0. A message that makes no sense: 2.
  int serve();

 private:
  Result<nlohmann::json> answer(const nlohmann::json& message);
  Result<nlohmann::json> on_workload(const nlohmann::json& message);
  Result<nlohmann::json> on_build(const nlohmann::json& message);
  Result<nlohmann::json> on_measure(const nlohmann::json& message);

  Result<std::shared_ptr<LoadedKernel>> build(const Func& scheduled, bool plain);
  Result<Beside*> beside(const std::string& trace);
  Result<Func> schedule(const std::string& trace) const;
  /// In a child, or in the device's process. `fetch`: its outputs are to be in `arguments` after.
  Result<Timing> run(const LoadedKernel& kernel, BufferStore::Arguments& arguments, const RunRequest& request,
                     bool fetch);
  Result<Outputs> computed_by(const Func& scheduled, bool plain);
  Result<Outputs> outputs_of(const LoadedKernel& candidate, const BufferStore::Arguments& arguments);
  Result<Reference> sample();
  Result<Reference> make_reference();
  Result<> keep_reference();
  /// What is wrong with `outputs`, or nothing.
  std::optional<std::string> difference(const Outputs& outputs, const Reference& reference, double error_bound) const;

  Misbehaviour planned(int64_t number, int64_t id) const;

  Channel channel_;
  PlannedMisbehaviour plan_;
  int64_t n_built_ = 0, n_run_ = 0;
  int signal_ = 0;  // of the last run
  Target target_;
  const Target host_ = detect_host();
  std::shared_ptr<ObjectCache> cache_;
  Func workload_;
  std::string reference_trace_;
  std::vector<int64_t> ints_;
  IntEnv bindings_;  // the same, by the workload's variables
  std::unique_ptr<BufferStore> store_;
  const DeviceDef* device_ = nullptr;              // of the target
  std::unique_ptr<DeviceProcess> device_process_;  // of a device with memory of its own
  std::map<int64_t, std::shared_ptr<LoadedKernel>> candidates_;
  std::optional<Beside> beside_;              // of the last candidate
  Digest key_;                                // of the workload and what its buffers hold
  std::map<Digest, Reference> references_;    // by that
  std::vector<std::vector<int64_t>> shapes_;  // of the outputs
};

}  // namespace fettle
