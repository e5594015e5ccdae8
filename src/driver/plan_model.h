#pragma once
// From a graph to all that is decided before machine code is made: plan, schedules, constants. Values that are handed
// on.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel_source.h"
#include "database/database.h"
#include "driver/constants.h"
#include "driver/kernels.h"
#include "graph/graph.h"
#include "graph/plan/plan.h"
#include "records/preference.h"
#include "target/target.h"

namespace fettle {

struct CompileOptions {
  Target target;
  std::string target_name = {};  // as users write it
  int threads = 1;               // that the model will run on
  int compile_threads = 0;       // that compile it; 0: as many as this process may use
  /// Nothing: channels last, but of few nodes what is predicted to take less.
  std::optional<ImageLayout> layout;
  /// PlanOptions::fused; nothing: what the analytic model recommends.
  std::optional<std::vector<int>> fused;
  std::string name = "model";
  /// The trace to use for a workload; nothing: the untuned default. Null: always that.
  std::function<std::optional<std::string>(const Func& workload)> find_trace;
  /// Of the untuned default, in units of epsilon (schedule/reformulation.h).
  double max_error_bound = std::numeric_limits<double>::infinity();
  /// Whose kernels found traces may name (codegen/kernel_source.h).
  KernelSources kernel_sources = {};
  /// Where a found trace does not replay or compile (written by another version), the default is used instead, and this
  /// is told why.
  std::function<void(const std::string& what)> warn;
};

struct TaskCall {
  std::string name;       // "conv1: Conv_Relu"
  Provenance provenance;  // the model's nodes that it does the work of
};

/// One task of a model, for people to read.
struct TaskInfo {
  std::string name;  // of the program: "Conv_Add_HardSwish"
  std::string hash;
  std::string workload;  // the text of what is compiled
  std::string trace;     // its schedule
  int count = 0;
  bool tuned = false;
  std::string numerics;    // "exact", "reassociating", "approximate": how results may differ from the workload's
  double error_bound = 0;  // of "approximate", in units of epsilon (schedule/reformulation.h)
  std::string source;      // KernelInfo::source
  std::vector<TaskCall> calls;
};

/// A class of sizes of a workload (PlannedWorkload::classes), and its request.
struct PlannedClass {
  int workload = 0, of_workload = 0;  // which workload, and which of its classes
  size_t request = 0;
};

/// A model of which everything is decided, and nothing compiled.
struct PlannedModel {
  std::shared_ptr<const Graph> graph;
  CompileOptions options;
  Plan plan;                              // of `graph`; memory is assigned
  std::vector<KernelRequest> requests;    // one a workload of the plan, then one a class of sizes
  std::vector<ChosenSchedule> schedules;  // likewise
  std::vector<PlannedClass> classes;      // whose kernels take what those of their workloads do
  ConstantPlan constants;
  Dim counters_at = 0;  // of kernels on a device (HostInterface): in the arena
  // What it took: plans, and defaults that were constructed once, for costs, and handed on from there.
  int plans_made = 0, defaults_handed_on = 0;

  const SizeClass& size_class(const PlannedClass& of) const {
    return plan.workloads[static_cast<size_t>(of.workload)].classes[static_cast<size_t>(of.of_workload)];
  }
  std::vector<TaskInfo> tasks() const;  // of each request
  int64_t arena_bytes() const;          // at typical sizes
};

/// Plans the graph and chooses a schedule for each workload. Errors: those of make_plan, choose_schedules and
/// share_packings.
Result<PlannedModel> plan_model(Plans& plans, const CompileOptions& options);

/// The same with the schedules that the database knows to be best, or, where it says that they are not for this model
/// as a whole, with the defaults; of either, those within options.max_error_bound. Errors also: E502, E503.
Result<PlannedModel> plan_known(Plans& plans, std::shared_ptr<Database> database, CompileOptions options);

/// After a change of schedules: memory and constants follow them. `settled`: as share_packings has it.
Result<> settle_schedules(PlannedModel& planned, const std::vector<bool>& settled);

/// Tells options.warn that a recorded schedule gave way to the default.
void warn_of_schedule(const CompileOptions& options, const KernelRequest& request, const std::string& why);

/// Threads that compile.
int compile_threads(const CompileOptions& options);

/// The schedules that a database knows, as CompileOptions::find_trace wants them, of those whose error bound
/// (schedule/reformulation.h) is at most this, and whose kernels are Fettle's own or of one of these sources.
std::function<std::optional<std::string>(const Func&)> best_traces(
    std::shared_ptr<Database> database, const Target& target, int threads,
    double max_error_bound = std::numeric_limits<double>::infinity(), const KernelSources& sources = {});

/// The same without these workloads.
std::function<std::optional<std::string>(const Func&)> except(
    const std::vector<Digest>& workloads, std::function<std::optional<std::string>(const Func&)> find_trace);

}  // namespace fettle
