#pragma once
// How large, how many, how long: what the tracker takes from others, and how patient it is.

#include <cstddef>
#include <cstdint>

namespace fettle {

/// Raised with every change of proto/devices.proto that older programs would misread.
inline constexpr int kRemoteProtocol = 5;

inline constexpr int kMaxRemoteMessageBytes = 16 << 20;
inline constexpr size_t kMaxSubmitBytes = 4 << 20;  // of traces, by one call

struct TrackerLimits {
  size_t devices = 1024;
  size_t sessions = 256;
  size_t jobs = 8192;                     // of a session, that are not fetched
  size_t held_bytes = size_t{512} << 20;  // of workloads and traces, of all sessions
  size_t workloads = 16;                  // that a session is remembered to have sent
  size_t workload_bytes = 8 << 20;
  size_t trace_bytes = 1 << 20;
  size_t machine_bytes = 1 << 16;  // of its target's description
  size_t micro_kernels = 100'000;
  size_t name_bytes = 200;
  size_t message_bytes = 4096;  // of a failure; what is longer is cut
  size_t lease = 16;            // jobs that a device gets at once
  size_t quarantine = 4096;     // candidates that are remembered to have cost devices
};

struct TrackerTimes {
  double beat_s = 1;        // how often a device says that it lives
  double silence_s = 10;    // a device that was not heard of for so long is lost
  double stall_s = 600;     // and so is one that lives, but has no result for so long
  double session_s = 60;    // a session whose tuner was not heard of for so long is over
  double wait_s = 10;       // a call waits for so long at most
  double remember_s = 600;  // what kind of machine a key stands for, after its last device
};

/// A candidate is to blame when so many devices were lost while they measured it alone, or, where it is one of several
/// that are measured together, so many in all.
inline constexpr int kMaxLosses = 2, kMaxLossesTogether = 3;

}  // namespace fettle
