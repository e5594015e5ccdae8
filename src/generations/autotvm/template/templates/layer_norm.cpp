// Rows less their mean, over their deviation.

#include "generations/autotvm/template/rows_with_knobs.h"
#include "generations/autotvm/template/template_def.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  if (!works_on_rows(workload)) return false;
  const RowReductions reductions = row_reductions(workload);
  return reductions.maxima == 0 && reductions.sums >= 2;
}

}  // namespace

extern constinit const TemplateDef layer_norm_template{"layer_norm", "the layer norm of rows", 10, matches,
                                                       rows_with_knobs};

}  // namespace fettle
