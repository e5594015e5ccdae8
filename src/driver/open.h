#pragma once
// Models as files, ready to run: ONNX, compiled in this process, or a shared library that was compiled before.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "database/database.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "generations/metaschedule/workload_equality.h"
#include "runtime/model.h"

namespace fettle {

struct OpenOptions {
  int threads = 0;  // 0: as many as this process may use; of a library: what it was compiled for
  InputShapes shapes;
  std::string database;  // empty: none
  std::function<void(const std::string&)> warn;
  bool pin = false;  // bind each worker thread to a CPU of its own
  /// Schedules whose error bound is more are not used, in units of epsilon (schedule/reformulation.h).
  double max_error_bound = std::numeric_limits<double>::infinity();
  /// Whose records are used: of the same program, or of those that count as equal to it.
  WorkloadEquality workload_equality = WorkloadEquality::kStructural;
};

/// Whether the path names a shared library (".so", also versioned) rather than a model.
bool is_library_path(const std::string& path);

/// The schedules that a database knows, as CompileOptions::find_trace wants them, of those whose error bound
/// (schedule/reformulation.h) is at most this.
std::function<std::optional<std::string>(const Func&)> best_traces(
    std::shared_ptr<Database> database, const Target& target, int threads,
    double max_error_bound = std::numeric_limits<double>::infinity());

/// The same without the workloads of these numbers in the plan.
std::function<std::optional<std::string>(const Func&)> except(
    const Plan& plan, const std::vector<int>& numbers,
    std::function<std::optional<std::string>(const Func&)> find_trace);

/// An existing database, for reading. Errors: E501 there is none · E502, E503, E504.
Result<std::shared_ptr<Database>> open_records(const std::string& path);

/// Compiles with the schedules that the database knows to be best, or, where it says that they are not for this model
/// as a whole, with the defaults; of either, those within options.max_error_bound. Errors: those of compile_model · E502,
/// E503.
Result<CompiledModel> compile_known(const Graph& graph, std::shared_ptr<Database> database, CompileOptions options);

/// Compiles the ONNX model at `path` with the best known schedules. `untuned`: with the defaults alone. Errors: those
/// of load_model, compile_model and open_records.
Result<CompiledModel> compile_file(const std::string& path, const OpenOptions& options, bool untuned = false);

/// An instance of the model at `path`, of either kind. Errors: those of compile_file, or of Model::load.
Result<Model> open_model(const std::string& path, const OpenOptions& options);

}  // namespace fettle
