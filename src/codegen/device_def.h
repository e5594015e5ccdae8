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
#include "lower/lower.h"
#include "rt/abi.h"
#include "target/target.h"

namespace fettle {

/// A piece of code in its device's form; equal names hold equal code.
struct CodePart {
  std::string name;
  ObjectBytes bytes;
};
/// The code of one program; what it is made of is known to its device alone. The entry's part comes first.
using KernelImage = std::vector<CodePart>;

/// An image that can be launched.
struct LoadedImage {
  /// buffers: addresses in the device's memory, one a parameter. A FettleStatus.
  FettleKernel function = nullptr;
  std::shared_ptr<const void> code;  // what `function` lives in
  int64_t code_bytes = 0;
};

/// A queue of launches that run one after another, with the threads and scratch memory that they use.
using DeviceStream = std::shared_ptr<FettleContext>;

/// One kind of device. Further kinds are further entries of devices().
struct DeviceDef {
  std::string_view kind;  // of its targets: Target::kind

  // --- code
  /// plain: no annotation is obeyed, nothing is packed or outlined: the reference. E301.
  Result<LoweredKernel> (*lower)(const Func& scheduled, const Target& target, bool plain);
  /// The module's entry is exported as `entry`; its other functions come from `cache` where it has them. E301, E302.
  Result<KernelImage> (*build)(const IrModule& lowered, const Target& target, const std::string& entry,
                               ObjectCache& cache);
  /// E303.
  Result<LoadedImage> (*load)(const KernelImage& image, const std::string& entry);

  // --- data
  bool shares_host_memory;  // kernels read what lies in this process's memory as it is
  /// Zeroed, aligned to a cache line. E710.
  Result<std::shared_ptr<std::byte>> (*allocate)(int64_t bytes);
  /// To the device's memory from the host's.
  void (*copy_to)(void* device, const void* host, int64_t bytes);

  // --- runs
  /// threads: of the team that parallel loops are given to.
  DeviceStream (*open_stream)(int threads);
  /// Runs to the end. E710 where the kernel reports a failure.
  Result<> (*launch)(const DeviceStream& stream, const LoadedImage& image, std::span<void* const> buffers,
                     std::span<const int64_t> ints);
};

std::span<const DeviceDef* const> devices();
/// The device that a target's code runs on. E301 there is none of its kind.
Result<const DeviceDef*> device_of(const Target& target);

/// Kernels of this process: x86-64 machine code in the host's memory.
extern const DeviceDef cpu_device;

}  // namespace fettle
