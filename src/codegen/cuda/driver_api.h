#pragma once
// Declares the functions of libcuda.so.1 that are used, as cuda.h does. The suffixes of their names fix their ABI.

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace fettle::cuda_driver {

using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Event = struct EventOpaque*;
using Stream = struct StreamOpaque*;

inline constexpr int kSuccess = 0, kNotReady = 600;
inline constexpr int kMaxDynamicSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_…

struct Api {
  int (*init)(unsigned flags);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device_get)(int* device, int ordinal);
  int (*device_name)(char*, int length, int device);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*retain_context)(Context*, int device);
  int (*set_current)(Context);
  int (*load_module)(Module*, const void* image);
  int (*unload_module)(Module);
  int (*get_function)(Function*, Module, const char* name);
  int (*set_attribute)(Function, int attribute, int value);
  int (*launch)(Function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared_bytes, Stream, void** params, void** extra);
  int (*allocate)(uint64_t*, size_t bytes);
  int (*free)(uint64_t);
  int (*to_device)(uint64_t, const void*, size_t);
  int (*to_host)(void*, uint64_t, size_t);
  int (*to_same)(uint64_t, uint64_t, size_t);
  int (*fill)(uint64_t, unsigned char, size_t);
  int (*make_event)(Event*, unsigned flags);
  int (*destroy_event)(Event);
  int (*record)(Event, Stream);
  int (*query)(Event);
  int (*synchronize)(Event);
  int (*elapsed_ms)(float*, Event, Event);
  int (*error_name)(int, const char**);
};

/// Null where the library is not, or lacks one of these.
const Api* api();
/// E710 unless `status` is success: "CUDA: cuLaunchKernel failed: CUDA_ERROR_…".
Result<> succeeded(const char* what, int status);

}  // namespace fettle::cuda_driver
