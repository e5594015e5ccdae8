#pragma once
// Builds a kernel from a scheduled program: code for its device, and what is known of it. Measurement, storage and
// execution use the result.

#include <cstdint>
#include <string>
#include <vector>

#include "arith/int_eval.h"
#include "base/hash.h"
#include "base/result.h"
#include "codegen/device_def.h"
#include "codegen/relayout.h"
#include "ir/func.h"
#include "schedule/reformulation.h"
#include "target/target.h"

namespace fettle {

/// A parameter of a kernel.
struct KernelParam {
  int source = -1;  // index among the scheduled program's parameters; -1: made by the prologue
  ParamKind kind = ParamKind::kInput;
  DType dtype;
  bool is_read = true;  // false: the prologue alone reads this constant
  Relayout layout;      // from dense row-major to what the kernel expects
  // Of what the prologue makes (lower/packings.h):
  std::vector<int> packed_from;  // the parameters that it is made of
  Digest packing;
};

/// What is known of a kernel from its scheduled program. Plain data, which crosses threads.
struct KernelInfo {
  std::vector<KernelParam> params;       // those of the scheduled program, then what the prologue makes
  bool computes_once = true;             // each element, so that it may write over what it reads
  Numerics numerics = Numerics::kExact;  // how its results may differ from those of the workload
  double error_bound = 0;                // of kApproximate, in units of epsilon (schedule/reformulation.h)
  std::string source;  // whose kernel it is, for people: "oneDNN 3.2.0: brg:avx512_core"; empty: Fettle's own
};

/// A kernel as built for a device. Plain data, too.
struct BuiltKernel {
  /// `int32_t ENTRY(FettleContext*, void** buffers, const int64_t* ints)`, buffers in the order of info.params.
  std::string entry;
  KernelImage image;
  std::string prologue_entry;  // empty: nothing depends on constants alone. Host code, whatever the device
  KernelImage prologue_image;
  std::vector<int> prologue_params;  // indices into info.params
  KernelInfo info;
  bool alternates = false;  // a further integer, its last, tells it the order of its iterations (lower/alternate.h)
};

struct BuildOptions {
  /// Plain lowering: the reference.
  bool plain = false;
  /// Exported names are "<name>" and "<name>_prologue"; empty: the Func's own name.
  std::string entry_name;
  /// Values of the integer parameters that shapes use; typical ones of those that it lacks.
  IntEnv ints = {};
  /// It is called over and over, and is to alternate if it can: BuiltKernel::alternates says whether it does.
  bool alternates = false;
  /// It is for this machine's device alone: ProgramRequest::portable.
  bool portable = true;
};

/// Without building it. E301, E709 a layout does not fit.
Result<KernelInfo> describe_kernel(const Func& scheduled, const BuildOptions& options = {});

/// Lowers and builds for the target's device; parts that other kernels have, too, come from `cache` where they are
/// known. Errors: E301, E302, those of describe_kernel.
Result<BuiltKernel> build_kernel(const Func& scheduled, const Target& target, ObjectCache& cache,
                                 const BuildOptions& options = {});

/// What records are keyed by besides workload and target: changes when the same trace may yield other code.
/// "lower 1 codegen 1 primitives 5f3a…"
std::string program_versions();

}  // namespace fettle
