// CUDA devices, by the driver's interface (libcuda.so.1).

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "rt/device.h"
#include "rt/sys.h"

namespace fettle::rt {
namespace {

// The part of cuda.h that is used. Handles are pointers, device memory is an integer; enumerations are int.
using Handle = void*;
using Address = uint64_t;
enum : int { kSuccess = 0, kOutOfMemory = 2, kNoKernelImage = 209, kInvalidPtx = 218, kUnsupportedPtx = 222 };
constexpr int kDefaultStream = 0, kNonBlockingStream = 1, kRelaxedCapture = 2;
constexpr int kMaxDynamicSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_…
constexpr int32_t kMostDevices = 16, kNameBytes = 128;

struct Api {
  int (*init)(unsigned);
  int (*device_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*retain_context)(Handle*, int);
  int (*set_current)(Handle);
  int (*stream_create)(Handle*, unsigned);
  int (*stream_destroy)(Handle);
  int (*stream_synchronize)(Handle);
  int (*allocate)(Address*, size_t);
  int (*free)(Address);
  int (*to_device)(Address, const void*, size_t, Handle);
  int (*to_host)(void*, Address, size_t, Handle);
  int (*within)(Address, Address, size_t, Handle);
  int (*fill)(Address, unsigned, size_t, Handle);
  int (*load_module)(Handle*, const void*);
  int (*unload_module)(Handle);
  int (*get_function)(Handle*, Handle, const char*);
  int (*set_attribute)(Handle, int, int);
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**);
  int (*begin_capture)(Handle, int);
  int (*end_capture)(Handle, Handle*);
  int (*instantiate)(Handle*, Handle, unsigned long long);
  int (*graph_destroy)(Handle);
  int (*graph_launch)(Handle, Handle);
  int (*executable_destroy)(Handle);
  int (*event_create)(Handle*, unsigned);
  int (*event_record)(Handle, Handle);
  int (*event_synchronize)(Handle);
  int (*event_elapsed_ms)(float*, Handle, Handle);
  int (*event_destroy)(Handle);
  int (*error_name)(int, const char**);
  int (*encode_map)(void*, int, uint32_t, Address, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*,
                    int, int, int, int);
};

struct Symbol {
  const char* name;
  size_t offset;
};
constexpr Symbol kSymbols[] = {
    {"cuInit", offsetof(Api, init)},
    {"cuDeviceGetCount", offsetof(Api, device_count)},
    {"cuDeviceGet", offsetof(Api, device_get)},
    {"cuDeviceGetName", offsetof(Api, device_name)},
    {"cuDevicePrimaryCtxRetain", offsetof(Api, retain_context)},
    {"cuCtxSetCurrent", offsetof(Api, set_current)},
    {"cuStreamCreate", offsetof(Api, stream_create)},
    {"cuStreamDestroy_v2", offsetof(Api, stream_destroy)},
    {"cuStreamSynchronize", offsetof(Api, stream_synchronize)},
    {"cuMemAlloc_v2", offsetof(Api, allocate)},
    {"cuMemFree_v2", offsetof(Api, free)},
    {"cuMemcpyHtoDAsync_v2", offsetof(Api, to_device)},
    {"cuMemcpyDtoHAsync_v2", offsetof(Api, to_host)},
    {"cuMemcpyDtoDAsync_v2", offsetof(Api, within)},
    {"cuMemsetD32Async", offsetof(Api, fill)},
    {"cuModuleLoadData", offsetof(Api, load_module)},
    {"cuModuleUnload", offsetof(Api, unload_module)},
    {"cuModuleGetFunction", offsetof(Api, get_function)},
    {"cuFuncSetAttribute", offsetof(Api, set_attribute)},
    {"cuLaunchKernel", offsetof(Api, launch)},
    {"cuStreamBeginCapture_v2", offsetof(Api, begin_capture)},
    {"cuStreamEndCapture", offsetof(Api, end_capture)},
    {"cuGraphInstantiateWithFlags", offsetof(Api, instantiate)},
    {"cuGraphDestroy", offsetof(Api, graph_destroy)},
    {"cuGraphLaunch", offsetof(Api, graph_launch)},
    {"cuGraphExecDestroy", offsetof(Api, executable_destroy)},
    {"cuEventCreate", offsetof(Api, event_create)},
    {"cuEventRecord", offsetof(Api, event_record)},
    {"cuEventSynchronize", offsetof(Api, event_synchronize)},
    {"cuEventElapsedTime", offsetof(Api, event_elapsed_ms)},
    {"cuEventDestroy_v2", offsetof(Api, event_destroy)},
    {"cuGetErrorName", offsetof(Api, error_name)},
    {"cuTensorMapEncodeTiled", offsetof(Api, encode_map)},
};

/// A device, for as long as the process.
struct CudaDevice {
  Handle context;
  char name[kNameBytes];
};

Api api;
CudaDevice known[kMostDevices];
bool is_ready = false;
std::atomic<uint32_t> opening{0};

class Opening {
 public:
  Opening() {
    while (opening.exchange(1, std::memory_order_acquire) != 0) cpu_relax();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  ~Opening() { opening.store(0, std::memory_order_release); }
};

/// "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED"
int32_t failed(const char* what, int status, Reason& why) {
  if (status == kSuccess) return FETTLE_OK;
  const char* name = nullptr;
  if (api.error_name(status, &name) != kSuccess || name == nullptr) name = "an unknown error";
  why.clear();
  why << what << " failed: " << name;
  return status == kOutOfMemory ? FETTLE_OUT_OF_MEMORY : FETTLE_DEVICE_FAILED;
}

/// `opening` is held.
bool open_api(Reason& why) {
  if (is_ready) return true;
  why.clear();
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why << "CUDA's driver is missing: libcuda.so.1 is not found; it comes with the driver of an NVIDIA GPU";
    return false;
  }
  for (const Symbol& symbol : kSymbols) {
    void* const address = dlsym(library, symbol.name);
    if (address == nullptr) {
      why << "CUDA's driver is older than 12.0: libcuda.so.1 has no " << symbol.name;
      return false;
    }
    memcpy(reinterpret_cast<char*>(&api) + symbol.offset, &address, sizeof address);
  }
  if (failed("cuInit", api.init(0), why) != FETTLE_OK) return false;
  is_ready = true;
  return true;
}

void* open_device(int32_t index, Reason& why) {
  const Opening held;
  if (!open_api(why)) return nullptr;
  int count = 0, id = 0;
  if (failed("cuDeviceGetCount", api.device_count(&count), why) != FETTLE_OK) return nullptr;
  if (index < 0 || index >= count || index >= kMostDevices) {
    why.clear();
    why << "there is no CUDA device number " << index << "; there are " << count;
    return nullptr;
  }
  CudaDevice& device = known[index];
  if (device.context != nullptr) return &device;
  if (failed("cuDeviceGet", api.device_get(&id, index), why) != FETTLE_OK) return nullptr;
  if (failed("cuDeviceGetName", api.device_name(device.name, kNameBytes - 1, id), why) != FETTLE_OK) return nullptr;
  Handle context = nullptr;
  if (failed("cuDevicePrimaryCtxRetain", api.retain_context(&context, id), why) != FETTLE_OK) return nullptr;
  device.context = context;
  return &device;
}

const char* describe(void* device) { return static_cast<CudaDevice*>(device)->name; }

int32_t enter(void* device, Reason& why) {
  return failed("cuCtxSetCurrent", api.set_current(static_cast<CudaDevice*>(device)->context), why);
}

void* open_queue(void*, Reason& why) {
  Handle stream = nullptr;
  return failed("cuStreamCreate", api.stream_create(&stream, kDefaultStream), why) == FETTLE_OK ? stream : nullptr;
}
void close_queue(void*, void* queue) { api.stream_destroy(queue); }

Address address_of(const void* at) { return reinterpret_cast<Address>(at); }

void* allocate(void*, int64_t bytes) {
  Address at = 0;
  return api.allocate(&at, static_cast<size_t>(bytes < 1 ? 1 : bytes)) == kSuccess ? reinterpret_cast<void*>(at)
                                                                                   : nullptr;
}
void free_memory(void*, void* at) { api.free(address_of(at)); }

int32_t wait(void*, void* queue, Reason& why) { return failed("a kernel", api.stream_synchronize(queue), why); }

int32_t copy(void* device, void* queue, CopyKind kind, void* to, const void* from, int64_t bytes, Reason& why) {
  const auto size = static_cast<size_t>(bytes);
  if (kind == CopyKind::kToDevice)
    return failed("cuMemcpyHtoDAsync", api.to_device(address_of(to), from, size, queue), why);
  if (kind == CopyKind::kWithin)
    return failed("cuMemcpyDtoDAsync", api.within(address_of(to), address_of(from), size, queue), why);
  const int32_t status = failed("cuMemcpyDtoHAsync", api.to_host(to, address_of(from), size, queue), why);
  return status == FETTLE_OK ? wait(device, queue, why) : status;
}

int32_t fill(void*, void* queue, void* at, uint32_t word, int64_t words, Reason& why) {
  return failed("cuMemsetD32Async", api.fill(address_of(at), word, static_cast<size_t>(words), queue), why);
}

void* load(void*, const DeviceCode& code, void** functions, Reason& why) {
  Handle module = nullptr;
  int status = kNoKernelImage;
  for (int32_t i = 0; i < code.n_images && status != kSuccess; ++i)
    status = api.load_module(&module, code.at(code.images()[i].at));
  if (status == kNoKernelImage || status == kInvalidPtx || status == kUnsupportedPtx) {
    why.clear();
    why << "the model has no code for this device, or its driver is too old for it; compile it again with --target "
           "\"cuda -arch …\"";
    return nullptr;
  }
  if (failed("cuModuleLoadData", status, why) != FETTLE_OK) return nullptr;
  for (int32_t k = 0; k < code.n_kernels; ++k) {
    const DeviceKernel& kernel = code.kernels()[k];
    int32_t made = failed("cuModuleGetFunction", api.get_function(&functions[k], module, code.at(kernel.name_at)), why);
    if (made == FETTLE_OK && kernel.shared_bytes > 0)
      made = failed("cuFuncSetAttribute", api.set_attribute(functions[k], kMaxDynamicSharedBytes, kernel.shared_bytes),
                    why);
    if (made == FETTLE_OK) continue;
    api.unload_module(module);
    return nullptr;
  }
  return module;
}
void unload(void*, void* module, void**, int32_t) { api.unload_module(module); }

constexpr int32_t kMostArguments = 256;

struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

/// `numbers`: its extents and byte strides; behind them, where the next map's are.
int32_t encode(const DeviceTensorMap& map, void** buffers, const int64_t*& numbers, TensorMap& made, Reason& why) {
  constexpr int kSwizzle128 = 3, kPromote128 = 2;  // CU_TENSOR_MAP_…
  uint64_t extents[kMostMapDimensions], strides[kMostMapDimensions] = {};
  uint32_t box[kMostMapDimensions], ones[kMostMapDimensions];
  for (int32_t d = 0; d < map.rank; ++d) {
    extents[d] = static_cast<uint64_t>(*numbers++);
    box[d] = static_cast<uint32_t>(map.box[d]);
    ones[d] = 1;
  }
  for (int32_t d = 0; d + 1 < map.rank; ++d) strides[d] = static_cast<uint64_t>(*numbers++);
  return failed("cuTensorMapEncodeTiled",
                api.encode_map(&made, map.element, static_cast<uint32_t>(map.rank), address_of(buffers[map.buffer]),
                               extents, strides, box, ones, 0, kSwizzle128, kPromote128, 0),
                why);
}

int32_t launch(void*, void* queue, const DeviceCode& code, int32_t number, void* function, const int64_t* grid,
               void** buffers, const int64_t* ints, Reason& why) {
  const DeviceKernel& kernel = code.kernels()[number];
  void* arguments[kMostArguments];
  TensorMap maps[kMostTensorMaps];
  if (kernel.n_buffers + kernel.n_ints + kernel.n_maps > kMostArguments || kernel.n_maps > kMostTensorMaps ||
      grid[0] > INT32_MAX || grid[1] > UINT16_MAX || grid[2] > UINT16_MAX) {
    why.clear();
    why << "a launch has more blocks or arguments than CUDA takes";
    return FETTLE_DEVICE_FAILED;
  }
  void** at = arguments;
  for (int32_t i = 0; i < kernel.n_buffers; ++i) *at++ = buffers + i;
  for (int32_t i = 0; i < kernel.n_ints; ++i) *at++ = const_cast<int64_t*>(ints + i);
  const int64_t* numbers = ints + kernel.n_ints;
  for (int32_t i = 0; i < kernel.n_maps; ++i) {
    const auto& map = reinterpret_cast<const DeviceTensorMap*>(code.at(kernel.maps_at))[i];
    if (const int32_t status = encode(map, buffers, numbers, maps[i], why)) return status;
    *at++ = &maps[i];
  }
  const auto of = [](int64_t extent) { return static_cast<unsigned>(extent); };
  return failed("cuLaunchKernel",
                api.launch(function, of(grid[0]), of(grid[1]), of(grid[2]), of(kernel.block[0]), of(kernel.block[1]),
                           of(kernel.block[2]), of(kernel.shared_bytes), queue, arguments, nullptr),
                why);
}

/// Beside CUDA's default stream, which others may use meanwhile.
void* begin_graph(void*, Reason& why) {
  Handle recorder = nullptr;
  if (failed("cuStreamCreate", api.stream_create(&recorder, kNonBlockingStream), why) != FETTLE_OK) return nullptr;
  if (failed("cuStreamBeginCapture", api.begin_capture(recorder, kRelaxedCapture), why) == FETTLE_OK) return recorder;
  api.stream_destroy(recorder);
  return nullptr;
}

void* end_graph(void*, void* recorder, Reason& why) {
  Handle graph = nullptr, executable = nullptr;
  const int32_t ended = failed("cuStreamEndCapture", api.end_capture(recorder, &graph), why);
  api.stream_destroy(recorder);
  if (ended != FETTLE_OK || graph == nullptr) return nullptr;
  const int32_t status = failed("cuGraphInstantiate", api.instantiate(&executable, graph, 0), why);
  api.graph_destroy(graph);
  return status == FETTLE_OK ? executable : nullptr;
}

int32_t run_graph(void*, void* graph, void* queue, Reason& why) {
  return failed("cuGraphLaunch", api.graph_launch(graph, queue), why);
}
void drop_graph(void*, void* graph) { api.executable_destroy(graph); }

void* mark(void*, void* queue, Reason& why) {
  Handle event = nullptr;
  if (failed("cuEventCreate", api.event_create(&event, 0), why) != FETTLE_OK) return nullptr;
  if (failed("cuEventRecord", api.event_record(event, queue), why) == FETTLE_OK) return event;
  api.event_destroy(event);
  return nullptr;
}
int32_t seconds_between(void*, void* begin, void* end, double* seconds, Reason& why) {
  float ms = 0;
  if (const int32_t status = failed("a kernel", api.event_synchronize(end), why)) return status;
  const int32_t status = failed("cuEventElapsedTime", api.event_elapsed_ms(&ms, begin, end), why);
  *seconds = 1e-3 * static_cast<double>(ms);
  return status;
}
void drop_mark(void*, void* event) { api.event_destroy(event); }

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" const FettleDriver fettle_cuda_driver = {
    .device = FETTLE_CUDA,
    .name = "CUDA",
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
    .begin_graph = begin_graph,
    .end_graph = end_graph,
    .run_graph = run_graph,
    .drop_graph = drop_graph,
    .mark = mark,
    .seconds_between = seconds_between,
    .drop_mark = drop_mark,
};
