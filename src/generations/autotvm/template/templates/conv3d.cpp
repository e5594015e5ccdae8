// A convolution with 3 window dimensions, any layout, stride, dilation and padding.

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

bool matches(const Func& workload) { return is_convolution(workload, 3); }

Result<> body(TemplateContext& t) { return tile_the_reduction(t); }

}  // namespace

extern constinit const TemplateDef conv3d_template{
    "conv3d", "a convolution over 3 dimensions, directly, in register tiles", 10, matches, body};

}  // namespace fettle
