#pragma once
// Helpers for tests of kernels; included by tests only.

#include <functional>

#include "codegen/cuda/run.h"
#include "codegen/opencl/testing.h"
#include "lower/device/device.h"
#include "schedule/testing.h"

namespace fettle::testing {

inline TestSchedule gpu_schedule(const std::string& text, const char* target = "opencl") {
  TestSchedule s = schedule_from(text);
  s.set_target(std::make_shared<Target>(*parse_target(target)));
  return s;
}

using DeviceRun =
    std::function<Result<>(const DeviceProgram&, std::span<const BufferArg>, std::span<const int64_t> ints)>;

/// same_result with `after` run as kernels.
inline ::testing::AssertionResult same_on_device(const Func& before, const Func& after, const char* target,
                                                 const DeviceRun& run, std::vector<int64_t> ints = {}) {
  const auto program = lower_for_device(after, *parse_target(target));
  if (!program) return ::testing::AssertionFailure() << error_text(program.error()) << "\n" << to_text(after);
  auto same = same_result(before, after, std::move(ints),
                          [&](std::span<const BufferArg> args, auto numbers) { return run(*program, args, numbers); });
  return same ? same : same << "\nits kernels:\n" << to_text(*program);
}

/// The same on CUDA; true where there is no device.
inline ::testing::AssertionResult same_on_cuda(const Func& before, const Func& after, std::vector<int64_t> ints = {}) {
  if (!has_cuda_device()) return ::testing::AssertionSuccess();
  const auto run = [](const DeviceProgram& program, std::span<const BufferArg> args, std::span<const int64_t> n) {
    return run_cuda(program, args, n);
  };
  return same_on_device(before, after, "cuda", run, std::move(ints));
}

/// On OpenCL, and on CUDA where there is a device; on CUDA alone only where there is no OpenCL.
inline ::testing::AssertionResult same_on_devices(const Func& before, const Func& after,
                                                  const std::vector<int64_t>& ints = {}) {
  if (has_cuda_device()) {
    if (auto same = same_on_cuda(before, after, ints); !same) return same << "on CUDA";
    if (!has_opencl()) return ::testing::AssertionSuccess();
  }
  setenv("POCL_CACHE_DIR", FETTLE_BINARY_DIR "/pocl-cache", 0);
  const auto run = [](const DeviceProgram& program, std::span<const BufferArg> args, std::span<const int64_t> n) {
    return run_opencl(program, args, n);
  };
  return same_on_device(before, after, "opencl", run, ints);
}

/// Barriers in the text of all kernels.
inline int barriers_in(const DeviceProgram& program) {
  int count = 0;
  for (const auto& [name, kernel] : program.kernels)
    walk(kernel.func->body, [&](const Stmt& s) {
      const auto* effect = s.as<EvaluateNode>();
      const auto* called = effect ? effect->value.as<CallNode>() : nullptr;
      count += called && called->name == "barrier";
      return true;
    });
  return count;
}

}  // namespace fettle::testing

/// The scheduled program's kernels compute what the original program does; CUDA's, where a device is.
#define EXPECT_SAME_ON_DEVICES(schedule) \
  EXPECT_TRUE(::fettle::testing::same_on_devices((schedule).original, (schedule).func()))
#define EXPECT_SAME_ON_CUDA(schedule) \
  EXPECT_TRUE(::fettle::testing::same_on_cuda((schedule).original, (schedule).func()))
