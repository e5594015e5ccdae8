#include "rt/device.h"

#include <string.h>

#include "rt/host.h"
#include "rt/memory.h"
#include "rt/sys.h"

namespace fettle::rt {

struct LoadedCode {
  const DeviceCode* code;
  void* module;
  int64_t bytes;  // of this, with its functions
  void* functions[];
};

namespace {

/// Holds a device's lock; code is loaded seldom, and looked up in no time.
class Holding {
 public:
  explicit Holding(Device& device) : lock_(device.lock) {
    while (lock_.exchange(1, std::memory_order_acquire) != 0) cpu_relax();
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() { lock_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t>& lock_;
};

/// Where the code is, or would be, in a table of n places, a power of two, that is not full.
int64_t place_of(LoadedCode** table, int64_t n, const DeviceCode* code) {
  auto at = static_cast<int64_t>((reinterpret_cast<uintptr_t>(code) >> 4) * 0x9e3779b97f4a7c15u >> 16) & (n - 1);
  while (table[at] != nullptr && table[at]->code != code) at = (at + 1) & (n - 1);
  return at;
}

constexpr int64_t kPlaceBytes = sizeof(LoadedCode*);

/// Room for one more. False: there is no memory.
bool make_room(Device& device) {
  if (2 * (device.n_loaded + 1) <= device.n_places) return true;
  const int64_t n = device.n_places == 0 ? 512 : 2 * device.n_places;
  auto** table = static_cast<LoadedCode**>(fettle_pages_alloc(n * kPlaceBytes, 0));
  if (table == nullptr) return false;
  for (int64_t i = 0; i < device.n_places; ++i)
    if (device.loaded[i] != nullptr) table[place_of(table, n, device.loaded[i]->code)] = device.loaded[i];
  fettle_pages_free(device.loaded, device.n_places * kPlaceBytes, 0);
  device.loaded = table;
  device.n_places = n;
  return true;
}

/// The code's functions on the device, loaded by the first who asks; null, with the reason, where that fails.
const LoadedCode* loaded_on(Device& device, const DeviceCode* code, Reason& why, int32_t& status) {
  const Holding held(device);
  if (device.n_places > 0)
    if (LoadedCode* known = device.loaded[place_of(device.loaded, device.n_places, code)]) return known;
  const auto bytes = static_cast<int64_t>(sizeof(LoadedCode)) + code->n_kernels * int64_t{sizeof(void*)};
  auto* made = make_room(device) ? static_cast<LoadedCode*>(fettle_pages_alloc(bytes, 0)) : nullptr;
  if (made == nullptr) {
    why.clear();
    why << "memory ran out";
    status = FETTLE_OUT_OF_MEMORY;
    return nullptr;
  }
  made->code = code;
  made->bytes = bytes;
  made->module = device.driver->load(device.handle, *code, made->functions, why);
  if (made->module == nullptr) {
    fettle_pages_free(made, bytes, 0);
    status = FETTLE_DEVICE_FAILED;
    return nullptr;
  }
  device.loaded[place_of(device.loaded, device.n_places, code)] = made;
  ++device.n_loaded;
  return made;
}

int32_t failed(FettleContext* context, int32_t status) {
  if (status != FETTLE_OK) context->reason = context->queue->why.chars;
  return status;
}

}  // namespace

bool Device::open(const FettleDriver* of, int32_t index, Reason& why) {
  void* opened = of->open(index, why);
  if (opened == nullptr || of->enter(opened, why) != FETTLE_OK) return false;
  driver = of;
  handle = opened;
  return true;
}

void Device::close() {
  if (!is_open()) return;
  Reason ignored;
  driver->enter(handle, ignored);
  for (int64_t i = 0; i < n_places; ++i) {
    LoadedCode* code = loaded[i];
    if (code == nullptr) continue;
    driver->unload(handle, code->module, code->functions, code->code->n_kernels);
    fettle_pages_free(code, code->bytes, 0);
  }
  fettle_pages_free(loaded, n_places * kPlaceBytes, 0);
  loaded = nullptr;
  n_places = n_loaded = 0;
  handle = nullptr;
}

}  // namespace fettle::rt

using namespace fettle::rt;

bool FettleQueue::open(Device* on, void* given) {
  device = on;
  why.clear();
  if (enter() != FETTLE_OK) return false;
  if (given == nullptr) {
    own_stream = on->driver->open_queue(on->handle, why);
    if (own_stream == nullptr) return false;
  }
  stream = given == nullptr ? own_stream : given;
  return true;
}

void FettleQueue::close() {
  if (device == nullptr || enter() != FETTLE_OK) return;
  wait();
  for (DeviceScratch& block : scratch) {
    if (block.data != nullptr) device->driver->free(device->handle, block.data);
    block = {};
  }
  if (own_stream != nullptr) device->driver->close_queue(device->handle, own_stream);
  own_stream = stream = nullptr;
  device = nullptr;
}

extern "C" {

int32_t fettle_device_launch(FettleContext* context, const DeviceCode* code, int32_t kernel, const int64_t* grid,
                             void** buffers, const int64_t* ints) {
  if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0) return FETTLE_OK;
  FettleQueue& queue = *context->queue;
  Device& device = *queue.device;
  int32_t status = FETTLE_OK;
  const LoadedCode* loaded = loaded_on(device, code, queue.why, status);
  if (loaded == nullptr) return failed(context, status);
  return failed(context, device.driver->launch(device.handle, queue.stream, *code, kernel, loaded->functions[kernel],
                                               grid, buffers, ints, queue.why));
}

void* fettle_device_acquire(FettleContext* context, int64_t bytes) {
  if (bytes < 0) return nullptr;
  FettleQueue& queue = *context->queue;
  DeviceScratch *best = nullptr, *empty = nullptr;
  for (DeviceScratch& block : queue.scratch) {
    if (block.data == nullptr && empty == nullptr) empty = &block;
    if (block.data == nullptr || block.in_use != 0 || block.bytes < bytes) continue;
    if (best == nullptr || block.bytes < best->bytes) best = &block;
  }
  // A block that is much too large is left to who needs it, where another can be made.
  if (best == nullptr || (empty != nullptr && best->bytes > 2 * bytes + (1 << 20))) {
    if (empty == nullptr) {
      queue.why.clear();
      queue.why << "a kernel needs too many blocks of memory at once";
      context->reason = queue.why.chars;
      return nullptr;
    }
    void* made = queue.device->driver->allocate(queue.device->handle, bytes);
    if (made != nullptr) {
      *empty = {made, bytes, 0};
      best = empty;
    }
  }
  if (best == nullptr) {
    queue.why.clear();
    queue.why << "the device has no memory for " << bytes << " bytes of a kernel's";
    context->reason = queue.why.chars;
    return nullptr;
  }
  best->in_use = 1;
  return best->data;
}

void fettle_device_release(FettleContext* context, void* data) {
  if (data == nullptr) return;
  for (DeviceScratch& block : context->queue->scratch)
    if (block.data == data) block.in_use = 0;
}

int32_t fettle_device_fetch(FettleContext* context, void* to, const void* from, int64_t bytes) {
  ++context->queue->n_reads;
  // Where nothing runs any more, what is there means nothing: zeros end loops.
  memset(to, 0, static_cast<size_t>(bytes));
  if (context->failed_kernel != 0 || __atomic_load_n(&context->cancelled, __ATOMIC_RELAXED) != 0) return FETTLE_OK;
  const int32_t status = context->queue->copy(CopyKind::kToHost, to, from, bytes);
  if (status != FETTLE_OK) memset(to, 0, static_cast<size_t>(bytes));
  return failed(context, status);
}

int32_t fettle_device_put(FettleContext* context, void* at, int64_t value) {
  FettleQueue& queue = *context->queue;
  const FettleDriver& driver = *queue.device->driver;
  const auto bits = static_cast<uint64_t>(value);
  for (int32_t i = 0; i < 2; ++i) {
    const auto word = static_cast<uint32_t>(bits >> (32 * i));
    if (const int32_t status =
            driver.fill(queue.device->handle, queue.stream, static_cast<char*>(at) + 4 * i, word, 1, queue.why))
      return failed(context, status);
  }
  return FETTLE_OK;
}
}

namespace {

/// Bytes of a tensor as host functions have it: strings are numbers.
int64_t bytes_of(const HostTensor& tensor) {
  const int32_t dtype = tensor.dtype == FETTLE_STRING ? static_cast<int32_t>(FETTLE_I64) : tensor.dtype;
  FettleTensor sized{};
  sized.dtype = dtype;
  sized.rank = 1;
  sized.shape = &tensor.count;
  return fettle_tensor_bytes(&sized);
}

int32_t on_host(FettleContext* context, FettleKernel function, void** buffers, const int64_t* ints) {
  FettleQueue& queue = *context->queue;
  ++queue.n_reads;
  const HostArguments given(buffers, ints);
  const int32_t n = given.count();
  // The tensors, twice, each at a multiple of 16 bytes; before them their addresses.
  constexpr int64_t kAlignment = 16;
  const auto rounded = [](int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  int64_t total = rounded(n * int64_t{sizeof(void*)});
  for (int32_t i = 0; i < n; ++i) total += 2 * rounded(bytes_of(given.tensor(i)));
  HostMemory memory(context);
  if (!memory.grow(total)) return host_out_of_memory(context);
  auto** copies = memory.as<void*>();
  char* at = memory.as<char>() + rounded(n * int64_t{sizeof(void*)});
  for (int32_t i = 0; i < n; ++i) {
    const int64_t bytes = bytes_of(given.tensor(i));
    copies[i] = at;
    if (const int32_t status = queue.copy(CopyKind::kToHost, at, buffers[i], bytes)) return failed(context, status);
    if (bytes > 0) memcpy(at + rounded(bytes), at, static_cast<size_t>(bytes));
    at += 2 * rounded(bytes);
  }
  if (const int32_t status = function(context, copies, ints)) return status;
  for (int32_t i = 0; i < n; ++i) {
    const int64_t bytes = bytes_of(given.tensor(i));
    const auto* now = static_cast<const char*>(copies[i]);
    if (bytes <= 0 || memcmp(now, now + rounded(bytes), static_cast<size_t>(bytes)) == 0) continue;
    if (const int32_t status = queue.copy(CopyKind::kToDevice, buffers[i], now, bytes)) return failed(context, status);
  }
  return failed(context, queue.wait());  // the copies are read until then
}

struct CallOnHost {
  FettleKernel function;
  const int64_t* ints;
};

int32_t call_on_host(FettleContext* context, void** buffers, const int64_t* ints) {
  const auto* call = reinterpret_cast<const CallOnHost*>(ints);
  return on_host(context, call->function, buffers, call->ints);
}

}  // namespace

extern "C" int32_t fettle_device_call_host(FettleContext* context, int32_t index, FettleKernel function, void** buffers,
                                           const int64_t* ints) {
  const CallOnHost call{function, ints};
  return fettle_call_kernel(context, index, call_on_host, buffers, reinterpret_cast<const int64_t*>(&call));
}
