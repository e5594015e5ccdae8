#pragma once
// What a machine is: features, registers, caches, threads, memory scopes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "target/accelerator_units.h"
#include "target/gpu_units.h"

namespace fettle {

/// A memory scope as a target declares it. verify and barrier insertion know scopes by this alone.
struct MemoryScope {
  std::string name;            // "global", "register", "shared", …
  std::string parent;          // empty for the outermost
  int64_t capacity_bytes = 0;  // 0: unlimited
  int alignment_bytes = 1;
  /// The kind of loop whose iterations share one copy: "" (all), "thread", "warp", "block", "vthread" (each virtual
  /// thread that encloses all accesses of a buffer has its own), …
  std::string shared_by;
};

struct CacheLevel {
  int64_t size_bytes = 0;
  int ways = 0;
  int line_bytes = 64;
  int shared_by_threads = 1;
};

/// An axis of a GPU's launch: loops can be bound to it.
struct ThreadAxis {
  std::string name;        // "blockIdx.x", "threadIdx.y", …
  int64_t max_extent = 0;  // threads, or blocks, along it
};

struct Target {
  std::string kind = "llvm";      // "llvm", "c", "opencl", "cuda", "dae"
  std::string arch = "x86_64";    // instruction set, as LLVM's triples name it: "x86_64", "aarch64"
  std::string cpu = "x86-64-v4";  // LLVM's name of the CPU or level; of a GPU its architecture: "sm_80"
  std::string features;           // LLVM's feature string: "+avx512f,+avx512vnni,…", sorted
  int vector_bits = 512;          // widest legal vector register
  int vector_registers = 32;
  int fma_per_cycle = 2;  // full-width vector FMAs that can start in a cycle
  int fma_latency_cycles = 4;
  double frequency_ghz = 3.0;      // nominal; peaks are measured (cost room)
  std::vector<CacheLevel> caches;  // L1 data first
  int threads = 1;                 // that a kernel may use
  int streams = 1;                 // calls that run at once, each on `threads` of its own (share_of)
  std::vector<MemoryScope> scopes;
  std::vector<ThreadAxis> thread_axes;          // empty: no loop can be bound to threads, but for virtual ones
  int64_t max_threads_per_block = 0;            // of all axes together
  std::optional<AcceleratorUnits> accelerator;  // kind "dae"
  std::optional<GpuUnits> gpu;                  // kinds "cuda" and "opencl"

  int vector_lanes(int element_bytes) const { return vector_bits / 8 / element_bytes; }
  const MemoryScope* find_scope(std::string_view name) const;
  const ThreadAxis* find_thread_axis(std::string_view name) const;
  bool has_threads() const { return !thread_axes.empty(); }
  bool has_feature(std::string_view llvm_name) const;  // "avx512vnni"

  /// What generated code depends on: kind, cpu features, vector width (not caches, frequency or threads).
  std::string feature_key() const;
  /// feature_key plus caches and streams, so what timings depend on; threads are a field of their own in records.
  Digest fingerprint() const;
};

/// This machine, with `threads` (0: as many as the process may use: affinity mask and container quota).
Target detect_host(int threads = 0);
/// "host"; "x86-64-amx", "x86-64-avx512", "x86-64-avx2", "aarch64-neon" (Armv8.0), "aarch64-dotprod" (Armv8.2, dot and
/// matrix products), with usual caches, for cross compilation and tests; "opencl" (what every device of some size has);
/// "cuda", "cuda -arch sm_80", sm_90 or sm_90a; "dae" (accelerator.h). E709.
Result<Target> parse_target(std::string_view text);
/// The machine as one of `streams` calls at once sees it: with `threads`, or, where that is 0, its part of those of the
/// machine. Of each cache that streams share it has its part, by how many threads share that.
///   8 threads, L2 1 MiB of one each, L3 32 MiB of all; 4 streams   →   2 threads, L2 1 MiB, L3 8 MiB
/// One stream: the machine itself, with `threads` if they are given. E709 streams < 1, they need more threads than
/// machine.threads, or the machine is no CPU.
Result<Target> share_of(Target machine, int streams, int threads = 0);
/// This machine, as a call on so many threads sees it that shares it with so many others that the fingerprint is this
/// one. Nothing: the fingerprint is another machine's.
std::optional<Target> host_of(const Digest& fingerprint, int threads);
/// Threads that this process may use: affinity mask and cgroup CPU quota, rounded up.
int available_threads();
/// One line: "x86-64 AVX-512, 32 registers, L1 32 KiB, L2 1 MiB, L3 32 MiB, 2 threads"; ", 4 streams" if there are.
std::string describe(const Target& target);

}  // namespace fettle
