#pragma once
// Which CPUs this process may use. For rt's own sources.

#include <stdint.h>

namespace fettle::rt {

/// Writes up to `capacity` numbers of usable CPUs in the order in which a pinned team takes them: rising, one of each
/// core first, then their hardware siblings. Returns how many; 0 if the affinity mask cannot be read.
int32_t usable_cores(int32_t* cpus, int32_t capacity);

constexpr int32_t kMaxCpus = 4096;

struct CpuMask {
  uint64_t words[kMaxCpus / 64];
  bool has(int32_t cpu) const { return (words[cpu / 64] >> (cpu % 64)) & 1; }
};

/// The CPUs that the calling thread may run on; false if they cannot be read.
bool affinity(CpuMask& mask);

/// Moves the calling thread off `cpu`, to stay on the others of `allowed`; nothing changes where there are none.
void avoid_cpu(CpuMask allowed, int32_t cpu);

/// Binds the calling thread to one CPU; where the system refuses, nothing changes.
void bind_this_thread(int32_t cpu);

/// CPU quota of the cgroup that the text of a file `cpu.max` ("max 100000", "150000 100000") states, rounded up; 0:
/// none.
int32_t quota_cpus(const char* cpu_max);

}  // namespace fettle::rt
