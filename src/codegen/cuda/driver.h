#pragma once
// Drives the GPU of this machine through CUDA's driver API, which is loaded where it is present: memory, events,
// properties.

#include <cstdint>
#include <string>

#include "base/result.h"

namespace fettle {

/// Memory of the device; 0 is none.
using CudaAddress = uint64_t;

/// The first CUDA device of this machine, opened once in a process (not before a fork: a child cannot use it). Its
/// primary context is current in the thread that asked for it last. Every function: E710 where CUDA fails.
class CudaDevice {
 public:
  /// E710 where there is no libcuda.so.1, or no device
  static Result<const CudaDevice*> open();

  std::string name;
  std::string arch;        // "sm_90"
  int driver_version = 0;  // 13000: of CUDA 13.0
  int multiprocessors = 0;
  int64_t threads_per_block = 0, shared_bytes_per_block = 0;
  /// What machine code for this device alone is compiled for: what is Hopper's own has code for Hopper only.
  std::string machine_arch() const { return arch == "sm_90" ? "sm_90a" : arch; }

  /// Plain memory, at least of one byte, 256-byte aligned.
  Result<CudaAddress> allocate(int64_t bytes) const;
  void free(CudaAddress at) const;
  Result<> write(CudaAddress to, const void* from, int64_t bytes) const;
  Result<> read(void* to, CudaAddress from, int64_t bytes) const;
  /// From one place of the device to another.
  Result<> copy(CudaAddress to, CudaAddress from, int64_t bytes) const;
  Result<> fill(CudaAddress at, uint8_t value, int64_t bytes) const;
  /// Until all work is done; at most `timeout_s`, after which the device is lost to this process: E402.
  Result<> wait(double timeout_s) const;

  /// Points in the stream of work, for timing.
  Result<uintptr_t> make_event() const;
  void destroy_event(uintptr_t event) const;
  Result<> record(uintptr_t event) const;
  /// Waits for `end`.
  Result<double> seconds_between(uintptr_t begin, uintptr_t end) const;
};

/// True if there is a CUDA device, and NVRTC to compile for it.
bool has_cuda_device();

}  // namespace fettle
