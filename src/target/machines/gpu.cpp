// GPUs: targets whose loops can be bound to threads.

#include <fmt/format.h>

#include "target/target_def.h"

namespace fettle {
namespace {

struct CudaArch {
  std::string_view name;
  int64_t shared_bytes;  // that one block may have
  GpuUnits units;
};

// CUDA C++ Programming Guide, "Compute Capabilities"; the numbers of units are those of the largest chip that is sold:
// A100 SXM4 40 GB and H100 SXM5 (NVIDIA's data sheets and architecture white papers).
constexpr GpuUnits kA100 = {.multiprocessors = 108,
                            .shared_bytes_per_multiprocessor = 164 << 10,
                            .l2_bytes = 40 << 20,
                            .memory_gb_per_s = 1555,
                            .tensor_core_tflops = 312};
constexpr GpuUnits kH100 = {.multiprocessors = 132,
                            .shared_bytes_per_multiprocessor = 228 << 10,
                            .l2_bytes = 50 << 20,
                            .memory_gb_per_s = 3350,
                            .tensor_core_tflops = 989};
// sm_90a has what later chips need not have, too: products of warp groups (wgmma), and registers that they hand over.
constexpr CudaArch kCudaArchs[] = {
    {"sm_80", 163 << 10, kA100}, {"sm_90", 227 << 10, kH100}, {"sm_90a", 227 << 10, kH100}};
// What every OpenCL device of some size has.
constexpr GpuUnits kSmallGpu = {
    .multiprocessors = 16, .shared_bytes_per_multiprocessor = 64 << 10, .l2_bytes = 1 << 20, .memory_gb_per_s = 200};

// Memory of all, of a block and of a thread; local is a thread's own memory, register what is addressed by constants.
std::vector<MemoryScope> gpu_scopes(int64_t shared_bytes, int64_t register_bytes) {
  return {{.name = "global", .parent = "", .capacity_bytes = 0, .alignment_bytes = 64, .shared_by = ""},
          {.name = "shared",
           .parent = "global",
           .capacity_bytes = shared_bytes,
           .alignment_bytes = 16,
           .shared_by = "block"},
          {.name = "local", .parent = "global", .capacity_bytes = 0, .alignment_bytes = 4, .shared_by = "thread"},
          {.name = "register",
           .parent = "local",
           .capacity_bytes = register_bytes,
           .alignment_bytes = 4,
           .shared_by = "thread"}};
}

Target gpu_target(std::string_view kind, std::string_view arch, int64_t shared_bytes, const GpuUnits& units) {
  Target target;
  target.kind = kind;
  target.arch = kind;
  target.cpu = arch;
  target.vector_bits = 32;
  target.vector_registers = 255;
  target.fma_per_cycle = 1;
  target.frequency_ghz = 1.0;
  target.max_threads_per_block = 1024;
  target.gpu = units;
  target.thread_axes = {{"blockIdx.x", INT32_MAX}, {"blockIdx.y", 65535}, {"blockIdx.z", 65535},
                        {"threadIdx.x", 1024},     {"threadIdx.y", 1024}, {"threadIdx.z", 64}};
  const int64_t register_bytes = int64_t{target.vector_registers} * 4;
  target.scopes = gpu_scopes(shared_bytes, register_bytes);
  // Tiles of tensor intrinsics, each lane of a warp, or of a group of four of them, having its part.
  if (kind == "cuda") {
    target.scopes.push_back({.name = "fragment",
                             .parent = "register",
                             .capacity_bytes = (arch == "sm_90a" ? 128 : 32) * register_bytes,
                             .alignment_bytes = 16,
                             .shared_by = "warp"});
    // What lanes read of one another.
    target.scopes.push_back(
        {.name = "warp", .parent = "register", .capacity_bytes = 0, .alignment_bytes = 4, .shared_by = "warp"});
  }
  return target;
}

Target cuda(const CudaArch& arch) { return gpu_target("cuda", arch.name, arch.shared_bytes, arch.units); }

// " -arch sm_80", " -arch=sm_80"
Result<Target> cuda_with(std::string_view options) {
  constexpr std::string_view kOption = " -arch";
  if (options.starts_with(kOption) && options.size() > kOption.size()) {
    const char between = options[kOption.size()];
    for (const CudaArch& known : kCudaArchs)
      if ((between == ' ' || between == '=') && options.substr(kOption.size() + 1) == known.name) return cuda(known);
  }
  return fail(ErrorCode::E709,
              fmt::format("there is no target 'cuda{}'; of cuda, known are -arch sm_80, sm_90 and sm_90a", options),
              "target");
}

}  // namespace

// A device of the full profile has at least 32 KiB of local memory (OpenCL 3.0, table 5).
extern constinit const TargetDef opencl_target = {"opencl",
                                                  [] { return gpu_target("opencl", "", 32 << 10, kSmallGpu); }};

extern constinit const TargetDef cuda_target = {"cuda", [] { return cuda(kCudaArchs[0]); }, cuda_with};

}  // namespace fettle
