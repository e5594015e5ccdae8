#pragma once
// A built kernel, ready to be launched.

#include "codegen/build.h"

namespace fettle {

struct LoadedKernel {
  BuiltKernel built;
  LoadedImage kernel;
  LoadedImage prologue;  // without a function: nothing depends on constants alone

  /// E303.
  static Result<LoadedKernel> load(BuiltKernel built);
  /// The prologue alone is loaded: the kernel is another process's. E303.
  static Result<LoadedKernel> load_prologue(BuiltKernel built);
  bool runs_here() const { return kernel.function != nullptr; }
};

}  // namespace fettle
