#pragma once
// Workloads → machine code, several at a time.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "measure/builder.h"
#include "measure/relayout.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle {

/// A workload to be compiled. Text, since references do not cross threads.
struct KernelRequest {
  std::string workload;  // text of the canonical program
  std::string trace;     // text of the schedule; empty: the untuned default
  std::string symbol;    // of the kernel; the prologue's is "<symbol>_prologue"
  std::string label;     // what an error says it concerns
  /// Of the untuned default.
  double max_error_bound = std::numeric_limits<double>::infinity();
};

/// A parameter of a compiled kernel.
struct KernelParam {
  int source = -1;  // index among the workload's parameters; -1: made by the prologue
  bool constant = false;
  bool is_read = true;  // false: the prologue alone reads this constant
  Relayout layout;      // from dense row-major to what the kernel expects
};

struct CompiledKernel {
  std::string symbol;
  std::vector<NamedObject> objects;  // the nest, then its atoms
  std::string prologue_symbol;       // empty: there is none
  std::vector<NamedObject> prologue_objects;
  std::vector<KernelParam> params;
  std::vector<int> prologue_params;  // indices into params
  std::string trace;                 // what was compiled
  bool tuned = false;                // the trace was given
  std::string numerics;              // how its results may differ from those of the workload: numerics_name
  double error_bound = 0;            // of "approximate", in units of epsilon (schedule/reformulation.h)
  std::string warning;               // why a trace that was given could not be used; then it is the default
  double seconds = 0;                // spent on it
};

/// Compiles all on `threads` threads; results in the order of the requests. A trace that does not replay or compile any
/// more (another version wrote it) gives way to the default. Errors: the first request's that fails, in their order:
/// those of lowering and code generation (E3xx).
Result<std::vector<CompiledKernel>> compile_kernels(const std::vector<KernelRequest>& requests, const Target& target,
                                                    int kernel_threads, int threads);

/// The scheduled program of a request: its trace replayed, or the untuned default.
Result<Schedule> schedule_for(const KernelRequest& request, const Target& target, int kernel_threads);

}  // namespace fettle
