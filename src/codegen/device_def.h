#pragma once
// Devices that run kernels. A definition says how code for one is made, where its data lie, and how it is started.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/object_cache.h"
#include "ir/func.h"
#include "rt/abi.h"
#include "target/target.h"

namespace fettle {

/// A relocatable object of the host's; equal names hold equal code. Code of another device is data in one of them.
struct CodePart {
  std::string name;
  ObjectBytes bytes;
};
/// The code of one program, which is entered as any kernel (FettleKernel). The entry's part comes first.
using KernelImage = std::vector<CodePart>;

/// How a program is to be compiled.
struct ProgramRequest {
  std::string entry;        // exported; the prologue's is "ENTRY_prologue"
  bool plain = false;       // no annotation is obeyed, nothing is packed or outlined: the reference
  bool alternates = false;  // lower/alternate.h, where the device gains by it
  bool portable = true;     // with what other devices of its kind than the target can run, where that is code apart
};

inline std::string prologue_entry(const std::string& entry) { return entry + "_prologue"; }

/// A program as its device made it.
struct CompiledProgram {
  KernelImage kernel;
  /// Run once, on the host and its memory: what depends on constants alone. Empty: nothing does.
  KernelImage prologue;
  /// Of both, in order (LoweredKernel has the like).
  std::vector<Param> kernel_params, prologue_params;
  bool alternates = false;  // a further integer, its last, tells the kernel the order of its iterations
};

/// An image that can be launched.
struct LoadedImage {
  /// buffers: addresses in the device's memory, one a parameter. A FettleStatus.
  FettleKernel function = nullptr;
  std::shared_ptr<const void> code;  // what `function` lives in
  int64_t code_bytes = 0;
};

/// A queue of launches that run one after another, with the threads and scratch memory that they use.
using DeviceStream = std::shared_ptr<FettleContext>;

/// Launches that are timed together, one behind the other.
struct TimedLaunches {
  int64_t calls = 1;
  /// So much of the device's memory is written before, untimed: what the first launch reads is in no cache. 0: none.
  int64_t flush_bytes = 0;
};

/// One kind of device. Further kinds are further entries of devices().
struct DeviceDef {
  std::string_view kind;  // of its targets: Target::kind

  // --- code
  /// Parts that other programs have, too, come from `cache` where it has them. E301, E302, E708 a compiler that the
  /// device needs is missing.
  Result<CompiledProgram> (*compile)(const Func& scheduled, const Target& target, const ProgramRequest& request,
                                     ObjectCache& cache);

  // --- data
  const FettleDriver* driver;  // of what has memory of its own (rt/device.h); null: kernels run in this process's
  const char* driver_symbol;   // its name in a library; null: likewise
  bool shares_host_memory() const { return driver == nullptr; }
  /// Zeroed, aligned to a cache line. E710.
  Result<std::shared_ptr<std::byte>> (*allocate)(int64_t bytes);
  /// To the device's memory from the host's.
  Result<> (*copy_to)(void* device, const void* host, int64_t bytes);
  /// The other way round.
  Result<> (*copy_from)(void* host, const void* device, int64_t bytes);

  // --- runs
  /// threads: of the team that parallel loops are given to. E710 there is no such device.
  Result<DeviceStream> (*open_stream)(int threads);
  /// Runs to the end. E710 where the kernel reports a failure.
  Result<> (*launch)(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                     std::span<const int64_t> ints);
  /// Seconds of all of them, by the device's clock where it has one, else by this machine's. E710 as above. Null:
  /// kernels run in this process, and its clock tells.
  Result<double> (*time)(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                         std::span<const int64_t> ints, const TimedLaunches& launches);
  /// "NVIDIA H100 80GB HBM3". E710 there is no such device. Null: likewise.
  Result<std::string> (*name)();
};

/// Places the image's code into this process, for whichever device. E303.
Result<LoadedImage> load_image(const KernelImage& image, const std::string& entry);

std::span<const DeviceDef* const> devices();
/// The device that a target's code runs on. E301 there is none of its kind.
Result<const DeviceDef*> device_of(const Target& target);

/// Kernels of this process: x86-64 machine code in the host's memory.
extern const DeviceDef cpu_device;
/// GPUs: objects of this process that launch the device's code. CUDA's by NVRTC, OpenCL's as source text.
extern const DeviceDef cuda_device, opencl_device;

}  // namespace fettle
