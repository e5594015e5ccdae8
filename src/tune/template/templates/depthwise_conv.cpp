#include "tune/template/templates/depthwise_conv.h"

#include "tune/template/tiling_knobs.h"
#include "tune/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && !kind->windows.empty() && kind->channels.empty() && !kind->shared.empty();
}

Result<> body(TemplateContext& t) {
  const auto kind = reduction_kind(t.schedule().func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  FETTLE_TRY_VOID(inline_producers(t.schedule(), kind->block));
  // The weights are few and read in order: no panels.
  return tile_with_knobs(t, kind->block, {.pack = false});
}

}  // namespace

constinit const TemplateDef depthwise_conv_template{"depthwise_conv", "a convolution of each channel by itself", 10,
                                                    matches, body};

}  // namespace fettle
