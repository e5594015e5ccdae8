#pragma once
// Runs a DeviceProgram. Arguments go to the device; the host program (integers, loops and the order of launches) runs;
// outputs come back. The back end says what memory and kernels are.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/interpret.h"
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
  /// Memory that begins with `content`, unless that is null.
  std::function<Result<DeviceBuffer>(int64_t bytes, const void* content)> allocate;
  std::function<Result<>(const Launch&)> launch;
  /// Until all launches are done.
  std::function<Result<>()> wait;
  std::function<Result<>(DeviceBuffer from, const BufferArg& to)> read;
};

/// What a block may have on a device.
struct DeviceLimits {
  int64_t threads = 0, shared_bytes = 0;
};

/// `params`: the buffers of program.host->params, in order; `ints`: its integers. Launches of no blocks are left out.
/// E104 wrong arguments, or an integer that cannot be worked out; what the callbacks return.
Result<> run_host(const DeviceProgram& program, std::span<const DeviceBuffer> params, std::span<const int64_t> ints,
                  const DeviceCallbacks& callbacks);

/// All of it: copies the arguments, launches, waits, and reads the outputs back. E104 · E230 a block exceeds `limits`;
/// what the callbacks return. Waits for what was launched in any case.
Result<> run_program(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints,
                     const DeviceLimits& limits, const DeviceCallbacks& callbacks);

/// E230 where a block of some kernel exceeds `limits`.
Result<> check_limits(const DeviceProgram& program, const DeviceLimits& limits);

}  // namespace fettle
