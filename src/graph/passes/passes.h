#pragma once
// The single passes. pipeline.cpp has their order.

#include "graph/passes/pipeline.h"

namespace fettle::passes {

/// Types of all values, in topological order. On the way shape arithmetic becomes constants (symbols travel along in
/// Value::content), small nodes over constants are computed, and constant parameter inputs become attributes:
///   Reshape(x, s), s = [0, -1] constant   →   Reshape(x) {shape=[0, -1]}
/// E603 … E606 as the operators' rules say
Result<> infer_shapes(Graph& graph, const PassContext& context);

/// Nodes whose inputs are all constant are computed, unless they make something much larger.
Result<> fold_constants(Graph& graph, const PassContext& context);

/// Local identities, until none applies: see simplify.cpp for the list.
///   x * 1 → x      transpose(transpose(x)) → transpose(x)      x ^ 2 → x * x      gemm → matmul + add …
Result<> simplify(Graph& graph, const PassContext& context);

/// Activations and normalisations that exporters spell out:
///   x * clip(x + 3, 0, 6) / 6 → HardSwish(x)      x * sigmoid(x) → Swish(x)      x * (1 + erf(x / √2)) / 2 → Gelu(x)
///   (x - mean(x)) / sqrt(mean((x - mean(x))²) + ε) * γ + β → LayerNormalization(x, γ, β)
Result<> recognize_patterns(Graph& graph, const PassContext& context);

/// With constant statistics: BatchNormalization(x) → x * s + b, a factor and an offset for each channel.
Result<> lower_batch_norm(Graph& graph, const PassContext& context);

/// Constant factors and offsets around convolutions and products with constant weights move into weights and bias:
///   conv(x, w, b) * s + t → conv(x, w * s, b * s + t)      conv(x * s + t, w, b) → conv(x, w * s, b + Σ w * t)
/// the offset t before a convolution only where nothing is padded. Values that others use stay.
Result<> fold_affine(Graph& graph, const PassContext& context);

/// Equal nodes over equal inputs become one, and so do equal small constants.
Result<> merge_common(Graph& graph, const PassContext& context);

/// Nodes that nothing needs are dropped.
Result<> drop_dead(Graph& graph, const PassContext& context);

}  // namespace fettle::passes
