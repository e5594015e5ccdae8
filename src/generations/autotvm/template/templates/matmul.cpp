// C[i, j] += A[i, k] * B[k, j], in any layout, also of several rows of indices (a 1x1 convolution).

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && kind->windows.empty() && kind->shared.empty() && kind->grouped.empty() &&
         kind->phased.empty();
}

Result<> body(TemplateContext& t) { return tile_the_reduction(t); }

}  // namespace

extern constinit const TemplateDef matmul_template{"matmul", "a product of matrices, in register tiles", 10, matches,
                                                   body};

}  // namespace fettle
