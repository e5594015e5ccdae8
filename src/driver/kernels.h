#pragma once
// Workloads → schedules → machine code, several at a time.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/build.h"
#include "ir/func.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle {

/// A schedule that was made, as text: what was done, and the program that came of it.
struct MadeSchedule {
  std::string trace;
  std::string program;
};
MadeSchedule made_schedule(const Schedule& schedule);

/// A workload to be compiled. Text, since references do not cross threads.
struct KernelRequest {
  std::string workload;                      // text of the canonical program
  std::string trace;                         // text of the schedule; empty: the untuned default
  std::optional<MadeSchedule> made_default;  // where that default has been constructed before
  std::string symbol;                        // of the kernel; the prologue's is "<symbol>_prologue"
  std::string label;                         // what an error says it concerns
  /// Of the untuned default.
  double max_error_bound = std::numeric_limits<double>::infinity();
};

/// A schedule, and what is known of it before anything is compiled.
struct ChosenSchedule {
  std::string workload;  // text of the program that it schedules: the request's, or with constants as inputs
  std::string trace;
  std::string program;  // text of what the trace makes of the workload
  bool tuned = false;   // the trace was given
  std::string warning;  // why a trace that was given could not be used; then it is the default
  KernelInfo info;
};

/// The trace replayed on the workload, both text.
Result<Schedule> replayed_schedule(const std::string& workload, const std::string& trace, const Target& target);

/// The scheduled program of a request: its trace replayed, or the untuned default.
Result<Schedule> schedule_for(const KernelRequest& request, const Target& target, int kernel_threads);

/// With what is known of it. Errors: those of describe_kernel.
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
  bool alternates = false;  // BuildOptions::alternates
};
/// Compiles all on `threads` threads; results in the order of the jobs. Errors: those of lowering and code generation
/// (E3xx).
std::vector<Result<BuiltKernel>> compile_kernels(const std::vector<KernelJob>& jobs, const Target& target, int threads);

}  // namespace fettle
