#include "codegen/cuda/run.h"

#include <map>
#include <mutex>
#include <vector>

#include "codegen/c_family/names.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/cuda/driver_api.h"
#include "codegen/device/host_runner.h"

namespace fettle {

using namespace cuda_driver;

struct CudaModule::Built {
  const CudaDevice* device = nullptr;
  Module module = nullptr;
  std::map<std::string, Function> kernels;
  std::mutex mutex;

  Built() = default;
  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;
  ~Built() {
    if (module) api()->unload_module(module);
  }

  Result<Function> kernel(const Launch& launch) {
    Function& found = kernels[launch.name];
    if (found) return found;
    const std::string name = c_family::identifier(launch.name);
    FETTLE_TRY_VOID(succeeded("cuModuleGetFunction", api()->get_function(&found, module, name.c_str())));
    if (launch.kernel->shared_bytes > kStaticSharedBytes)
      FETTLE_TRY_VOID(succeeded(
          "cuFuncSetAttribute",
          api()->set_attribute(found, kMaxDynamicSharedBytes, static_cast<int>(launch.kernel->shared_bytes))));
    return found;
  }

  Result<> launch(const Launch& launch, const std::vector<CudaAddress>& memory) {
    FETTLE_TRY(Function function, kernel(launch));
    std::vector<CudaAddress> pointers;
    for (const DeviceBuffer buffer : launch.buffers) pointers.push_back(memory[static_cast<size_t>(buffer)]);
    std::vector<int64_t> ints = launch.ints;
    std::vector<void*> args;
    for (CudaAddress& pointer : pointers) args.push_back(&pointer);
    for (int64_t& number : ints) args.push_back(&number);  // little-endian
    unsigned grid[3], block[3];
    for (size_t d = 0; d < 3; ++d) {
      grid[d] = static_cast<unsigned>(launch.grid[d]);
      block[d] = static_cast<unsigned>(launch.block[d]);
    }
    const int64_t shared = launch.kernel->shared_bytes > kStaticSharedBytes ? launch.kernel->shared_bytes : 0;
    return succeeded("cuLaunchKernel", api()->launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                                     static_cast<unsigned>(shared), nullptr, args.data(), nullptr));
  }
};

namespace {

DeviceLimits limits_of(const CudaDevice& device) { return {device.threads_per_block, device.shared_bytes_per_block}; }

// What one run allocates, freed at its end.
class Memory {
 public:
  explicit Memory(const CudaDevice& device) : device_(device) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (!lost)  // freeing waits for the kernels
      for (const CudaAddress at : own_) device_.free(at);
  }
  bool lost = false;
  std::vector<CudaAddress> all;

  Result<DeviceBuffer> add(int64_t bytes, const void* content) {
    FETTLE_TRY(const CudaAddress at, device_.allocate(bytes));
    own_.push_back(at);
    all.push_back(at);
    if (content) FETTLE_TRY_VOID(device_.write(at, content, bytes));
    return static_cast<DeviceBuffer>(all.size()) - 1;
  }

 private:
  const CudaDevice& device_;
  std::vector<CudaAddress> own_;
};

}  // namespace

Result<CudaModule> CudaModule::build(const std::string& source, const std::vector<std::string>& options) {
  FETTLE_TRY(const CudaDevice* device, CudaDevice::open());
  FETTLE_TRY(const std::string code, compile_cuda(source, device->arch, options));
  CudaModule made;
  made.built_ = std::make_shared<Built>();
  made.built_->device = device;
  FETTLE_TRY_VOID(succeeded("cuModuleLoadData", api()->load_module(&made.built_->module, code.data())));
  return made;
}

Result<> CudaModule::run(const DeviceProgram& program, std::span<const BufferArg> buffers,
                         std::span<const int64_t> ints, const CudaOptions& options) const {
  const std::lock_guard lock(built_->mutex);
  FETTLE_TRY(const CudaDevice* device, CudaDevice::open());
  Memory memory(*device);
  DeviceCallbacks callbacks;
  callbacks.allocate = [&](int64_t bytes, const void* content) { return memory.add(bytes, content); };
  callbacks.launch = [&](const Launch& launch) { return built_->launch(launch, memory.all); };
  callbacks.wait = [&] {
    const Result<> done = device->wait(options.timeout_s);
    memory.lost = !done;
    return done;
  };
  callbacks.read = [&](DeviceBuffer from, const BufferArg& to) {
    return device->read(to.data, memory.all[static_cast<size_t>(from)], to.size_bytes);
  };
  return run_program(program, buffers, ints, limits_of(*device), callbacks);
}

Result<> CudaModule::launch(const DeviceProgram& program, std::span<const CudaAddress> buffers,
                            std::span<const int64_t> ints) const {
  const std::lock_guard lock(built_->mutex);
  FETTLE_TRY(const CudaDevice* device, CudaDevice::open());
  FETTLE_TRY_VOID(check_limits(program, limits_of(*device)));
  Memory memory(*device);
  std::vector<DeviceBuffer> params;
  for (const CudaAddress at : buffers) {
    params.push_back(static_cast<DeviceBuffer>(memory.all.size()));
    memory.all.push_back(at);
  }
  DeviceCallbacks callbacks;
  callbacks.allocate = [&](int64_t bytes, const void* content) { return memory.add(bytes, content); };
  callbacks.launch = [&](const Launch& launch) { return built_->launch(launch, memory.all); };
  return run_host(program, params, ints, callbacks);
}

Result<> run_cuda(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints,
                  const CudaOptions& options) {
  FETTLE_TRY(const std::string source, emit_cuda(program));
  FETTLE_TRY(const CudaModule module, CudaModule::build(source));
  return module.run(program, buffers, ints, options);
}

}  // namespace fettle
