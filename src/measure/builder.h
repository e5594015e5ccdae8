#pragma once
// Scheduled program → objects ready to be linked: what a runner loads and an artefact contains.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "lower/lower.h"
#include "measure/object_cache.h"
#include "target/target.h"

namespace fettle {

struct NamedObject {
  std::string name;  // of the function that it defines; equal names hold equal code
  ObjectBytes bytes;
};

struct BuiltKernel {
  /// `int32_t ENTRY(FettleContext*, void** buffers, const int64_t* ints)`, buffers in the order of kernel_params.
  std::string entry;
  std::vector<NamedObject> objects;  // the nest first, then its atoms
  std::string prologue_entry;        // empty: nothing depends on constants alone
  std::vector<NamedObject> prologue_objects;
  std::vector<Param> kernel_params;  // those of the scheduled program, then what the prologue makes
  std::vector<Param> prologue_params;
  std::vector<IntParam> int_params;
};

/// Seam: how scheduled programs become code.
class Builder {
 public:
  virtual ~Builder() = default;
  /// E301, E302, or E401.
  virtual Result<BuiltKernel> build(const Func& scheduled, const Target& target) = 0;
};

struct LocalBuilderOptions {
  /// Plain lowering: the reference.
  bool plain = false;
  /// Exported names are "<prefix>" and "<prefix>_prologue"; empty: the Func's own name.
  std::string entry_name;
};

/// Lowers and compiles in this process; atoms come from `cache` where they are known.
class LocalBuilder : public Builder {
 public:
  explicit LocalBuilder(std::shared_ptr<ObjectCache> cache, LocalBuilderOptions options = {})
      : cache_(std::move(cache)), options_(std::move(options)) {}
  Result<BuiltKernel> build(const Func& scheduled, const Target& target) override;

 private:
  std::shared_ptr<ObjectCache> cache_;
  LocalBuilderOptions options_;
};

/// Compiles each Func but the entry by itself through `cache`, and the entry as "<entry_name>".
Result<std::vector<NamedObject>> compile_module(const IrModule& module, const Target& target, ObjectCache& cache,
                                                const std::string& entry_name);

/// What records are keyed by besides workload and target: changes when the same trace may yield other code.
/// "lower 1 codegen 1 primitives 5f3a…"
std::string program_versions();

}  // namespace fettle
