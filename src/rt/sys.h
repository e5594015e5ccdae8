#pragma once
// The few things asked of the system and the processor. For rt's own sources.

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>  // header only: no symbol of libstdc++ is needed for lock-free types

namespace fettle::rt {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline void cpu_relax() { __builtin_ia32_pause(); }

/// The CPU that the calling thread runs on at this moment: some 20 cycles, no system call.
inline int32_t current_cpu() {
  unsigned aux;
  __builtin_ia32_rdtscp(&aux);
  return static_cast<int32_t>(aux & 0xfff);
}

/// How often the system has given the calling thread's CPU to another thread.
inline int64_t times_displaced() {
  rusage usage;
  return syscall(SYS_getrusage, RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/// Sleeps while *word == expected, until woken; may return for no reason.
inline void futex_wait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

inline void futex_wake(std::atomic<uint32_t>* word, int32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}
inline void futex_wake_one(std::atomic<uint32_t>* word) { futex_wake(word, 1); }
inline void futex_wake_all(std::atomic<uint32_t>* word) { futex_wake(word, INT32_MAX); }

}  // namespace fettle::rt
