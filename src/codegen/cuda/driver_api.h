#pragma once
// Declares the functions of libcuda.so.1 that are used, as cuda.h does. The suffixes of their names fix their ABI.

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "codegen/cuda/shared_library.h"

namespace fettle::cuda_driver {

using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Event = struct EventOpaque*;
using Stream = struct StreamOpaque*;

inline constexpr int kSuccess = 0, kNotReady = 600;
inline constexpr int kMaxDynamicSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_…

struct Api : SharedLibrary {
  using SharedLibrary::SharedLibrary;
  Imported<int(unsigned flags)> init{*this, "cuInit"};
  Imported<int(int*)> driver_version{*this, "cuDriverGetVersion"};
  Imported<int(int*)> device_count{*this, "cuDeviceGetCount"};
  Imported<int(int* device, int ordinal)> device_get{*this, "cuDeviceGet"};
  Imported<int(char*, int length, int device)> device_name{*this, "cuDeviceGetName"};
  Imported<int(int* value, int attribute, int device)> device_attribute{*this, "cuDeviceGetAttribute"};
  Imported<int(Context*, int device)> retain_context{*this, "cuDevicePrimaryCtxRetain"};
  Imported<int(Context)> set_current{*this, "cuCtxSetCurrent"};
  Imported<int(Module*, const void* image)> load_module{*this, "cuModuleLoadData"};
  Imported<int(Module)> unload_module{*this, "cuModuleUnload"};
  Imported<int(Function*, Module, const char* name)> get_function{*this, "cuModuleGetFunction"};
  Imported<int(Function, int attribute, int value)> set_attribute{*this, "cuFuncSetAttribute"};
  Imported<int(Function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
               unsigned shared_bytes, Stream, void** params, void** extra)>
      launch{*this, "cuLaunchKernel"};
  Imported<int(uint64_t*, size_t bytes)> allocate{*this, "cuMemAlloc_v2"};
  Imported<int(uint64_t)> free{*this, "cuMemFree_v2"};
  Imported<int(uint64_t, const void*, size_t)> to_device{*this, "cuMemcpyHtoD_v2"};
  Imported<int(void*, uint64_t, size_t)> to_host{*this, "cuMemcpyDtoH_v2"};
  Imported<int(uint64_t, uint64_t, size_t)> to_same{*this, "cuMemcpyDtoD_v2"};
  Imported<int(uint64_t, unsigned char, size_t)> fill{*this, "cuMemsetD8_v2"};
  Imported<int(Event*, unsigned flags)> make_event{*this, "cuEventCreate"};
  Imported<int(Event)> destroy_event{*this, "cuEventDestroy_v2"};
  Imported<int(Event, Stream)> record{*this, "cuEventRecord"};
  Imported<int(Event)> query{*this, "cuEventQuery"};
  Imported<int(Event)> synchronize{*this, "cuEventSynchronize"};
  Imported<int(float*, Event, Event)> elapsed_ms{*this, "cuEventElapsedTime"};
  /// (map, element type, dimensions, address, extents, byte strides, box, element strides, interleave, swizzle, L2
  /// promotion, fill), from CUDA 12 on
  Imported<int(void*, int, uint32_t, uint64_t, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int,
               int, int, int)>
      encode_tensor_map{*this, "cuTensorMapEncodeTiled", true};
  Imported<int(int, const char**)> error_name{*this, "cuGetErrorName"};
};

/// Null where the library is not, or lacks one of these.
const Api* api();
/// E710 unless `status` is success: "CUDA: cuLaunchKernel failed: CUDA_ERROR_…".
Result<> succeeded(const char* what, int status);

}  // namespace fettle::cuda_driver
