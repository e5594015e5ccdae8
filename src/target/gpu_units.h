#pragma once
// What a GPU has many of.

#include <cstdint>

namespace fettle {

/// The units of a GPU, as its maker documents them. A multiprocessor runs several blocks at once, as many as its
/// threads, registers and shared memory hold.
struct GpuUnits {
  int multiprocessors = 1;
  int warp_threads = 32;
  int64_t threads_per_multiprocessor = 2048;
  int64_t registers_per_multiprocessor = 65536;  // of 32 bits
  int64_t shared_bytes_per_multiprocessor = 0;
  int64_t l2_bytes = 0;
  double memory_gb_per_s = 0;     // 1e9 bytes, reading and writing together
  double tensor_core_tflops = 0;  // of f16 factors, sums in f32, dense; 0: there are none
};

}  // namespace fettle
