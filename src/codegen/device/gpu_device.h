#pragma once
// What the definitions of GPUs (device_def.h) have in common: all but the form of their code.

#include "codegen/device_def.h"
#include "lower/device/device.h"
#include "rt/device.h"

namespace fettle {

/// The device's code in the forms that it is kept in, the best first, and what launches ask for. E301, E302, E708.
struct GpuCode {
  std::vector<std::string> images;
  int64_t (*dynamic_shared_bytes)(const DeviceKernel& kernel);
};
/// portable: of ProgramRequest.
using EmitGpuCode = Result<GpuCode> (*)(const DeviceProgram& program, const Target& target, bool portable,
                                        ObjectCache& cache);

/// DeviceDef::compile.
Result<CompiledProgram> compile_for_gpu(const Func& scheduled, const Target& target, const ProgramRequest& request,
                                        ObjectCache& cache, EmitGpuCode emit);

// The other members of a DeviceDef, of the device number 0 of the driver.
Result<std::shared_ptr<std::byte>> allocate_on_gpu(const FettleDriver& driver, int64_t bytes);
Result<> copy_to_gpu(const FettleDriver& driver, void* device, const void* host, int64_t bytes);
Result<> copy_from_gpu(const FettleDriver& driver, void* host, const void* device, int64_t bytes);
Result<DeviceStream> open_gpu_stream(const FettleDriver& driver);
Result<> launch_on_gpu(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                       std::span<const int64_t> ints);
Result<double> time_on_gpu(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                           std::span<const int64_t> ints, const TimedLaunches& launches);
Result<std::string> name_of_gpu(const FettleDriver& driver);

/// The definition of the devices of one driver.
template <const FettleDriver& driver, EmitGpuCode emit>
constexpr DeviceDef gpu_device(std::string_view kind, const char* driver_symbol) {
  return {.kind = kind,
          .compile = [](const Func& scheduled, const Target& target, const ProgramRequest& request,
                        ObjectCache& cache) { return compile_for_gpu(scheduled, target, request, cache, emit); },
          .driver = &driver,
          .driver_symbol = driver_symbol,
          .allocate = [](int64_t bytes) { return allocate_on_gpu(driver, bytes); },
          .copy_to = [](void* to, const void* from, int64_t bytes) { return copy_to_gpu(driver, to, from, bytes); },
          .copy_from = [](void* to, const void* from, int64_t bytes) { return copy_from_gpu(driver, to, from, bytes); },
          .open_stream = [](int) { return open_gpu_stream(driver); },
          .launch = launch_on_gpu,
          .time = time_on_gpu,
          .name = [] { return name_of_gpu(driver); }};
}

}  // namespace fettle
