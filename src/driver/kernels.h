#pragma once
// Workloads → schedules → machine code, several at a time.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
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
  /// The text of that default where it has been constructed before.
  std::optional<std::string> default_trace;
  std::string symbol;    // of the kernel; the prologue's is "<symbol>_prologue"
  std::string label;     // what an error says it concerns
  /// Of the untuned default.
  double max_error_bound = std::numeric_limits<double>::infinity();
};

/// A parameter of a kernel.
struct KernelParam {
  int source = -1;  // index among the workload's parameters; -1: made by the prologue
  bool constant = false;
  bool is_read = true;  // false: the prologue alone reads this constant
  Relayout layout;      // from dense row-major to what the kernel expects
  // Of what the prologue makes (lower/packings.h):
  std::vector<int> packed_from;  // the parameters that it is made of
  Digest packing;
};

/// A schedule, and what is known of it before anything is compiled.
struct ChosenSchedule {
  std::string workload;  // text of the program that it schedules: the request's, or with constants as inputs
  std::string trace;
  bool tuned = false;         // the trace was given
  std::string numerics;       // how its results may differ from those of the workload: numerics_name
  double error_bound = 0;     // of "approximate", in units of epsilon (schedule/reformulation.h)
  bool computes_once = true;  // each element, so that it may write over what it reads
  std::string warning;        // why a trace that was given could not be used; then it is the default
  std::vector<KernelParam> params;
};

struct CompiledKernel {
  std::string symbol;
  std::vector<NamedObject> objects;  // the nest, then its atoms
  std::string prologue_symbol;       // empty: there is none
  std::vector<NamedObject> prologue_objects;
  std::vector<int> prologue_params;  // indices into ChosenSchedule::params
  double seconds = 0;                // spent on it
};

/// The scheduled program of a request: its trace replayed, or the untuned default.
Result<Schedule> schedule_for(const KernelRequest& request, const Target& target, int kernel_threads);

/// What is to be known of a schedule. E301, E709 of its parameters' layouts.
Result<ChosenSchedule> describe_schedule(const Schedule& schedule, std::string workload);

/// The schedule of each request, in their order, on `threads` threads. A trace that does not replay any more (another
/// version wrote it) gives way to the default.
Result<std::vector<ChosenSchedule>> choose_schedules(const std::vector<KernelRequest>& requests, const Target& target,
                                                     int kernel_threads, int threads);

/// The error with what it concerns.
Diagnostic concerning(const std::string& label, Diagnostic error);

/// A schedule to be compiled.
struct KernelJob {
  const ChosenSchedule* schedule = nullptr;
  std::string symbol;
};
/// Compiles all on `threads` threads; results in the order of the jobs. Errors: those of lowering and code generation
/// (E3xx).
std::vector<Result<CompiledKernel>> compile_kernels(const std::vector<KernelJob>& jobs, const Target& target,
                                                    int threads);

}  // namespace fettle
