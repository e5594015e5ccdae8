#pragma once
// A worker process, as its tuner sees it.

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "measure/protocol.h"

namespace fettle {

/// Owns the process: it ends when this does.
class WorkerProcess {
 public:
  /// Starts it and waits for its greeting. E406.
  static Result<WorkerProcess> start(const std::filesystem::path& program, const std::vector<std::string>& args);
  /// Starts any program, looked for as a shell does, with the socket at the descriptors `socket_fds`; of standard input
  /// and output it has what stands there, else nothing to read, and what it prints is kept. E406.
  static Result<WorkerProcess> spawn(const std::string& program, const std::vector<std::string>& args,
                                     const std::set<int>& socket_fds);
  WorkerProcess() = default;
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess();

  pid_t pid() const { return pid_; }
  bool is_running() const { return pid_ > 0; }
  Channel& channel() { return channel_; }
  /// Ends it, at once if it does not do so by itself within `patience_s`. Returns how it ended and the last lines that
  /// it printed: "Aborted (signal 6): Check failed: …".
  std::string end(double patience_s);

 private:
  pid_t pid_ = -1;
  int output_fd_ = -1;  // a file in memory that takes what it prints
  Channel channel_;
};

}  // namespace fettle
