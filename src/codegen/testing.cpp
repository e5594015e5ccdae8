#include "codegen/opencl/testing.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "codegen/c_family/names.h"
#include "codegen/device/host_runner.h"
#include "codegen/opencl/opencl_codegen.h"

namespace fettle {
namespace {

tl::unexpected<Diagnostic> failed(const char* what, cl_int status) {
  return fail(ErrorCode::E710, fmt::format("OpenCL: {} failed with status {}", what, status), "opencl");
}

// PoCL 3.1's optimizer threads jumps past barriers, on which its own work-group pass then ends the process.
constexpr const char* kBuildOptions = "-cl-std=CL1.2 -cl-opt-disable";

struct Device {
  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};

Result<Device> open_device() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0)
    return fail(ErrorCode::E710, "this machine has no OpenCL platform; install one, such as pocl-opencl-icd", "opencl");
  std::vector<cl_platform_id> platforms(count);
  clGetPlatformIDs(count, platforms.data(), nullptr);
  Device device;
  for (cl_platform_id platform : platforms)
    if (!device.id) clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device.id, nullptr);
  if (!device.id) return fail(ErrorCode::E710, "no OpenCL platform of this machine has a device", "opencl");
  cl_int status = CL_SUCCESS;
  device.context = clCreateContext(nullptr, 1, &device.id, nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return failed("clCreateContext", status);
  device.queue = clCreateCommandQueue(device.context, device.id, 0, &status);
  if (status != CL_SUCCESS) return failed("clCreateCommandQueue", status);
  return device;
}

// The device of this process, opened once. A device that hangs is forgotten, with all that it holds.
struct Known {
  std::mutex mutex;
  Device device;
};
Known& known() {
  static Known* one = new Known;  // its threads may outlive static destructors
  return *one;
}

struct Program {
  Device device;
  cl_program id = nullptr;
  std::map<std::string, cl_kernel> kernels;
};

// What one run makes, let go at its end.
class Run {
 public:
  explicit Run(Program& program) : program_(program), device_(program.device) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    if (lost_) return;
    for (cl_mem memory : memory_) clReleaseMemObject(memory);
  }

  Result<DeviceBuffer> memory(int64_t bytes, const void* content) {
    cl_int status = CL_SUCCESS;
    const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    const bool copy = content && bytes > 0;
    cl_mem made = clCreateBuffer(device_.context, CL_MEM_READ_WRITE | (copy ? CL_MEM_COPY_HOST_PTR : 0), size,
                                 copy ? const_cast<void*>(content) : nullptr, &status);
    if (status != CL_SUCCESS) return failed("clCreateBuffer", status);
    memory_.push_back(made);
    return static_cast<DeviceBuffer>(memory_.size()) - 1;
  }

  Result<> launch(const Launch& launch) {
    cl_kernel& kernel = program_.kernels[launch.name];
    cl_int status = CL_SUCCESS;
    if (!kernel) kernel = clCreateKernel(program_.id, c_family::identifier(launch.name).c_str(), &status);
    if (status != CL_SUCCESS) return failed("clCreateKernel", status);
    cl_uint at = 0;
    for (DeviceBuffer buffer : launch.buffers) {
      cl_mem memory = memory_[static_cast<size_t>(buffer)];
      status = clSetKernelArg(kernel, at++, sizeof memory, &memory);
      if (status != CL_SUCCESS) return failed("clSetKernelArg", status);
    }
    for (size_t i = 0; i < launch.ints.size(); ++i) {
      const int bytes = launch.kernel->func->int_params[i].var->dtype.element_bytes();  // little-endian
      status = clSetKernelArg(kernel, at++, static_cast<size_t>(bytes), &launch.ints[i]);
      if (status != CL_SUCCESS) return failed("clSetKernelArg", status);
    }
    size_t global[3], local[3];
    for (size_t d = 0; d < 3; ++d) {
      local[d] = static_cast<size_t>(launch.block[d]);
      global[d] = static_cast<size_t>(launch.grid[d]) * local[d];
    }
    status = clEnqueueNDRangeKernel(device_.queue, kernel, 3, nullptr, global, local, 0, nullptr, nullptr);
    return status == CL_SUCCESS ? Result<>() : failed("clEnqueueNDRangeKernel", status);
  }

  /// Waits for all launches. E402; the device is lost then.
  Result<> wait(double timeout_s) {
    cl_event done = nullptr;
    cl_int status = clEnqueueMarkerWithWaitList(device_.queue, 0, nullptr, &done);
    if (status != CL_SUCCESS) return failed("clEnqueueMarkerWithWaitList", status);
    clFlush(device_.queue);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
    auto pause = std::chrono::microseconds(20);
    for (;;) {
      cl_int state = CL_QUEUED;
      status = clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
      if (status != CL_SUCCESS) return failed("clGetEventInfo", status);
      if (state < 0) return failed("a kernel", state);
      if (state == CL_COMPLETE) break;
      if (std::chrono::steady_clock::now() >= end) {
        lost_ = true;
        return fail(ErrorCode::E402, fmt::format("the kernels did not end within {} s", timeout_s), "opencl");
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(2000));
    }
    clReleaseEvent(done);
    return {};
  }
  bool lost() const { return lost_; }

  Result<> read(DeviceBuffer buffer, const BufferArg& to) {
    if (to.size_bytes == 0) return {};
    const cl_int status = clEnqueueReadBuffer(device_.queue, memory_[static_cast<size_t>(buffer)], CL_TRUE, 0,
                                              static_cast<size_t>(to.size_bytes), to.data, 0, nullptr, nullptr);
    return status == CL_SUCCESS ? Result<>() : failed("clEnqueueReadBuffer", status);
  }

 private:
  Program& program_;
  const Device& device_;
  std::vector<cl_mem> memory_;
  bool lost_ = false;
};

DeviceLimits limits_of(const Device& device) {
  size_t threads = 0;
  cl_ulong shared = 0;
  clGetDeviceInfo(device.id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof threads, &threads, nullptr);
  clGetDeviceInfo(device.id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof shared, &shared, nullptr);
  return {static_cast<int64_t>(threads), static_cast<int64_t>(shared)};
}

}  // namespace

bool has_opencl() {
  const std::lock_guard lock(known().mutex);
  if (known().device.id) return true;
  Result<Device> device = open_device();
  if (device) known().device = *device;
  return device.has_value();
}

struct OpenClModule::Built : Program {
  ~Built() {
    if (device.id != known().device.id || device.context != known().device.context) return;  // lost
    for (auto& [name, kernel] : kernels)
      if (kernel) clReleaseKernel(kernel);
    if (id) clReleaseProgram(id);
  }
};

Result<OpenClModule> OpenClModule::build(const std::string& source) {
  const std::lock_guard lock(known().mutex);
  Device& device = known().device;
  if (!device.id) {
    FETTLE_TRY(device, open_device());
  }
  OpenClModule module;
  module.built_ = std::make_shared<Built>();
  module.built_->device = device;
  const char* text = source.c_str();
  cl_int status = CL_SUCCESS;
  cl_program& program = module.built_->id;
  program = clCreateProgramWithSource(device.context, 1, &text, nullptr, &status);
  if (status != CL_SUCCESS) return failed("clCreateProgramWithSource", status);
  status = clBuildProgram(program, 1, &device.id, kBuildOptions, nullptr, nullptr);
  if (status == CL_SUCCESS) return module;
  size_t size = 0;
  clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return fail(ErrorCode::E302, fmt::format("the OpenCL compiler says (status {}): {}", status, log), "opencl");
}

Result<> OpenClModule::run(const DeviceProgram& program, std::span<const BufferArg> buffers,
                           std::span<const int64_t> ints, const OpenClOptions& options) const {
  const std::lock_guard lock(known().mutex);
  Run run(*built_);
  DeviceCallbacks callbacks;
  callbacks.allocate = [&](int64_t bytes, const void* content) { return run.memory(bytes, content); };
  callbacks.launch = [&](const Launch& launch) { return run.launch(launch); };
  callbacks.wait = [&] { return run.wait(options.timeout_s); };
  callbacks.read = [&](DeviceBuffer from, const BufferArg& to) { return run.read(from, to); };
  Result<> done = run_program(program, buffers, ints, limits_of(built_->device), callbacks);
  if (run.lost()) known().device = {};
  return done;
}

Result<> run_opencl(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints,
                    const OpenClOptions& options) {
  FETTLE_TRY(const std::string source, emit_opencl(program));
  FETTLE_TRY(const OpenClModule module, OpenClModule::build(source));
  return module.run(program, buffers, ints, options);
}

}  // namespace fettle
