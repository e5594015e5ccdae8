#include "tune/template/templates/layer_norm.h"

#include "tune/template/rows_with_knobs.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  if (!works_on_rows(workload)) return false;
  const RowReductions reductions = row_reductions(workload);
  return reductions.maxima == 0 && reductions.sums >= 2;
}

}  // namespace

constinit const TemplateDef layer_norm_template{"layer_norm", "the layer norm of rows", 10, matches, rows_with_knobs};

}  // namespace fettle
