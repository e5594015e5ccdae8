#pragma once
// Runs the host program of a DeviceProgram: integers, loops and the order of launches. What memory and kernels are is
// the back end's business.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lower/device/device.h"

namespace fettle {

/// Memory of a device, by a number that the back end gives out.
using DeviceBuffer = int64_t;

struct Launch {
  const DeviceKernel* kernel = nullptr;
  std::string name;
  std::vector<DeviceBuffer> buffers;       // kernel->func->params
  std::vector<int64_t> ints;               // kernel->func->int_params
  std::array<int64_t, 3> grid{}, block{};  // no extent is 0
};

struct DeviceCallbacks {
  std::function<Result<DeviceBuffer>(int64_t bytes)> allocate;
  std::function<Result<>(const Launch&)> launch;
};

/// `params`: the buffers of program.host->params, in order; `ints`: its integers. Launches of no blocks are left out.
/// E104 wrong arguments, or an integer that cannot be worked out; what the callbacks return.
Result<> run_host(const DeviceProgram& program, std::span<const DeviceBuffer> params, std::span<const int64_t> ints,
                  const DeviceCallbacks& callbacks);

}  // namespace fettle
