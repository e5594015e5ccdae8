#pragma once
// Helpers for tests of kernels; included by tests only.

#include <functional>

#include "codegen/cuda/run.h"
#include "codegen/opencl/run.h"
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

/// Runs `before` in the interpreter and `after` as kernels on the same small integers, and compares the outputs bit by
/// bit.
inline ::testing::AssertionResult same_on_device(const Func& before, const Func& after, const char* target,
                                                 const DeviceRun& run, std::vector<int64_t> ints = {}) {
  const auto program = lower_for_device(after, *parse_target(target));
  if (!program) return ::testing::AssertionFailure() << error_text(program.error()) << "\n" << to_text(after);
  std::vector<TestTensor> tensors[2];
  const Func funcs[2] = {before, after};
  for (int f = 0; f < 2; ++f) {
    Env env;
    for (size_t i = 0; i < ints.size(); ++i) env.push(funcs[f]->int_params[i].var.get(), ints[i]);
    for (const Param& param : funcs[f]->params) tensors[f].emplace_back(param.buffer, env);
    for (size_t p = 0; p < before->params.size(); ++p) {
      RandomStream stream{7, p};
      if (before->params[p].kind == ParamKind::kOutput) {
        tensors[f][p].fill(f ? 0xfe : 0xff);
        continue;
      }
      for_each_index(tensors[f][p].logical_shape(), [&](const std::vector<int64_t>& index) {
        const bool is_unsigned = before->params[p].buffer->dtype.code == TypeCode::kUInt;
        tensors[f][p].set(index, static_cast<int64_t>(stream.below(7)) - (is_unsigned ? 0 : 3));
      });
    }
    std::vector<BufferArg> args;
    for (TestTensor& tensor : tensors[f]) args.push_back(tensor.arg());
    const Result<> done = f ? run(*program, args, ints) : interpret(before, args, ints);
    if (!done) return ::testing::AssertionFailure() << error_text(done.error()) << "\n" << to_text(*program);
  }
  std::string difference;
  for (size_t p = 0; p < before->params.size(); ++p) {
    if (before->params[p].kind != ParamKind::kOutput) continue;
    for_each_index(tensors[0][p].logical_shape(), [&](const std::vector<int64_t>& index) {
      if (!difference.empty() || std::memcmp(tensors[0][p].at(index), tensors[1][p].at(index),
                                             static_cast<size_t>(tensors[0][p].element_bytes())) == 0)
        return;
      difference = before->params[p].buffer->name + "[";
      for (int64_t i : index) difference += (difference.back() == '[' ? "" : ", ") + std::to_string(i);
      difference += "] differs";
      if (before->params[p].buffer->dtype == kF32) {
        float x, y;
        std::memcpy(&x, tensors[0][p].at(index), sizeof x);
        std::memcpy(&y, tensors[1][p].at(index), sizeof y);
        difference += ": " + std::to_string(x) + " interpreted, " + std::to_string(y) + " by the kernels";
      }
    });
  }
  if (difference.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference << "\n" << to_text(*program);
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
