#pragma once
// Kernels that others have written, as candidates beside Fettle's own. A source says whether it has one for a program,
// and why not. What it has is a schedule like any other: its trace annotates the root block with the source's name. So
// it is recorded, measured, checked and replayed as all others, and wins by its time alone.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/build.h"
#include "schedule/schedule.h"

namespace fettle {

/// On the root block: the source, with the version of its library ("onednn 3.2.0"); and for how many threads.
inline constexpr const char* kKernelSourceKey = "kernel_source";
inline constexpr const char* kKernelThreadsKey = "kernel_threads";

/// A constant that the kernel reads in a layout of its own, which the prologue makes.
struct OfferedPacking {
  size_t param = 0;  // index among the program's
  int64_t bytes = 0;
  std::string layout;  // equal texts, equal layouts
};

/// A kernel that a source has for a program. Its parameters are the program's, then the packed constant.
struct KernelOffer {
  std::string version;  // of its library: "3.2.0"
  std::string kernel;   // the library's own name of it: "brg:avx512_core"
  std::optional<OfferedPacking> packing;
  std::vector<uint8_t> description;  // what the source's own code is given
};

/// One source of kernels. Each has a folder of its own.
struct KernelSourceDef {
  std::string_view name;         // as users say it: "onednn"
  std::string_view device;       // whose programs it has kernels for: DeviceDef::kind
  std::string_view library;      // what must be there to run them, for people: "oneDNN"
  std::string_view description;  // a sentence for people
  /// The version of the library on this machine; E301, with a clause, where there is none.
  Result<std::string> (*version)();
  /// What `program` is computed by on so many threads, for what it means, not how it is scheduled. E301 with the reason
  /// for which it declines, a clause.
  Result<KernelOffer> (*offer)(const Func& program, int threads);
  /// Code that is entered as any kernel (DeviceDef::build): the kernel's, or that of its prologue, whose buffers are
  /// the constant and what becomes of it. E302.
  Result<KernelImage> (*build)(const KernelOffer& offer, bool prologue, const Target& target, const std::string& entry);
};

/// Those that may be used. None: kernels are Fettle's own.
using KernelSources = std::vector<const KernelSourceDef*>;

/// Those of the folders of src/codegen.
std::span<const KernelSourceDef* const> builtin_kernel_sources();
/// Those, and what was added.
KernelSources kernel_sources();
/// Null where there is none.
const KernelSourceDef* find_kernel_source(std::string_view name);
/// A source of a program's own, as long as this lives.
class AddedKernelSource {
 public:
  explicit AddedKernelSource(const KernelSourceDef& def);
  AddedKernelSource(const AddedKernelSource&) = delete;
  AddedKernelSource& operator=(const AddedKernelSource&) = delete;
  ~AddedKernelSource();

 private:
  const KernelSourceDef* def_;
};
/// Those of these names ("onednn"). E709 where there is no such source.
Result<KernelSources> kernel_sources_named(const std::vector<std::string>& names);

/// The annotation ("onednn 3.2.0"), or "": the program's kernel is Fettle's own.
std::string kernel_source_of(const Func& scheduled);
/// The same of a trace's text, without replaying it.
std::string kernel_source_of_trace(std::string_view trace);
/// Whether a trace needs no source but these, each as its trace has it: of the same version as on this machine.
bool is_allowed(std::string_view trace, const KernelSources& sources);

/// `workload`, to be computed by the source's kernel: its trace is the two annotations. E301 where it declines.
struct OfferedSchedule {
  Schedule schedule;
  KernelOffer offer;
};
Result<OfferedSchedule> offered_schedule(const KernelSourceDef& source, const Func& workload,
                                         std::shared_ptr<const Target> target, int threads);

// What build.h asks of programs that are annotated so. E301 where their source declines by now, or is unknown.
Result<KernelInfo> describe_offered(const Func& scheduled, const BuildOptions& options);
Result<BuiltKernel> build_offered(const Func& scheduled, const Target& target, const BuildOptions& options);

}  // namespace fettle
