#include "generations/ansor/sketch/register_sums.h"
#include "generations/metaschedule/postprocessor.h"

namespace fettle {

Postprocessor rewrite_accumulators() {
  return {"rewrite_accumulators", [](const TuneContext& context, Schedule& s) -> Result<> {
            if (context.target->has_threads()) return {};
            return accumulate_in_registers(s, *context.target);
          }};
}

}  // namespace fettle
