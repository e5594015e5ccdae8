#pragma once
// Builds and runs programs with the OpenCL of this machine, to see whether they are right; how fast they are says
// little where the device is a CPU.

#include <cstdint>
#include <span>

#include "ir/interpret.h"
#include "lower/device/device.h"

namespace fettle {

struct OpenClOptions {
  double timeout_s = 60.0;  // for all launches together
};

/// Copies the arguments (in the order of program.host->params, then its integers) to the first OpenCL device, builds
/// the kernels, launches them, and copies the outputs back. E104 wrong arguments · E230 a block has more threads, or
/// more shared memory, than this device has · E301 no code for a construct E302 a kernel does not build, with the build
/// log · E402 time is up (the device is then given up: the next run makes a new context) · E710 there is no OpenCL, or
/// it failed
Result<> run_opencl(const DeviceProgram& program, std::span<const BufferArg> buffers,
                    std::span<const int64_t> ints = {}, const OpenClOptions& options = {});

/// The same of given kernel source, whose kernels have the names of the program's.
Result<> run_opencl_source(const std::string& source, const DeviceProgram& program, std::span<const BufferArg> buffers,
                           std::span<const int64_t> ints = {}, const OpenClOptions& options = {});

/// True if there is a device at all.
bool has_opencl();

}  // namespace fettle
