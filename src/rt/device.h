#pragma once
// Devices with memory of their own, such as GPUs. A driver (cuda.cpp, opencl.cpp) knows one kind of them. Its library
// is opened while the model runs, and only by models whose kernels need it: nothing here is linked with it.
//
// Kernels of a device are launched by compiled code of the host, which is entered as any kernel. Launches of one queue
// run one after another. What they are given are addresses in the device's memory.

#include <atomic>

#include "rt/abi.h"
#include "rt/text.h"

namespace fettle::rt {

// --- code, as the compiler writes it into a kernel's object: plain data, places counted from its beginning

/// One form of the code: machine code, an assembly for later machines, source text. Ends with a zero byte.
struct DeviceImage {
  int64_t at, bytes;
};

constexpr int32_t kMostMapDimensions = 5, kMostTensorMaps = 8;

/// A buffer as the copy engine of sm_90 sees it (CUtensorMap), 128-byte swizzle. Behind the integers that a launch is
/// given stand the extents of each, innermost first, and the strides in bytes of all dimensions but the innermost.
struct DeviceTensorMap {
  int32_t buffer;   // of the kernel's
  int32_t element;  // a CUtensorMapDataType
  int32_t rank;
  int32_t box[kMostMapDimensions];  // elements that one copy takes
};

struct DeviceKernel {
  int64_t name_at;  // of its name, which a zero ends
  int64_t maps_at;  // of its DeviceTensorMaps, which are arguments behind its integers
  int32_t n_buffers, n_ints, n_maps;
  int32_t block[3];      // threads of a block along x, y, z
  int32_t shared_bytes;  // that a launch asks for, beside what the code declares
  int32_t reserved;
};

/// Then come the images, the first that the device takes being used, and the kernels.
struct DeviceCode {
  int32_t n_images, n_kernels;

  const char* at(int64_t place) const { return reinterpret_cast<const char*>(this) + place; }
  const DeviceImage* images() const { return reinterpret_cast<const DeviceImage*>(this + 1); }
  const DeviceKernel* kernels() const { return reinterpret_cast<const DeviceKernel*>(images() + n_images); }
};

/// A place to say, in a clause, why something failed.
using Reason = Text;

enum class CopyKind : int32_t {
  kToDevice,
  kToHost,  // waits for what was launched before, and for the copy
  kWithin,
};

}  // namespace fettle::rt

/// What a kind of devices can do. Functions return a FettleStatus, FETTLE_DEVICE_FAILED or FETTLE_OUT_OF_MEMORY where
/// they fail, with the reason. A queue is the driver's; null is none.
struct FettleDriver {
  int32_t device;    // a FettleDevice
  const char* name;  // for people: "CUDA"
  /// The device of this number, opened once in a process; null where there is none.
  void* (*open)(int32_t index, fettle::rt::Reason& why);
  /// Of the device: "NVIDIA H100 80GB HBM3".
  const char* (*describe)(void* device);
  /// Makes the device the one that the calling thread works with; before every other call of a thread.
  int32_t (*enter)(void* device, fettle::rt::Reason& why);
  /// What the process launches on CUDA's default stream comes in its order.
  void* (*open_queue)(void* device, fettle::rt::Reason& why);
  void (*close_queue)(void* device, void* queue);
  /// Aligned to 256 bytes; null where there is no memory.
  void* (*allocate)(void* device, int64_t bytes);
  void (*free)(void* device, void* at);
  int32_t (*copy)(void* device, void* queue, fettle::rt::CopyKind kind, void* to, const void* from, int64_t bytes,
                  fettle::rt::Reason& why);
  /// Sets `words` words of 32 bits.
  int32_t (*fill)(void* device, void* queue, void* at, uint32_t word, int64_t words, fettle::rt::Reason& why);
  /// Makes the code's functions, one a kernel; null where it cannot.
  void* (*load)(void* device, const fettle::rt::DeviceCode& code, void** functions, fettle::rt::Reason& why);
  void (*unload)(void* device, void* module, void** functions, int32_t n_functions);
  /// grid: blocks along x, y, z, none of which is 0.
  int32_t (*launch)(void* device, void* queue, const fettle::rt::DeviceCode& code, int32_t kernel, void* function,
                    const int64_t* grid, void** buffers, const int64_t* ints, fettle::rt::Reason& why);
  int32_t (*wait)(void* device, void* queue, fettle::rt::Reason& why);
  /// A queue on which launches are recorded, not run; null where that fails. Then what was recorded is a graph, which
  /// runs as a whole, and the queue is closed. Null functions: the driver has no graphs.
  void* (*begin_graph)(void* device, fettle::rt::Reason& why);
  void* (*end_graph)(void* device, void* recorder, fettle::rt::Reason& why);
  int32_t (*run_graph)(void* device, void* graph, void* queue, fettle::rt::Reason& why);
  void (*drop_graph)(void* device, void* graph);
  /// A point in a queue's work; null where that fails. Between two of them are so many seconds of the device's clock,
  /// once the second is passed, for which is waited. Null functions: the driver has no such clock.
  void* (*mark)(void* device, void* queue, fettle::rt::Reason& why);
  int32_t (*seconds_between)(void* device, void* begin, void* end, double* seconds, fettle::rt::Reason& why);
  void (*drop_mark)(void* device, void* mark);
};

extern "C" {
extern const FettleDriver fettle_cuda_driver, fettle_opencl_driver;
}

namespace fettle::rt {

/// Code that was loaded on a device.
struct LoadedCode;

/// A device as a model uses it: with the code that was loaded for it. Any number of threads may.
struct Device {
  const FettleDriver* driver = nullptr;
  void* handle = nullptr;
  std::atomic<uint32_t> lock{0};  // of what follows
  LoadedCode** loaded = nullptr;  // by the code's address
  int64_t n_places = 0, n_loaded = 0;

  bool is_open() const { return handle != nullptr; }
  /// False, with the reason, where there is none.
  bool open(const FettleDriver* driver, int32_t index, Reason& why);
  /// Unloads all code.
  void close();
};

/// A block of the device's memory that launches use for a while.
struct DeviceScratch {
  void* data;
  int64_t bytes;
  int32_t in_use;
};
constexpr int32_t kMostDeviceScratch = 64;

}  // namespace fettle::rt

/// Launches that run one after another, and the memory that they use in between. Used by one thread at a time.
struct FettleQueue {
  fettle::rt::Device* device;
  void* stream;      // where work goes
  void* own_stream;  // that is closed with the queue; null: the caller's is used
  int64_t n_reads;   // of the device's memory by the host, so far
  fettle::rt::DeviceScratch scratch[fettle::rt::kMostDeviceScratch];
  fettle::rt::Reason why;  // the last failure

  /// stream: the caller's; null: one of its own is made. False, `why` saying it.
  bool open(fettle::rt::Device* on, void* stream);
  void close();
  int32_t enter() { return device->driver->enter(device->handle, why); }
  int32_t copy(fettle::rt::CopyKind kind, void* to, const void* from, int64_t bytes) {
    return bytes <= 0 ? FETTLE_OK : device->driver->copy(device->handle, stream, kind, to, from, bytes, why);
  }
  /// With zeros.
  int32_t clear(void* at, int64_t bytes) {
    return bytes <= 0 ? FETTLE_OK : device->driver->fill(device->handle, stream, at, 0, (bytes + 3) / 4, why);
  }
  int32_t wait() { return device->driver->wait(device->handle, stream, why); }
};

extern "C" {
// For compiled code. The context has a queue.

/// Launches kernel number `kernel` of the code on grid[0..3] blocks; none where one of them is not positive. buffers,
/// ints: the kernel's. A FettleStatus; the context is told why it fails.
int32_t fettle_device_launch(FettleContext* context, const fettle::rt::DeviceCode* code, int32_t kernel,
                             const int64_t* grid, void** buffers, const int64_t* ints);
/// Memory of the device for later launches, contents undefined; null where there is none. It is released once, where no
/// later launch needs it: what is launched after that may be given it.
void* fettle_device_acquire(FettleContext* context, int64_t bytes);
void fettle_device_release(FettleContext* context, void* block);
/// Copies to the host's memory what launches so far leave in the device's.
int32_t fettle_device_fetch(FettleContext* context, void* to, const void* from, int64_t bytes);
/// Puts an integer into the device's memory, for later launches.
int32_t fettle_device_put(FettleContext* context, void* at, int64_t value);
/// Calls a host function (rt/host.h) on tensors in the device's memory: they are copied to the host, and those that it
/// has changed back. Through fettle_call_kernel.
int32_t fettle_device_call_host(FettleContext* context, int32_t index, FettleKernel function, void** buffers,
                                const int64_t* ints);
}
