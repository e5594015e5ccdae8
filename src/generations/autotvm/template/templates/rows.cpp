// Programs that work row by row, told by how many maxima and sums they have.

#include "generations/autotvm/template/rows_with_knobs.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {

// Exponentials over their sum.
extern constinit const TemplateDef softmax_template{"softmax", "the softmax of rows", 10,
                                                    [](const Func& workload) {
                                                      if (!works_on_rows(workload) || has_matrix_product(workload))
                                                        return false;
                                                      const RowReductions reductions = row_reductions(workload);
                                                      return reductions.maxima >= 1 && reductions.sums >= 1;
                                                    },
                                                    rows_with_knobs};

// Rows less their mean, over their deviation.
extern constinit const TemplateDef layer_norm_template{"layer_norm", "the layer norm of rows", 10,
                                                       [](const Func& workload) {
                                                         if (!works_on_rows(workload)) return false;
                                                         const RowReductions reductions = row_reductions(workload);
                                                         return reductions.maxima == 0 && reductions.sums >= 2;
                                                       },
                                                       rows_with_knobs};

}  // namespace fettle
