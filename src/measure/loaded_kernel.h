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
};

}  // namespace fettle
