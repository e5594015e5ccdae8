#include "lower/decoupled.h"

#include "lower/lower.h"

namespace fettle {

Result<Func> lower_decoupled(const Func& scheduled, const Target& target) {
  if (!scheduled->int_params.empty())
    return fail(ErrorCode::E301,
                "streams of instructions have sizes that are known, and there is a parameter " +
                    scheduled->int_params[0].var->name,
                scheduled->name);
  FETTLE_TRY(const LoweredKernel lowered, lower(scheduled, target, {.pipeline = Pipeline::kDecoupled}));
  return lowered.kernel.funcs.at(lowered.kernel.entry);
}

}  // namespace fettle
