#pragma once
// Models, ready to run: ONNX, compiled in this process, or a shared library that was compiled before.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "codegen/kernel_source.h"
#include "database/database.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "generations/metaschedule/workload_equality.h"
#include "runtime/model.h"

namespace fettle {

struct OpenOptions {
  int threads = 0;  // 0: as many as this process may use; of a library: what it was compiled for
  /// Calls at once, each on `threads` of its own; these are then as many as each can have (share_of). 0: one; of a
  /// library: what it was compiled for.
  int streams = 0;
  /// That a model is compiled for, as parse_target has it, or several, as targets_of does; empty: this machine's CPU.
  /// Of a library: which of its targets is taken; empty: the best that this machine runs.
  std::string target = {};
  InputShapes shapes;
  std::string database;  // empty: none
  std::function<void(const std::string&)> warn;
  bool pin = false;             // bind each worker thread to a CPU of its own
  bool keep_denormals = false;  // compute with denormal f32, f64 and bf16, which are zero otherwise
  /// Schedules whose error bound is more are not used, in units of epsilon (schedule/reformulation.h).
  double max_error_bound = std::numeric_limits<double>::infinity();
  /// Whose records are used: of the same program, or of those that count as equal to it.
  WorkloadEquality workload_equality = WorkloadEquality::kStructural;
  OpenSizes sizes = {};  // that `shapes` leaves open
  ModelStates states = {};
  PassNames without = {};                     // passes over the graph that are left out
  Limits limits = {};                         // of what the model may ask for
  const FettleHostTeam* host_team = nullptr;  // whose threads the model runs on; null: a team of its own. Copied
  KernelSources kernel_sources = {};          // whose kernels are used where they were measured to be faster
};

/// What a model is compiled for. E709 there is no such target, or several are named, or streams cannot share it · E301
/// no device runs its kernels.
Result<Target> target_of(const OpenOptions& options);

struct NamedTarget {
  std::string name;  // as it was given
  Target target;
};
/// The same of several CPUs, separated by commas: the one with the widest vectors and the most instruction sets first.
/// Of those with the same instruction sets the first stays. E709 also: one of several is
/// no x86-64 processor, or has no name.
Result<std::vector<NamedTarget>> targets_of(const OpenOptions& options);
/// Passes that are left out for a target: those whose results only kernels of CPUs are made for, and those that pay on
/// one thread alone.
PassNames passes_left_out(const Target& target);
/// The same, and those that the options name.
PassNames passes_left_out(const OpenOptions& options);

/// Whether the path names a shared library ("model.so", "model.so.1.2") rather than a model ("model.so.onnx").
bool is_library_path(const std::string& path);

/// An existing database, for reading. Errors: E501 there is none · E502, E503, E504.
Result<std::shared_ptr<Database>> open_records(const std::string& path);

/// Plans an ONNX model with the best known schedules. `untuned`: with the defaults alone. The model is read
/// before anything else is looked at. Errors: those of load_model, plan_known and open_records.
Result<PlannedModel> plan_source(const ModelSource& source, const OpenOptions& options, bool untuned = false);

/// The same of a graph that load_model gave; `name` is what the model is called.
Result<PlannedModel> plan_graph(Graph graph, std::string name, const OpenOptions& options, bool untuned = false);

/// Compiles what plan_source plans, for each target. Where there are several, or one that this machine does not run,
/// the model packs its constants when it is opened: none of its code runs now. Errors also: those of targets_of,
/// build_model and package_model · E709 kernels of others for several targets.
Result<CompiledModel> compile_source(const ModelSource& source, const OpenOptions& options, bool untuned = false);

/// How a model runs that is opened so.
FettleOptions run_options(const OpenOptions& options);

/// The model, of either kind. Errors: those of compile_source, or of Model::load.
Result<Model> open_model(const ModelSource& source, const OpenOptions& options);

}  // namespace fettle
