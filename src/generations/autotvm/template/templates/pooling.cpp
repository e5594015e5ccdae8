// P[c, h, w] = max or sum over r, q of I[c, 2h + r, 2w + q].

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && !kind->product && kind->structure.loads.size() == 1 && !kind->windows.empty();
}

Result<> body(TemplateContext& t) { return tile_the_reduction(t, {.pack = false}); }

}  // namespace

extern constinit const TemplateDef pooling_template{"pooling", "the maximum or the sum of windows", 10, matches, body};

}  // namespace fettle
