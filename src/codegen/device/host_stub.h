#pragma once
// The host's side of a program for a device: an object that is entered as any kernel and launches the device's code,
// which it holds.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lower/device/device.h"

namespace fettle {

/// program.host, each call being one of fettle_device_launch (rt/device.h):
///   call add_kernel0(&A[0], &B[0], n)  →  call fettle_device_launch(&A[0], &B[0], 0, ceildiv(n, 256), 1, 1, n)
/// Behind a kernel's integers come the extents of its tensor maps, and their strides in bytes, map by map. Kernels have
/// the numbers of their places in program.kernels. E301 a call of something else, or a kernel with an integer that is
/// not of 64 bits.
Result<Func> host_stub(const DeviceProgram& program);

/// The code as rt/device.h has it (DeviceCode). images: texts or machine code, of which the device takes the first that
/// it can. dynamic_shared_bytes: what a launch of the kernel asks for.
std::vector<uint8_t> device_code(const DeviceProgram& program, const std::vector<std::string>& images,
                                 int64_t (*dynamic_shared_bytes)(const DeviceKernel& kernel));

/// The number that CUDA's driver has for the type of a tensor map's elements: a CUtensorMapDataType.
int32_t tensor_map_element(DType type);

/// Both, compiled for the host: exports `entry`. E301, E302.
Result<std::vector<uint8_t>> compile_stub(const DeviceProgram& program, std::vector<uint8_t> code,
                                          const std::string& entry);

/// The host that starts a device's kernels, in what every x86-64 processor has.
Target host_of_devices();

}  // namespace fettle
