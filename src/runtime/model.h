#pragma once
// Running a compiled model, from a shared library or from this very process, by the names of its inputs.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "rt/model_api.h"
#include "runtime/tensor.h"

namespace fettle {

/// One instance of a compiled model: its threads and its working memory. Used by one thread at a time.
class Model {
 public:
  /// Loads the shared library at `path`. Errors: those of load_library · E710.
  static Result<Model> load(const std::filesystem::path& path, const FettleOptions& options = {});

  /// Makes an instance of a model whose code is in memory already; `info` keeps that code alive;
  /// where it has no create of its own, rt's is used. Errors: E710.
  static Result<Model> make(std::shared_ptr<const FettleModelInfo> info, const FettleOptions& options = {});

  const FettleModelInfo& info() const { return *info_; }
  std::span<const FettleTensor> inputs() const;
  std::span<const FettleTensor> outputs() const;

  /// Tensors of the outputs' types, zeroed; what run_into fills. E710.
  Result<std::vector<NamedTensor>> make_outputs() const;

  /// Runs with the inputs in any order and returns the outputs in the model's order.
  /// Errors: E704 an input is missing, unknown or given twice · E705 wrong shape or type · E710 it failed.
  Result<std::vector<NamedTensor>> run(std::span<const NamedTensor> inputs);

  /// The same into tensors made before (see make_outputs), without allocating.
  Result<> run_into(std::span<const NamedTensor> inputs, std::span<NamedTensor> outputs);

  /// Calls `hook` after each kernel of later runs; null: no more. See Profiler.
  void set_kernel_hook(FettleKernelHook hook, void* user);

 private:
  struct Destroy {
    void (*destroy)(FettleModel*);
    void operator()(FettleModel* model) const { destroy(model); }
  };
  std::shared_ptr<const FettleModelInfo> info_;  // before instance_: outlives it
  std::unique_ptr<FettleModel, Destroy> instance_;
  std::vector<const void*> input_data_;
  std::vector<void*> output_data_;
};

/// "f32[1, 3, 48, 320]"
std::string tensor_type_to_string(const FettleTensor& tensor);

}  // namespace fettle
