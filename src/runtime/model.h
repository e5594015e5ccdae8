#pragma once
// Running compiled models, from shared libraries or from this very process, by the names of their inputs.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "rt/model_api.h"
#include "runtime/tensor.h"

namespace fettle {

class ModelContext;

/// A compiled model: code, constants, threads. It never changes. Copies share it, and any number of threads may use it.
class Model {
 public:
  /// Loads the library at `path`. Without host calls in `options` it has the process's. `target`: as load_library has
  /// it. Errors: load_library's · E710.
  static Result<Model> load(const std::filesystem::path& path, const FettleOptions& options = {},
                            const std::string& target = {});

  /// Opens a model whose code is in memory already; `info` keeps that code alive. Errors: E710.
  static Result<Model> make(std::shared_ptr<const FettleModelInfo> info, const FettleOptions& options = {});

  /// The same code, constants and options, on these threads. Errors: E710.
  Result<Model> on_team(const FettleHostTeam& team) const;

  const FettleModelInfo& info() const;
  /// The target that the code is for: its name, or else its processor's.
  std::string target_name() const;
  std::span<const FettleTensor> inputs() const;
  std::span<const FettleTensor> outputs() const;

  /// What calls work with: memory, sizes, state. Errors: E710.
  Result<ModelContext> make_context() const;

  /// Calls `work` with a context that no other such call has, whose states are as in the beginning. Contexts are kept
  /// for later calls. Any number of threads may. Errors: those of make_context and of `work`.
  Result<> in_context(const std::function<Result<>(ModelContext&)>& work) const;
  /// Runs in such a context. Errors: those of ModelContext::run.
  Result<std::vector<NamedTensor>> run(std::span<const NamedTensor> inputs) const;

 private:
  friend class ModelContext;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// What calls of a model work with. Used by one thread at a time; only `cancel` may come from another.
class ModelContext {
 public:
  const Model& model() const { return model_; }

  /// Tensors that are large enough for the outputs that inputs of these shapes lead to, zeroed; what run_into fills.
  /// What a run tells the size of is empty. States are not among them. Errors: E704, E705, E710.
  Result<std::vector<NamedTensor>> make_outputs(std::span<const NamedTensor> inputs);

  /// Runs with the inputs in any order and returns the outputs in the model's order. An input that a state stands for
  /// need not be given, and what a state takes is not returned.
  /// Errors: E704 an input is missing, unknown or given twice · E705 wrong shape or type · E710 it failed.
  Result<std::vector<NamedTensor>> run(std::span<const NamedTensor> inputs);

  /// The same into tensors made before (see make_outputs), which get the shapes that outputs have. Nothing is allocated
  /// where inputs have the extents of the call before, but for outputs that a run tells the size of.
  Result<> run_into(std::span<const NamedTensor> inputs, std::span<NamedTensor> outputs);

  /// The same on any memory: inputs by their names, strided or not; outputs in the model's order, all of them, as
  /// FettleFunctions::run has them.
  Result<> run_on(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs);

  /// The same, with one tensor for each of the model's inputs, in its order. Where one has no data, a state stands for
  /// it. Names are not looked at.
  Result<> run_in_order(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs);
  /// The shapes that the outputs of such a call have, in memory of the context; -1: only the call tells.
  Result<> describe_outputs(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs);

  /// As run_on, on a thread of the context's. The outputs, and all data, must stay until `wait` has returned.
  Result<> begin(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs);
  /// Errors: E710 it failed, was cancelled, or nothing was begun.
  Result<> wait();

  /// Ends the call that is under way: no kernel is begun any more. From any thread.
  void cancel();

  /// A copy of a state; its extent along the axis of growth is the state's length. Errors: E705 there is none.
  Result<Tensor> state(const std::string& name);
  /// Errors: E705 there is none, or the tensor does not fit.
  Result<> set_state(const std::string& name, const FettleTensor& tensor);
  /// All states as in the beginning.
  Result<> reset_states();

  /// Calls `hook` after each kernel of later calls; null: no more. See Profiler.
  void set_kernel_hook(FettleKernelHook hook, void* user);
  /// Tells `tracer`, which must stay, what later calls do beside their kernels; null: no more. A model of an older
  /// compiler tells nothing. See runtime/timeline.h.
  void set_tracer(const FettleTracer* tracer);

 private:
  friend class Model;
  struct Destroy {
    void (*destroy)(FettleContext*);
    void operator()(FettleContext* context) const { destroy(context); }
  };
  using Handle = std::unique_ptr<FettleContext, Destroy>;
  ModelContext(Model model, Handle handle);

  const FettleFunctions& functions() const { return *model_.info().functions; }
  Result<> checked(int32_t status) const;
  Result<> take_inputs(std::span<const FettleTensor> given);
  Result<> take_inputs(std::span<const NamedTensor> given);
  Result<> take_outputs(std::span<NamedTensor> given);
  bool is_late_output(std::string_view name) const;

  Model model_;  // before handle_: outlives it
  Handle handle_;
  std::vector<FettleTensor> given_, inputs_, outputs_;  // kept, so that calls allocate nothing
};

/// The tensor as rt takes it: a view, under this name, which must stay.
FettleTensor view_of(const char* name, const Tensor& tensor);

/// "f32[1, 3, 48, 320]", "f32[N, 3]"
std::string tensor_type_to_string(const FettleTensor& tensor);

}  // namespace fettle
