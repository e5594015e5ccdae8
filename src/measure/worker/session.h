#pragma once
// What a worker does for its tuner: builds candidates, and runs each in a child of its own.
//
// Messages are JSON objects, answered in order:
//   {"do": "workload", "func": text, "target": {…}, "cache": folder, "seed": n, "ints": [n…],
//    "reference_trace": text}                                       → {"ok": true}
//   {"do": "build", "id": n, "trace": text, "limit_s": s}           → {"ok": true, "id": n, "build_s": s}
//   {"do": "measure", "id": n, "threads": n, "time": {…} or null, "timeout_s": s, "memory_bytes": n, "check": b}
//                                                                   → {"ok": true, "id": n, "median_s": s, …}
// A failure is {"ok": false, "id": n, "code": "E403", "signal": n, "message": text}. A built candidate is dropped once
// it was measured, and all of them with a new workload.

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/func.h"
#include "measure/protocol.h"
#include "measure/worker/buffers.h"
#include "measure/worker/candidate.h"

namespace fettle {

/// In tests: what candidate number `at` (counted from 0, by this worker) does wrong.
struct PlannedMisbehaviour {
  Misbehaviour what = Misbehaviour::kNone;
  int64_t at = 0;
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
  Result<Func> schedule(const std::string& trace) const;
  Result<> make_reference();
  Result<std::vector<std::vector<char>>> outputs_of(const LoadedKernel& candidate,
                                                    const BufferStore::Arguments& arguments) const;
  /// E405 where an output differs from the reference.
  Result<> check_outputs(const LoadedKernel& candidate, const BufferStore::Arguments& arguments) const;

  Channel channel_;
  PlannedMisbehaviour plan_;
  int64_t n_built_ = 0, n_run_ = 0;
  int signal_ = 0;  // of the last run
  Target target_;
  std::shared_ptr<ObjectCache> cache_;
  Func workload_;
  std::string reference_trace_;
  std::vector<int64_t> ints_;
  std::unique_ptr<BufferStore> store_;
  std::map<int64_t, std::shared_ptr<LoadedKernel>> candidates_;
  std::vector<std::vector<char>> reference_;  // one an output, row-major; empty: not computed yet
};

}  // namespace fettle
