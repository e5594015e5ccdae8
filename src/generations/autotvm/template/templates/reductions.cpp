// Programs of one reduction that is tiled in registers as it stands: products of matrices, convolutions, pooling.

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"

namespace fettle {
namespace {

// Neither windows nor channels in groups, nor phases.
bool is_product(const ReductionKind& kind) {
  return kind.product && kind.windows.empty() && kind.grouped.empty() && kind.phased.empty();
}

Result<> tiled(TemplateContext& t) { return tile_the_reduction(t); }
Result<> tiled_in_place(TemplateContext& t) { return tile_the_reduction(t, {.pack = false}); }

}  // namespace

// C[i, j] += A[i, k] * B[k, j], in any layout, also of several rows of indices (a 1x1 convolution).
extern constinit const TemplateDef matmul_template{"matmul", "a product of matrices, in register tiles", 10,
                                                   [](const Func& workload) {
                                                     const auto kind = reduction_kind(workload);
                                                     return kind && is_product(*kind) && kind->shared.empty();
                                                   },
                                                   tiled};

// C[b, i, j] += A[b, i, k] * B[b, k, j].
extern constinit const TemplateDef batched_matmul_template{"batched_matmul",
                                                           "products of matrices, one for each of a batch", 10,
                                                           [](const Func& workload) {
                                                             const auto kind = reduction_kind(workload);
                                                             return kind && is_product(*kind) && !kind->shared.empty();
                                                           },
                                                           tiled};

// Any layout, stride, dilation and padding.
extern constinit const TemplateDef conv1d_template{
    "conv1d", "a convolution over 1 dimension, directly, in register tiles", 10,
    [](const Func& workload) { return is_convolution(workload, 1); }, tiled};
extern constinit const TemplateDef conv2d_template{
    "conv2d", "a convolution over 2 dimensions, directly, in register tiles", 10,
    [](const Func& workload) { return is_convolution(workload, 2); }, tiled};
extern constinit const TemplateDef conv3d_template{
    "conv3d", "a convolution over 3 dimensions, directly, in register tiles", 10,
    [](const Func& workload) { return is_convolution(workload, 3); }, tiled};

// O[c, h, w] += I[c, h + r, w + q] * W[c, r, q]: windows alone are summed over, and both factors depend on the
// channel. The weights are few and read in order: no panels.
extern constinit const TemplateDef depthwise_conv_template{
    "depthwise_conv", "a convolution of each channel by itself", 10,
    [](const Func& workload) {
      const auto kind = reduction_kind(workload);
      return kind && kind->product && !kind->windows.empty() && kind->channels.empty() && !kind->shared.empty();
    },
    tiled_in_place};

// P[c, h, w] = max or sum over r, q of I[c, 2h + r, 2w + q].
extern constinit const TemplateDef pooling_template{
    "pooling", "the maximum or the sum of windows", 10,
    [](const Func& workload) {
      const auto kind = reduction_kind(workload);
      return kind && !kind->product && kind->structure.loads.size() == 1 && !kind->windows.empty();
    },
    tiled_in_place};

}  // namespace fettle
