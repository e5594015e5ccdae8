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
  const std::vector<GraphCall>& calls() const;  // of the host program
  int64_t arena_bytes() const;
  int64_t constant_bytes() const;  // that are stored
  int64_t weight_bytes() const;    // of the model, that they are made of

  struct State;
  explicit CompiledModel(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
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
