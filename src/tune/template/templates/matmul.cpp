#include "tune/template/templates/matmul.h"

#include "tune/template/tiling_knobs.h"
#include "tune/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && kind->windows.empty() && kind->shared.empty() && kind->grouped.empty() &&
         kind->phased.empty();
}

Result<> body(TemplateContext& t) {
  const auto kind = reduction_kind(t.schedule().func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  FETTLE_TRY_VOID(inline_producers(t.schedule(), kind->block));
  return tile_with_knobs(t, kind->block);
}

}  // namespace

constinit const TemplateDef matmul_template{"matmul", "a product of matrices, in register tiles", 10, matches, body};

}  // namespace fettle
