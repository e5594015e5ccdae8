#include "tune/template/templates/pooling.h"

#include "tune/template/tiling_knobs.h"
#include "tune/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && !kind->product && kind->structure.loads.size() == 1 && !kind->windows.empty();
}

Result<> body(TemplateContext& t) {
  const auto kind = reduction_kind(t.schedule().func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  FETTLE_TRY_VOID(inline_producers(t.schedule(), kind->block));
  return tile_with_knobs(t, kind->block, {.pack = false});
}

}  // namespace

constinit const TemplateDef pooling_template{"pooling", "the maximum or the sum of windows", 10, matches, body};

}  // namespace fettle
