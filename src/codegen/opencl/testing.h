#pragma once
// Builds and runs programs with the OpenCL of this machine, in order to check their results. Times say little where the
// device is a CPU.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ir/interpret.h"
#include "lower/device/device.h"

namespace fettle {

struct OpenClOptions {
  double timeout_s = 60.0;  // for all launches together
};

/// Built kernels. Several programs may share one, if their kernels have different names.
class OpenClModule {
 public:
  /// E302 a kernel does not build, with the build log · E710 there is no OpenCL, or it failed
  static Result<OpenClModule> build(const std::string& source);

  /// Copies the arguments (in the order of program.host->params, then its integers) to the device, launches the
  /// kernels, and copies the outputs back. E104 wrong arguments · E230 a block has more threads, or more shared memory,
  /// than this device has · E402 time is up (the device is then given up: later modules are built for a new context) ·
  /// E710 OpenCL failed
  Result<> run(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints = {},
               const OpenClOptions& options = {}) const;

 private:
  struct Built;
  std::shared_ptr<Built> built_;
};

/// Prints, builds and runs `program`. The errors of these, and E301 where there is no code for a construct.
Result<> run_opencl(const DeviceProgram& program, std::span<const BufferArg> buffers,
                    std::span<const int64_t> ints = {}, const OpenClOptions& options = {});

/// True if there is a device at all.
bool has_opencl();

}  // namespace fettle
