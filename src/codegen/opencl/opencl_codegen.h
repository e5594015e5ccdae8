#pragma once
// Kernels → OpenCL C.

#include <string>

#include "lower/device/device.h"

namespace fettle {

/// One program with all kernels, OpenCL C 1.2. Parameters are the buffers (`__global`), then the integers (`long`), in
/// the order of each kernel's func; the work group has the size of the kernel's block. E301 where a construct has no
/// code.
Result<std::string> emit_opencl(const DeviceProgram& program);

}  // namespace fettle
