// OpenCL as a device: its driver compiles the source text where the model runs.
#include "codegen/device/gpu_device.h"
#include "codegen/opencl/opencl_codegen.h"

namespace fettle {
namespace {

Result<GpuCode> emit_opencl_code(const DeviceProgram& program, const Target&, bool, ObjectCache&) {
  FETTLE_TRY(std::string source, emit_opencl(program));
  return GpuCode{{std::move(source)}, [](const DeviceKernel&) { return int64_t{0}; }};
}

}  // namespace

constinit const DeviceDef opencl_device =
    gpu_device<fettle_opencl_driver, emit_opencl_code>("opencl", "fettle_opencl_driver");

}  // namespace fettle
