// C[b, i, j] += A[b, i, k] * B[b, k, j].

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && kind->windows.empty() && !kind->shared.empty() && kind->grouped.empty() &&
         kind->phased.empty();
}

Result<> body(TemplateContext& t) { return tile_the_reduction(t); }

}  // namespace

extern constinit const TemplateDef batched_matmul_template{
    "batched_matmul", "products of matrices, one for each of a batch", 10, matches, body};

}  // namespace fettle
