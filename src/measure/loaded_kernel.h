#pragma once
// A built kernel, linked into this process.

#include <vector>

#include "codegen/llvm/jit_module.h"
#include "measure/builder.h"
#include "rt/abi.h"

namespace fettle {

struct LoadedKernel {
  BuiltKernel built;
  std::vector<JitModule> modules;  // what the two functions below live in
  FettleKernel kernel = nullptr;
  FettleKernel prologue = nullptr;  // null: nothing depends on constants alone
  double error_bound = 0;           // of the scheduled program, in units of epsilon

  /// E303.
  static Result<LoadedKernel> load(BuiltKernel built);
};

}  // namespace fettle
