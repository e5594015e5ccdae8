#pragma once
// Code that may do anything wrong, run in a process of its own within limits.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace fettle {

struct ChildLimits {
  double timeout_s = 10;                    // of wall-clock time
  int64_t memory_bytes = int64_t{4} << 30;  // that it may map beyond what is mapped already
  bool forbid_processes = true;             // off only in tests of what follows where the system has no filters
};

struct ChildOutcome {
  enum class End : uint8_t {
    kExited,     // by itself, with `code`
    kSignalled,  // by signal number `code`
    kTimedOut,
    kLeftProcesses,  // it ended, but others that it started had not
    kAbandoned,      // `give_up_fd` was closed at its other end
    kNotStarted,     // `code` is errno
  };
  End end = End::kNotStarted;
  int code = 0;
};

/// Forks; the child runs `body` and exits with its result (0 … 255). The calling process must have one thread. The
/// child may start threads but no processes (it dies of SIGSYS), leaves no core file, and dies with its parent.
/// `give_up_fd`: a socket whose closing at the other end ends the child, or -1. Every process that the child
/// started has ended when this returns, also where it left the child's group and session.
ChildOutcome run_in_child(const std::function<int()>& body, const ChildLimits& limits, int give_up_fd = -1);

/// What a process has of memory, as the system says; zeros where it does not.
struct ProcessMemory {
  int64_t mapped_bytes = 0;
  int64_t private_bytes = 0;  // resident, and shared with no file or other process
  int64_t data_bytes = 0;     // what RLIMIT_DATA counts
};
ProcessMemory memory_of(pid_t pid);

/// "Segmentation fault (signal 11)"
std::string signal_text(int signal);

}  // namespace fettle
