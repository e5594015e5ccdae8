#pragma once
// Runs of candidates on a device: in a process that opens it once and is given one candidate after another. A fault or
// a hang there costs that process; the worker starts another. What uses CUDA cannot be copied, so each candidate cannot
// have a process of its own.

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/device_def.h"
#include "measure/protocol.h"
#include "measure/timing.h"
#include "measure/worker/candidate.h"

namespace fettle {

/// A kernel and what it is called with; its prologue has run.
struct DeviceCall {
  const LoadedKernel* kernel = nullptr;
  const BufferStore::Arguments* arguments = nullptr;
};

class DeviceProcess {
 public:
  /// tuner_fd: the worker's socket, which the process must not hold open.
  DeviceProcess(const DeviceDef& device, int tuner_fd) : device_(device), tuner_fd_(tuner_fd) {}
  ~DeviceProcess() { end(); }
  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;

  /// Begins to open the device, if it has not begun; returns at once. E406 no process can be started.
  Result<> start();

  /// One run, as request.timing says. request.beside's kernel stays on the device for the next run. `fetch`: inputs
  /// are copied there anew before, and what outputs come to is in `arguments` after. Errors as run_candidate's, and
  /// E406 there is no such device.
  Result<Timing> run(const DeviceCall& candidate, size_t n_params, const std::vector<int64_t>& ints,
                     const RunRequest& request, bool fetch, int* signal);

 private:
  Result<> ready();
  /// How it ended, as what became of the candidate.
  tl::unexpected<Diagnostic> lost(int* signal);
  void end();

  const DeviceDef& device_;
  const int tuner_fd_;
  pid_t pid_ = -1;
  bool is_ready_ = false;
  Channel channel_;
  std::set<uint64_t> slots_;                    // that are there
  std::shared_ptr<const LoadedKernel> beside_;  // that is there
};

}  // namespace fettle
