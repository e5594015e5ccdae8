#pragma once
// Scheduled program → code ready to print: flat accesses, vectors, register kernels as functions of their own.

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

struct LoweredKernel {
  /// The entry (a Func of flat accesses) and the atoms that it calls. Its parameters are those of the scheduled
  /// program, in order; then, as kConstant parameters, the packed buffers that the prologue makes.
  IrModule kernel;
  /// The kernel as `outline_atoms = false` lowers it; null unless LowerOptions::whole.
  Func whole;
  /// What depends on constants alone, to be run once when the program is compiled: an entry whose parameters are
  /// the constants that it reads, then the packed buffers (kOutput). Null entry name: there is none.
  IrModule prologue;
  /// The scheduled parameters (multi-dimensional shapes, layouts) of both, in order.
  std::vector<Param> kernel_params;
  std::vector<Param> prologue_params;
  std::vector<IntParam> int_params;
};

struct LowerOptions {
  /// Register kernels become functions of their own. Off: everything inline.
  bool outline_atoms = true;
  /// Schedules' notes (vectorize, unroll, parallel) are obeyed. Off: plain serial loops, the reference.
  bool obey_notes = true;
  /// Off: scalar code for printers of source text. Vectorized loops are serial, unrolled loops stay loops
  /// (ForKind::kUnrolled), register buffers stay arrays, nothing is outlined or prefetched.
  bool vectors = true;
  /// Off: the prologue is split off and dropped, for those who only ask what the kernel costs.
  bool prologue = true;
  /// Off: unrolled loops and lanes stay loops (ForKind::kUnrolled, kVectorized), in the kernel and in its atoms, for
  /// those who only ask what the kernel costs: cost/loop_tree/ reads them as they are. Tensor units' tiles are spelled
  /// out.
  bool expand = true;
  /// On: beside the kernel with atoms also that without, for those who ask what both are like: most passes are the same.
  bool whole = false;
};

/// E301 where a construct has no lowering.
Result<LoweredKernel> lower(const Func& scheduled, const Target& target, const LowerOptions& options = {});

/// The reference: no note is obeyed, nothing is packed or outlined.
Result<LoweredKernel> lower_plain(const Func& scheduled, const Target& target);

}  // namespace fettle
