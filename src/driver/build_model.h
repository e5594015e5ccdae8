#pragma once
// From a planned model to machine code and packed constants.

#include <vector>

#include "base/result.h"
#include "driver/plan_model.h"

namespace fettle {

struct BuiltModel {
  PlannedModel planned;
  std::vector<BuiltKernel> kernels;      // one a workload of the plan
  std::vector<ConstantBytes> constants;  // as planned.constants.stored
};

/// Compiles each workload's schedule and runs the prologues. A recorded schedule that does not compile any more gives
/// way to the default. Errors: those of compile_kernels and make_constants.
Result<BuiltModel> build_model(PlannedModel planned);

}  // namespace fettle
