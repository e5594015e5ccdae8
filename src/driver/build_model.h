#pragma once
// From a planned model to machine code and packed constants.

#include <vector>

#include "base/result.h"
#include "driver/plan_model.h"

namespace fettle {

struct BuiltModel {
  PlannedModel planned;
  std::vector<BuiltKernel> kernels;      // one a workload of the plan
  std::vector<ConstantBytes> constants;  // as planned.constants.stored, or LateConstants::constants
  std::vector<LateConstants::Packing> packings;
};

/// Whether this process may run code for the target; of GPUs it is not asked. E707.
Result<> check_runs_here(const Target& target);

/// Compiles each workload's schedule and runs the prologues. A recorded schedule that does not compile any more gives
/// way to the default. With a pool no prologue runs: the model packs its constants when it is opened.
/// Errors: those of compile_kernels, make_constants and defer_constants · E707 without a pool: prologues do not run
/// here.
Result<BuiltModel> build_model(PlannedModel planned, ConstantPool* pool = nullptr);

}  // namespace fettle
