#pragma once
// Builds and runs programs on the CUDA device of this machine.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "codegen/cuda/driver.h"
#include "ir/interpret.h"
#include "lower/device/device.h"

namespace fettle {

struct CudaOptions {
  double timeout_s = 60.0;  // for all launches together
};

/// Built kernels, on the device. Several programs may share one, if their kernels have different names.
class CudaModule {
 public:
  /// Compiles CUDA C++ for this device, and loads it. `options` are NVRTC's. E302 with the compiler's log · E708 there
  /// is no NVRTC · E710 there is no device, or it failed
  static Result<CudaModule> build(const std::string& source,
                                  const std::vector<std::string>& options = {"--fmad=false"});
  /// What compile_cuda made for this device's machine_arch. E710
  static Result<CudaModule> load(const std::string& code);

  /// Copies the arguments (in the order of program.host->params, then its integers) to the device, launches the
  /// kernels, and copies the outputs back. E104 wrong arguments · E230 a block has more threads, or more shared memory,
  /// than this device has · E402 time is up (the device is lost to this process) · E710 CUDA failed
  Result<> run(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints = {},
               const CudaOptions& options = {}) const;

  /// Launches the kernels on memory that is on the device already, one address for each buffer, and does not wait for
  /// them. What the host program allocates is kept for the module's later launches. E104 · E230 · E710
  Result<> launch(const DeviceProgram& program, std::span<const CudaAddress> buffers,
                  std::span<const int64_t> ints = {}) const;

 private:
  struct Built;
  std::shared_ptr<Built> built_;
};

/// Prints, builds and runs `program`. The errors of these, and E301 where there is no code for a construct.
Result<> run_cuda(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints = {},
                  const CudaOptions& options = {});

}  // namespace fettle
