// O[c, h, w] += I[c, h + r, w + q] * W[c, r, q]: windows alone are summed over, and both factors depend on the
// channel.

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && !kind->windows.empty() && kind->channels.empty() && !kind->shared.empty();
}

// The weights are few and read in order: no panels.
Result<> body(TemplateContext& t) { return tile_the_reduction(t, {.pack = false}); }

}  // namespace

extern constinit const TemplateDef depthwise_conv_template{"depthwise_conv", "a convolution of each channel by itself",
                                                           10, matches, body};

}  // namespace fettle
