#include "codegen/cuda/driver.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "codegen/cuda/cuda_compile.h"
#include "codegen/cuda/driver_api.h"

namespace fettle {
namespace cuda_driver {
const Api* api() {
  static const Api known(std::vector<std::string>{"libcuda.so.1"});
  return known.complete ? &known : nullptr;
}

Result<> succeeded(const char* what, int status) {
  if (status == kSuccess) return {};
  const char* name = nullptr;
  api()->error_name(status, &name);
  return fail(ErrorCode::E710, fmt::format("CUDA: {} failed: {}", what, name ? name : std::to_string(status)), "cuda");
}

}  // namespace cuda_driver

namespace {

using namespace cuda_driver;

// Of CUdevice_attribute.
constexpr int kThreadsPerBlock = 1, kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedBytesOptIn = 97;

struct Opened {
  CudaDevice device;
  Context context = nullptr;
};

Result<Opened> open_device() {
  const Api* cuda = api();
  if (!cuda) return fail(ErrorCode::E710, "this machine has no CUDA driver (libcuda.so.1)", "cuda");
  FETTLE_TRY_VOID(succeeded("cuInit", cuda->init(0)));
  int count = 0, id = 0;
  FETTLE_TRY_VOID(succeeded("cuDeviceGetCount", cuda->device_count(&count)));
  if (count == 0) return fail(ErrorCode::E710, "the CUDA driver finds no device", "cuda");
  FETTLE_TRY_VOID(succeeded("cuDeviceGet", cuda->device_get(&id, 0)));
  Opened made;
  char name[256] = {};
  FETTLE_TRY_VOID(succeeded("cuDeviceGetName", cuda->device_name(name, sizeof name - 1, id)));
  made.device.name = name;
  FETTLE_TRY_VOID(succeeded("cuDriverGetVersion", cuda->driver_version(&made.device.driver_version)));
  const auto attribute = [&](int which) {
    int value = 0;
    return cuda->device_attribute(&value, which, id) == kSuccess ? value : 0;
  };
  made.device.arch = fmt::format("sm_{}{}", attribute(kMajor), attribute(kMinor));
  made.device.multiprocessors = attribute(kMultiprocessors);
  made.device.threads_per_block = attribute(kThreadsPerBlock);
  made.device.shared_bytes_per_block = attribute(kSharedBytesOptIn);
  FETTLE_TRY_VOID(succeeded("cuDevicePrimaryCtxRetain", cuda->retain_context(&made.context, id)));
  return made;
}

}  // namespace

Result<const CudaDevice*> CudaDevice::open() {
  static const Result<Opened>* one = new Result<Opened>(open_device());  // the driver outlives static destructors
  if (!*one) return fail(one->error());
  FETTLE_TRY_VOID(succeeded("cuCtxSetCurrent", api()->set_current((*one)->context)));
  return &(*one)->device;
}

Result<CudaAddress> CudaDevice::allocate(int64_t bytes) const {
  CudaAddress at = 0;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  FETTLE_TRY_VOID(succeeded("cuMemAlloc", api()->allocate(&at, size)));
  return at;
}

void CudaDevice::free(CudaAddress at) const { api()->free(at); }

Result<> CudaDevice::write(CudaAddress to, const void* from, int64_t bytes) const {
  if (bytes <= 0) return {};
  return succeeded("cuMemcpyHtoD", api()->to_device(to, from, static_cast<size_t>(bytes)));
}

Result<> CudaDevice::read(void* to, CudaAddress from, int64_t bytes) const {
  if (bytes <= 0) return {};
  return succeeded("cuMemcpyDtoH", api()->to_host(to, from, static_cast<size_t>(bytes)));
}

Result<> CudaDevice::copy(CudaAddress to, CudaAddress from, int64_t bytes) const {
  if (bytes <= 0) return {};
  return succeeded("cuMemcpyDtoD", api()->to_same(to, from, static_cast<size_t>(bytes)));
}

Result<> CudaDevice::fill(CudaAddress at, uint8_t value, int64_t bytes) const {
  if (bytes <= 0) return {};
  return succeeded("cuMemsetD8", api()->fill(at, value, static_cast<size_t>(bytes)));
}

Result<> CudaDevice::wait(double timeout_s) const {
  FETTLE_TRY(const uintptr_t done, make_event());
  FETTLE_TRY_VOID(record(done));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  auto pause = std::chrono::microseconds(5);
  int state = kNotReady;
  while ((state = api()->query(reinterpret_cast<Event>(done))) == kNotReady) {
    if (std::chrono::steady_clock::now() >= end)
      return fail(ErrorCode::E402, fmt::format("the kernels did not end within {} s", timeout_s), "cuda");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
  destroy_event(done);
  return succeeded("a kernel", state);
}

Result<uintptr_t> CudaDevice::make_event() const {
  Event made = nullptr;
  FETTLE_TRY_VOID(succeeded("cuEventCreate", api()->make_event(&made, 0)));
  return reinterpret_cast<uintptr_t>(made);
}

void CudaDevice::destroy_event(uintptr_t event) const { api()->destroy_event(reinterpret_cast<Event>(event)); }

Result<> CudaDevice::record(uintptr_t event) const {
  return succeeded("cuEventRecord", api()->record(reinterpret_cast<Event>(event), nullptr));
}

Result<double> CudaDevice::seconds_between(uintptr_t begin, uintptr_t end) const {
  FETTLE_TRY_VOID(succeeded("cuEventSynchronize", api()->synchronize(reinterpret_cast<Event>(end))));
  float ms = 0;
  FETTLE_TRY_VOID(succeeded("cuEventElapsedTime",
                            api()->elapsed_ms(&ms, reinterpret_cast<Event>(begin), reinterpret_cast<Event>(end))));
  return static_cast<double>(ms) * 1e-3;
}

bool has_cuda_device() { return has_nvrtc() && CudaDevice::open().has_value(); }

}  // namespace fettle
