#pragma once
// Scheduled program → code ready to print: flat accesses, vectors, micro-kernels as functions of their own.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

struct LoweredKernel {
  /// The entry (a Func of flat accesses) and the micro-kernels that it calls. Its parameters are those of the scheduled
  /// program, in order; then, as kConstant parameters, the packed buffers that the prologue makes.
  IrModule kernel;
  /// The kernel without micro-kernels; null unless LowerOptions::whole.
  Func whole;
  /// What depends on constants alone, to be run once when the program is compiled: an entry whose parameters are
  /// the constants that it reads, then the packed buffers (kOutput). Null entry name: there is none.
  IrModule prologue;
  /// The scheduled parameters (multi-dimensional shapes, layouts) of both, in order.
  std::vector<Param> kernel_params;
  std::vector<Param> prologue_params;
  std::vector<IntParam> int_params;  // those of the scheduled program, then perhaps `turn` (lower/alternate.h)
};

/// The lists of passes that there are (pipeline.h).
enum class Pipeline {
  kFull,        // vectors; micro-kernels are functions of their own
  kWhole,       // the same without micro-kernels: everything inline
  kUnexpanded,  // kFull, but unrolled loops and lanes stay loops (ForKind::kUnrolled, kVectorized), for those who only
                // ask what the kernel costs: cost/loop_tree/loop_tree.h reads them as they are. Tensor units' tiles
                // are spelled out
  kUnexpandedWhole,  // the same without micro-kernels
  kScalar,           // for printers of source text: vectorized loops are serial, unrolled loops stay loops, register
                     // buffers arrays; nothing is outlined or prefetched
  kPlain,      // the reference: no annotation of the schedule is obeyed, nothing is packed or outlined; serial loops
  kDecoupled,  // tasks for the units of an accelerator (decoupled.h)
};

struct LowerOptions {
  Pipeline pipeline = Pipeline::kFull;
  /// Off: the prologue is split off and dropped, for those who only ask what the kernel costs.
  bool prologue = true;
  /// On: beside the kernel with micro-kernels also that without, for those who ask what both are like: what their
  /// pipelines begin with is done once.
  bool whole = false;
  /// Told of what each pass has left.
  std::function<void(std::string_view pass, const LoweredKernel& lowered)> after = {};
};

/// E301 where a construct has no lowering.
Result<LoweredKernel> lower(const Func& scheduled, const Target& target, const LowerOptions& options = {});

}  // namespace fettle
