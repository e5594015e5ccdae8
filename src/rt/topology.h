#pragma once
// Which CPUs this process may use. For rt's own sources.

#include <stdint.h>

namespace fettle::rt {

constexpr int32_t kMaxCpus = 4096;

struct CpuMask {
  uint64_t words[kMaxCpus / 64];
  bool has(int32_t cpu) const { return (words[cpu / 64] >> (cpu % 64)) & 1; }
};

/// Writes up to `capacity` numbers of the usable CPUs in the order in which a pinned team takes them. First comes one
/// hardware thread of each fast core, then the slow cores of a hybrid processor, then the rest, each group rising.
/// Returns how many. root: before the paths of the system's files; "" outside of tests.
int32_t usable_cores(const char* root, const CpuMask& usable, int32_t* cpus, int32_t capacity);

/// The CPUs that the calling thread may run on; false if they cannot be read.
bool affinity(CpuMask& mask);

/// Moves the calling thread off `cpu`, to stay on the others of `allowed`; nothing changes where there are none.
void avoid_cpu(CpuMask allowed, int32_t cpu);

/// Binds the calling thread to one CPU; where the system refuses, nothing changes.
void bind_this_thread(int32_t cpu);

/// CPUs that the text of a file `cpu.max` ("max 100000", "250000 100000") grants, rounded down but at least 1: threads
/// that the quota cannot keep running at once would wait for each other. 0: no limit.
int32_t quota_cpus(const char* cpu_max);

/// The smallest quota of the process's control groups (version 1 or 2) and those around them, as quota_cpus gives it;
/// 0: none. root: as above.
int32_t cgroup_cpus(const char* root);

}  // namespace fettle::rt
