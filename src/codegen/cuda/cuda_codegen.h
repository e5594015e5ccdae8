#pragma once
// Kernels → CUDA C++.

#include <string>

#include "lower/device/device.h"

namespace fettle {

/// One translation unit with all kernels (`extern "C" __global__`), without includes, for NVRTC or nvcc. Parameters are
/// the buffers, then the integers (`long long`), in the order of each kernel's func. A kernel whose shared buffers
/// exceed 48 KiB, or which has tensor maps, takes them from dynamic shared memory: its launch asks for
/// dynamic_shared_bytes. Behind the integers come the tensor maps, by value. Buffers begin at multiples of 16 bytes.
/// Compile with --fmad=false where a*b + c must be two roundings. E301 where a construct has no code.
Result<std::string> emit_cuda(const DeviceProgram& program);

/// Shared memory that a kernel has without asking for more.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;
inline int64_t dynamic_shared_bytes(const DeviceKernel& kernel) {
  return kernel.shared_bytes > kStaticSharedBytes || !kernel.tensor_maps.empty() ? kernel.shared_bytes : 0;
}

}  // namespace fettle
