// OpenCL devices with shared virtual memory, so that addresses are kernels' arguments (libOpenCL.so.1).

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "rt/device.h"
#include "rt/sys.h"

namespace fettle::rt {
namespace {

// The part of CL/cl.h that is used. Handles are pointers.
using Handle = void*;
enum : uint32_t { kDeviceName = 0x102B, kPlatformName = 0x0902, kSvmCapabilities = 0x1053, kBuildLog = 0x1183 };
constexpr uint64_t kAllDevices = 0xFFFFFFFF, kReadWrite = 1;
constexpr int32_t kMostDevices = 16, kNameBytes = 128, kMostPlatforms = 8;
constexpr uint32_t kAlignment = 64;  // the least that all devices give

struct Api {
  int (*platforms)(uint32_t, Handle*, uint32_t*);
  int (*platform_info)(Handle, uint32_t, size_t, void*, size_t*);
  int (*devices)(Handle, uint64_t, uint32_t, Handle*, uint32_t*);
  int (*device_info)(Handle, uint32_t, size_t, void*, size_t*);
  Handle (*create_context)(const intptr_t*, uint32_t, const Handle*, void*, void*, int*);
  Handle (*create_queue)(Handle, Handle, uint64_t, int*);
  int (*release_queue)(Handle);
  int (*finish)(Handle);
  void* (*allocate)(Handle, uint64_t, size_t, uint32_t);
  void (*free)(Handle, void*);
  int (*copy)(Handle, uint32_t, void*, const void*, size_t, uint32_t, const Handle*, Handle*);
  int (*fill)(Handle, void*, const void*, size_t, size_t, uint32_t, const Handle*, Handle*);
  Handle (*create_program)(Handle, uint32_t, const char**, const size_t*, int*);
  int (*build_program)(Handle, uint32_t, const Handle*, const char*, void*, void*);
  int (*build_info)(Handle, Handle, uint32_t, size_t, void*, size_t*);
  int (*release_program)(Handle);
  Handle (*create_kernel)(Handle, const char*, int*);
  int (*release_kernel)(Handle);
  int (*set_pointer)(Handle, uint32_t, const void*);
  int (*set_value)(Handle, uint32_t, size_t, const void*);
  int (*launch)(Handle, Handle, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t, const Handle*,
                Handle*);
};

struct Symbol {
  const char* name;
  size_t offset;
};
constexpr Symbol kSymbols[] = {
    {"clGetPlatformIDs", offsetof(Api, platforms)},
    {"clGetPlatformInfo", offsetof(Api, platform_info)},
    {"clGetDeviceIDs", offsetof(Api, devices)},
    {"clGetDeviceInfo", offsetof(Api, device_info)},
    {"clCreateContext", offsetof(Api, create_context)},
    {"clCreateCommandQueue", offsetof(Api, create_queue)},
    {"clReleaseCommandQueue", offsetof(Api, release_queue)},
    {"clFinish", offsetof(Api, finish)},
    {"clSVMAlloc", offsetof(Api, allocate)},
    {"clSVMFree", offsetof(Api, free)},
    {"clEnqueueSVMMemcpy", offsetof(Api, copy)},
    {"clEnqueueSVMMemFill", offsetof(Api, fill)},
    {"clCreateProgramWithSource", offsetof(Api, create_program)},
    {"clBuildProgram", offsetof(Api, build_program)},
    {"clGetProgramBuildInfo", offsetof(Api, build_info)},
    {"clReleaseProgram", offsetof(Api, release_program)},
    {"clCreateKernel", offsetof(Api, create_kernel)},
    {"clReleaseKernel", offsetof(Api, release_kernel)},
    {"clSetKernelArgSVMPointer", offsetof(Api, set_pointer)},
    {"clSetKernelArg", offsetof(Api, set_value)},
    {"clEnqueueNDRangeKernel", offsetof(Api, launch)},
};

/// A device, for as long as the process.
struct ClDevice {
  Handle id, context;
  bool is_pocl;
  char name[kNameBytes];
};

Api api;
ClDevice known[kMostDevices];
int32_t n_known = 0;
bool is_ready = false;
/// Held while devices are found, and while a kernel's arguments are set, which belong to the kernel.
std::atomic<uint32_t> lock{0};

class Holding {
 public:
  Holding() {
    while (lock.exchange(1, std::memory_order_acquire) != 0) cpu_relax();
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() { lock.store(0, std::memory_order_release); }
};

int32_t failed(const char* what, int status, Reason& why) {
  if (status == 0) return FETTLE_OK;
  why.clear();
  why << what << " failed with status " << status;
  constexpr int kNoObjectMemory = -4, kNoResources = -5, kNoHostMemory = -6;
  return status == kNoObjectMemory || status == kNoResources || status == kNoHostMemory ? FETTLE_OUT_OF_MEMORY
                                                                                        : FETTLE_DEVICE_FAILED;
}

/// Those of all platforms that have shared virtual memory. `lock` is held.
bool find_devices(Reason& why) {
  if (is_ready) return true;
  why.clear();
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why << "OpenCL is missing: libOpenCL.so.1 is not found; a package such as ocl-icd-libopencl1 has it";
    return false;
  }
  for (const Symbol& symbol : kSymbols) {
    void* const address = dlsym(library, symbol.name);
    if (address == nullptr) {
      why << "OpenCL is older than 2.0: libOpenCL.so.1 has no " << symbol.name;
      return false;
    }
    memcpy(reinterpret_cast<char*>(&api) + symbol.offset, &address, sizeof address);
  }
  Handle platforms[kMostPlatforms];
  uint32_t n_platforms = 0;
  if (api.platforms(kMostPlatforms, platforms, &n_platforms) != 0) n_platforms = 0;
  for (uint32_t p = 0; p < n_platforms && p < kMostPlatforms; ++p) {
    char platform[kNameBytes] = {};
    api.platform_info(platforms[p], kPlatformName, kNameBytes - 1, platform, nullptr);
    Handle ids[kMostDevices];
    uint32_t count = 0;
    if (api.devices(platforms[p], kAllDevices, kMostDevices, ids, &count) != 0) continue;
    for (uint32_t d = 0; d < count && d < kMostDevices && n_known < kMostDevices; ++d) {
      uint64_t capabilities = 0;
      if (api.device_info(ids[d], kSvmCapabilities, sizeof capabilities, &capabilities, nullptr) != 0 ||
          capabilities == 0)
        continue;
      ClDevice& device = known[n_known++];
      device.id = ids[d];
      device.is_pocl = strstr(platform, "Portable Computing Language") != nullptr;
      api.device_info(ids[d], kDeviceName, kNameBytes - 1, device.name, nullptr);
    }
  }
  is_ready = true;
  return true;
}

void* open_device(int32_t index, Reason& why) {
  const Holding held;
  if (!find_devices(why)) return nullptr;
  if (index < 0 || index >= n_known) {
    why.clear();
    why << "there is no OpenCL device number " << index << " with shared virtual memory; there are " << n_known
        << "; a package such as pocl-opencl-icd has one";
    return nullptr;
  }
  ClDevice& device = known[index];
  if (device.context != nullptr) return &device;
  int status = 0;
  Handle context = api.create_context(nullptr, 1, &device.id, nullptr, nullptr, &status);
  if (failed("clCreateContext", status, why) != FETTLE_OK) return nullptr;
  device.context = context;
  return &device;
}

ClDevice& of(void* device) { return *static_cast<ClDevice*>(device); }

const char* describe(void* device) { return of(device).name; }
int32_t enter(void*, Reason&) { return FETTLE_OK; }

void* open_queue(void* device, Reason& why) {
  int status = 0;
  Handle queue = api.create_queue(of(device).context, of(device).id, 0, &status);
  return failed("clCreateCommandQueue", status, why) == FETTLE_OK ? queue : nullptr;
}
void close_queue(void*, void* queue) { api.release_queue(queue); }

void* allocate(void* device, int64_t bytes) {
  return api.allocate(of(device).context, kReadWrite, static_cast<size_t>(bytes < 1 ? 1 : bytes), kAlignment);
}
void free_memory(void* device, void* at) { api.free(of(device).context, at); }

int32_t wait(void*, void* queue, Reason& why) { return failed("a kernel", api.finish(queue), why); }

/// Waits but where both places are the device's: the caller's memory is used at once.
int32_t copy(void*, void* queue, CopyKind kind, void* to, const void* from, int64_t bytes, Reason& why) {
  return failed(
      "clEnqueueSVMMemcpy",
      api.copy(queue, kind == CopyKind::kWithin ? 0 : 1, to, from, static_cast<size_t>(bytes), 0, nullptr, nullptr),
      why);
}

int32_t fill(void*, void* queue, void* at, uint32_t word, int64_t words, Reason& why) {
  return failed("clEnqueueSVMMemFill",
                api.fill(queue, at, &word, sizeof word, static_cast<size_t>(words) * sizeof word, 0, nullptr, nullptr),
                why);
}

void unload(void*, void* program, void** functions, int32_t n_functions) {
  for (int32_t k = 0; k < n_functions; ++k)
    if (functions[k] != nullptr) api.release_kernel(functions[k]);
  api.release_program(program);
}

void* load(void* device, const DeviceCode& code, void** functions, Reason& why) {
  const char* source = code.at(code.images()[0].at);
  int status = 0;
  Handle program = api.create_program(of(device).context, 1, &source, nullptr, &status);
  if (failed("clCreateProgramWithSource", status, why) != FETTLE_OK) return nullptr;
  // PoCL 3.1's optimizer threads jumps past barriers, on which its own work-group pass then ends the process.
  const char* options = of(device).is_pocl ? "-cl-std=CL1.2 -cl-opt-disable" : "-cl-std=CL1.2";
  if (failed("clBuildProgram", api.build_program(program, 1, &of(device).id, options, nullptr, nullptr), why) !=
      FETTLE_OK) {
    char log[256] = {};
    api.build_info(program, of(device).id, kBuildLog, sizeof log - 1, log, nullptr);
    why << ": " << log;
    api.release_program(program);
    return nullptr;
  }
  for (int32_t k = 0; k < code.n_kernels; ++k) {
    functions[k] = api.create_kernel(program, code.at(code.kernels()[k].name_at), &status);
    if (failed("clCreateKernel", status, why) == FETTLE_OK) continue;
    unload(device, program, functions, k);
    return nullptr;
  }
  return program;
}

int32_t launch(void*, void* queue, const DeviceCode& code, int32_t number, void* function, const int64_t* grid,
               void** buffers, const int64_t* ints, Reason& why) {
  const DeviceKernel& kernel = code.kernels()[number];
  const Holding held;
  uint32_t at = 0;
  for (int32_t i = 0; i < kernel.n_buffers; ++i)
    if (const int32_t status = failed("clSetKernelArgSVMPointer", api.set_pointer(function, at++, buffers[i]), why))
      return status;
  for (int32_t i = 0; i < kernel.n_ints; ++i)
    if (const int32_t status = failed("clSetKernelArg", api.set_value(function, at++, sizeof(int64_t), ints + i), why))
      return status;
  size_t global[3], local[3];
  for (int32_t d = 0; d < 3; ++d) {
    local[d] = static_cast<size_t>(kernel.block[d]);
    global[d] = static_cast<size_t>(grid[d]) * local[d];
  }
  return failed("clEnqueueNDRangeKernel", api.launch(queue, function, 3, nullptr, global, local, 0, nullptr, nullptr),
                why);
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" const FettleDriver fettle_opencl_driver = {
    .device = FETTLE_OPENCL,
    .name = "OpenCL",
    .open = open_device,
    .describe = describe,
    .enter = enter,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .allocate = allocate,
    .free = free_memory,
    .copy = copy,
    .fill = fill,
    .load = load,
    .unload = unload,
    .launch = launch,
    .wait = wait,
    .begin_graph = nullptr,
    .end_graph = nullptr,
    .run_graph = nullptr,
    .drop_graph = nullptr,
    .mark = nullptr,
    .seconds_between = nullptr,
    .drop_mark = nullptr,
};
