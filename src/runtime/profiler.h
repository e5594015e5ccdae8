#pragma once
// Where a model's time goes, kernel by kernel.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model.h"

namespace fettle {

struct KernelTime {
  std::string name;
  std::string origins;  // the model file's nodes that it does the work of, one a line: "Conv c1\nRelu r1"
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t min_ns = 0;  // of one call
};

/// Collects the times of a context's kernels from its making to its end. The context must outlive it and must not move.
class Profiler {
 public:
  explicit Profiler(ModelContext& context);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// By index of the kernel, with kernels that were never called.
  const std::vector<KernelTime>& times() const { return times_; }

  /// A table, the largest total first: share, total, calls, fastest call, name, origins. Times in microseconds.
  std::string to_string() const;

 private:
  static void record(void* self, int32_t kernel, int64_t begin_ns, int64_t end_ns);

  ModelContext& context_;
  std::vector<KernelTime> times_;
};

}  // namespace fettle
