#include "codegen/cuda/run.h"

#include <map>
#include <mutex>
#include <vector>

#include "arith/int_eval.h"
#include "codegen/c_family/names.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/cuda/driver_api.h"
#include "codegen/device/host_runner.h"
#include "codegen/device/host_stub.h"
#include "ir/text.h"

namespace fettle {

using namespace cuda_driver;

namespace {

struct alignas(64) EncodedTensorMap {
  unsigned char opaque[128];
};

// CU_TENSOR_MAP_…: 128-byte swizzle, lines of 128 bytes brought to L2.
constexpr int kSwizzle128 = 3, kPromote128 = 2;

Result<EncodedTensorMap> encode(const TensorMap& map, const DeviceKernel& kernel,
                                const std::vector<CudaAddress>& pointers, const std::vector<int64_t>& ints) {
  if (!api()->encode_tensor_map.at)
    return fail(ErrorCode::E710, "CUDA: the driver has no cuTensorMapEncodeTiled; it is older than CUDA 12");
  IntEnv known;
  for (size_t i = 0; i < ints.size(); ++i) known.set(kernel.func->int_params[i].var.get(), ints[i]);
  const auto value = [&](const Expr& e) -> Result<uint64_t> {
    int64_t number = 0;
    if (evaluate_int(e, known, number) == IntProblem::kNone) return static_cast<uint64_t>(number);
    return fail(ErrorCode::E104, "no value is known for " + to_text(e));
  };
  const DType type = kernel.func->params[map.param].buffer->dtype;
  std::vector<uint64_t> extents, strides;
  for (const Expr& extent : map.extents) {
    FETTLE_TRY(const uint64_t number, value(extent));
    extents.push_back(number);
  }
  for (const Expr& stride : map.strides) {
    FETTLE_TRY(const uint64_t number, value(stride));
    strides.push_back(number * static_cast<uint64_t>(type.element_bytes()));
  }
  const std::vector<uint32_t> box(map.box.begin(), map.box.end()), ones(map.box.size(), 1);
  EncodedTensorMap made;
  FETTLE_TRY_VOID(succeeded("cuTensorMapEncodeTiled",
                            api()->encode_tensor_map(&made, tensor_map_element(type), static_cast<uint32_t>(box.size()),
                                                     pointers[map.param], extents.data(), strides.data(), box.data(),
                                                     ones.data(), 0, kSwizzle128, kPromote128, 0)));
  return made;
}

}  // namespace

struct CudaModule::Built {
  const CudaDevice* device = nullptr;
  Module module = nullptr;
  std::map<std::string, Function> kernels;
  struct Encoded {
    std::vector<CudaAddress> pointers;
    std::vector<int64_t> ints;
    std::vector<EncodedTensorMap> maps;
  };
  std::map<std::string, Encoded> encoded;  // by kernel
  std::mutex mutex;
  // What host programs allocated in launches that nobody waited for: in order, and how many bytes.
  std::vector<std::pair<CudaAddress, int64_t>> kept;

  Built() = default;
  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;
  ~Built() {
    for (const auto& [at, bytes] : kept) device->free(at);
    if (module) api()->unload_module(module);
  }

  // The n-th allocation of a launch.
  Result<CudaAddress> kept_memory(size_t n, int64_t bytes) {
    if (n < kept.size() && kept[n].second >= bytes) return kept[n].first;
    FETTLE_TRY(const CudaAddress at, device->allocate(bytes));
    if (n < kept.size()) {
      device->free(kept[n].first);
      kept[n] = {at, bytes};
    } else {
      kept.emplace_back(at, bytes);
    }
    return at;
  }

  Result<Function> kernel(const Launch& launch) {
    Function& found = kernels[launch.name];
    if (found) return found;
    const std::string name = c_family::identifier(launch.name);
    FETTLE_TRY_VOID(succeeded("cuModuleGetFunction", api()->get_function(&found, module, name.c_str())));
    if (const int64_t bytes = dynamic_shared_bytes(*launch.kernel); bytes > 0)
      FETTLE_TRY_VOID(succeeded("cuFuncSetAttribute",
                                api()->set_attribute(found, kMaxDynamicSharedBytes, static_cast<int>(bytes))));
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
    // Encoded again where something is another than the last time.
    Encoded& known = encoded[launch.name];
    if (known.pointers != pointers || known.ints != ints) {
      known = {pointers, ints, {}};
      for (const TensorMap& map : launch.kernel->tensor_maps) {
        FETTLE_TRY(const EncodedTensorMap made, encode(map, *launch.kernel, pointers, ints));
        known.maps.push_back(made);
      }
    }
    for (EncodedTensorMap& map : known.maps) args.push_back(&map);
    unsigned grid[3], block[3];
    for (size_t d = 0; d < 3; ++d) {
      grid[d] = static_cast<unsigned>(launch.grid[d]);
      block[d] = static_cast<unsigned>(launch.block[d]);
    }
    const int64_t shared = dynamic_shared_bytes(*launch.kernel);
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
  FETTLE_TRY(const std::string code, compile_cuda(source, device->machine_arch(), options));
  return load(code);
}

Result<CudaModule> CudaModule::load(const std::string& code) {
  FETTLE_TRY(const CudaDevice* device, CudaDevice::open());
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
  std::vector<CudaAddress> memory(buffers.begin(), buffers.end());
  std::vector<DeviceBuffer> params;
  for (size_t p = 0; p < buffers.size(); ++p) params.push_back(static_cast<DeviceBuffer>(p));
  DeviceCallbacks callbacks;
  callbacks.allocate = [&](int64_t bytes, const void* content) -> Result<DeviceBuffer> {
    FETTLE_TRY(const CudaAddress at, built_->kept_memory(memory.size() - buffers.size(), bytes));
    if (content) FETTLE_TRY_VOID(device->write(at, content, bytes));
    memory.push_back(at);
    return static_cast<DeviceBuffer>(memory.size()) - 1;
  };
  callbacks.launch = [&](const Launch& launch) { return built_->launch(launch, memory); };
  return run_host(program, params, ints, callbacks);
}

Result<> run_cuda(const DeviceProgram& program, std::span<const BufferArg> buffers, std::span<const int64_t> ints,
                  const CudaOptions& options) {
  FETTLE_TRY(const std::string source, emit_cuda(program));
  FETTLE_TRY(const CudaModule module, CudaModule::build(source));
  return module.run(program, buffers, ints, options);
}

}  // namespace fettle
