// Exponentials over their sum, row by row.

#include "generations/autotvm/template/rows_with_knobs.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  if (!works_on_rows(workload) || has_matrix_product(workload)) return false;
  const RowReductions reductions = row_reductions(workload);
  return reductions.maxima >= 1 && reductions.sums >= 1;
}

}  // namespace

extern constinit const TemplateDef softmax_template{"softmax", "the softmax of rows", 10, matches, rows_with_knobs};

}  // namespace fettle
