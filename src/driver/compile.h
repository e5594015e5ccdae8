#pragma once
// From a graph to a compiled model, in this process or as a file.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/build_model.h"
#include "driver/call_graph.h"
#include "runtime/model.h"

namespace fettle {

/// Code, constants and description of a model, for one target or several. Copies share everything.
class CompiledModel {
 public:
  /// One model of these targets, the best first. They were built on one pool of constants (build_model), of one graph.
  static CompiledModel joined(std::vector<CompiledModel> targets);

  /// A description whose code lives in this process as long as the pointer, for Model::make: of the first target that
  /// this machine runs (fettle_pick_target). E303 · E707 it runs none.
  Result<std::shared_ptr<const FettleModelInfo>> load() const;
  /// load() and Model::make in one.
  Result<Model> instantiate(const FettleOptions& options = {}) const;
  /// Writes the shared library, and the C header beside it: out.so → out.h. Both or, on an error, none. E303, E702.
  Result<> write(const std::filesystem::path& out) const;

  std::vector<std::string> targets() const;  // their names
  // Of the target that is loaded here, or else the first:
  const std::vector<TaskInfo>& tasks() const;
  const std::string& plan_text() const;
  const GraphFunction& function() const;        // of the model's file
  const std::vector<GraphCall>& calls() const;  // of the host program
  int64_t arena_bytes() const;
  int64_t constant_bytes() const;  // that are stored, for all targets
  int64_t weight_bytes() const;    // of the model, that they are made of

  struct State;
  explicit CompiledModel(std::shared_ptr<State> state) : targets_{std::move(state)} {}

 private:
  Result<std::shared_ptr<const State>> picked() const;
  const State& shown() const;

  std::vector<std::shared_ptr<State>> targets_;
};

/// The built model with its host program. The graph is no longer needed afterwards. E605 a type that models cannot
/// have.
Result<CompiledModel> package_model(const BuiltModel& built);

/// plan_model, build_model and package_model in one, and their errors.
Result<CompiledModel> compile_model(Plans& plans, const CompileOptions& options);
Result<CompiledModel> compile_model(const Graph& graph, const CompileOptions& options);
/// The same with plan_known.
Result<CompiledModel> compile_known(Plans& plans, std::shared_ptr<Database> database, CompileOptions options);

/// The origins as FettleModelInfo has them, one a line; line breaks in names become spaces.
std::string one_a_line(const Provenance& provenance);

/// The dtype as the interface of compiled models has it. E605.
Result<FettleDtype> to_fettle_dtype(DType dtype);

}  // namespace fettle
