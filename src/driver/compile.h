#pragma once
// From a graph to a compiled model, in this process or as a file.

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/kernels.h"
#include "graph/graph.h"
#include "graph/plan/plan.h"
#include "runtime/model.h"
#include "target/target.h"

namespace fettle {

struct CompileOptions {
  Target target;
  int threads = 1;          // that the model will run on
  int compile_threads = 0;  // that compile it; 0: as many as this process may use
  ImageLayout layout = ImageLayout::kChannelsLast;
  /// PlanOptions::joined; nothing: what the analytic model recommends.
  std::optional<std::vector<int>> joined;
  std::string name = "model";
  /// The trace to use for a workload; nothing: the untuned default. Null: always that.
  std::function<std::optional<std::string>(const Func& workload)> find_trace;
  /// Of the untuned default, in units of epsilon (schedule/reformulation.h).
  double max_error_bound = std::numeric_limits<double>::infinity();
  /// Where a found trace does not replay or compile (written by another version), the default is used instead, and this
  /// is told why.
  std::function<void(const std::string& what)> warn;
};

struct TaskCall {
  std::string name;       // "conv1: Conv_Relu"
  Provenance provenance;  // the model's nodes that it does the work of
};

/// One task of a compiled model, for people to read.
struct TaskInfo {
  std::string name;  // of the program: "Conv_Add_HardSwish"
  std::string hash;
  std::string workload;  // the text of what was compiled
  std::string trace;     // what was compiled
  int count = 0;
  bool tuned = false;
  std::string numerics;    // "exact", "reassociating", "approximate": how results may differ from the workload's
  double error_bound = 0;  // of "approximate", in units of epsilon (schedule/reformulation.h)
  double compile_s = 0;
  std::vector<TaskCall> calls;
};

/// Code, constants and description of a model. Copies share everything.
class CompiledModel {
 public:
  /// A description whose code lives in this process as long as the pointer, for Model::make. E303.
  Result<std::shared_ptr<const FettleModelInfo>> load() const;
  /// load() and Model::make in one.
  Result<Model> instantiate(const FettleOptions& options = {}) const;
  /// Writes the shared library, and the C header beside it: out.so → out.h. Both or, on an error, none. E303, E702.
  Result<> write(const std::filesystem::path& out) const;

  const std::vector<TaskInfo>& tasks() const;
  const std::string& plan_text() const;
  int64_t arena_bytes() const;
  int64_t constant_bytes() const;  // that are stored
  int64_t weight_bytes() const;    // of the model, that they are made of

  struct State;
  explicit CompiledModel(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// Plans the graph, chooses a schedule for each workload, compiles, runs the prologues on the constants. The graph is
/// no longer needed afterwards. Errors: those of make_plan and compile_kernels · E605 a type that models cannot have ·
/// E710 a prologue failed.
Result<CompiledModel> compile_model(const Graph& graph, const CompileOptions& options);

/// The origins as FettleModelInfo has them, one a line; line breaks in names become spaces.
std::string one_a_line(const Provenance& provenance);

/// The dtype as the interface of compiled models has it. E605.
Result<FettleDtype> to_fettle_dtype(DType dtype);

}  // namespace fettle
