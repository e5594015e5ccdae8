#pragma once
// The single passes. pipeline.cpp has their order.

#include "graph/passes/pipeline.h"

namespace fettle::passes {

/// Types of all values, in topological order. On the way shape arithmetic becomes constants (symbols travel along in
/// Value::content), small nodes over constants are computed, and constant parameter inputs become attributes:
///   Reshape(x, s), s = [0, -1] constant   →   Reshape(x) {shape=[0, -1]}
/// E603 … E606 as the operators' rules say
Result<> infer_shapes(Graph& graph, const PassContext& context);

/// Sizes that a rule says are equal become one, and one that is its own minimum with a number is at most that:
///   x[N] + y[M]                       →   x[N] + y[N]
///   x[N, 768] + table[N min 512, 768]   →   x[N, 768] + table[N, 768], N <= 512
///   x[N] + y[3]                       →   x[3] + y[3]
/// The inputs' extents are still checked, when they are known.
Result<> unify_sizes(Graph& graph, const PassContext& context);

/// Constants that control flow hands to its bodies become constants of these, what bodies don't read goes, and what
/// doesn't depend on a loop's iterations leaves it.
///   Loop(…, x) {body: (i, c, s, x) → s + exp(x)}   →   Loop(…, exp(x)) {body: (i, c, s, e) → s + e}
Result<> settle_bodies(Graph& graph, const PassContext& context);

/// Products of what was dequantised become products of bytes, and these of u8 by i8 without zero points:
///   matmul(dequantised(x), dequantised(w))   →   f32(matmulinteger(x, w)) * (x scale * w scale)
///   Σ (x - zx)(w - zw)   →   Σ xw - zx·Σw - zw·Σx + k·zx·zw
/// Bytes stay bytes where they are only moved. Sums are exact, where those of floats were rounded.
Result<> lower_quantized(Graph& graph, const PassContext& context);

/// Elementwise work that makes bytes of one byte alone is looked up, where it is more than a little:
///   quantised(f(dequantised(x))) → bytelookup(x, table)
Result<> tabulate_bytes(Graph& graph, const PassContext& context);

/// Products with constant weights in blocks of 2, 4 or 8 bits keep the weights packed:
///   matmul(x, transpose(unpackblocks(w, scales)))   →   blockedmatmul(x, w, scales)
///   matmul(x, dequantizelinear(w, scales) {block_size})   →   blockedmatmul(x, w', scales')
Result<> pack_weights(Graph& graph, const PassContext& context);

/// Nodes whose inputs are all constant are computed, unless they make something much larger.
Result<> fold_constants(Graph& graph, const PassContext& context);

/// Local identities, until none applies: see simplify.cpp for the list.
///   x * 1 → x      transpose(transpose(x)) → transpose(x)      x ^ 2 → x * x      gemm → matmul + add …
Result<> simplify(Graph& graph, const PassContext& context);

/// Activations and normalisations that exporters spell out:
///   x * clip(x + 3, 0, 6) / 6 → HardSwish(x)      x * sigmoid(x) → Swish(x)      x * (1 + erf(x / √2)) / 2 → Gelu(x)
///   (x - mean(x)) / sqrt(mean((x - mean(x))²) + ε) * γ + β → LayerNormalization(x, γ, β)
/// also by moments: (x - mean(x)) * (1/sqrt(mean(x²) - mean(x)² + ε) * γ) + β
///   x / sqrt(mean(x²) + ε) * γ → RMSNormalization(x, γ)      mean(x * x) → ReduceMeanSquare(x)
Result<> recognize_patterns(Graph& graph, const PassContext& context);

/// Masks that hide from each query the keys behind it, computed from places or constant:
///   where(places <= places' + 3, x, -inf), x + [[0, -inf], [0, 0]], x + trilu(-inf, 1)   →   CausalMask(x) {offset}
/// What hides by adding a number must be read by a softmax alone, for which it is as good as -inf.
Result<> recognize_masks(Graph& graph, const PassContext& context);

/// Products read what was repeated for them as it was: heads of keys and values that several heads of queries share.
///   q[B, 6, S, D] @ reshape(expand(k[B, 2, 1, T, D]))ᵀ   →   reshape(reshape(q)[B, 2, 3, S, D] @ k[B, 2, 1, T, D]ᵀ)
/// One row a head makes the heads rows: [B, 2, 3, D] @ [B, 2, T, D]ᵀ
Result<> group_heads(Graph& graph, const PassContext& context);

/// With constant statistics: BatchNormalization(x) → x * s + b, a factor and an offset for each channel. Of halves only
/// where these have both exactly.
Result<> lower_batch_norm(Graph& graph, const PassContext& context);

/// Constant factors and offsets around convolutions and products with constant weights move into weights and bias:
///   conv(x, w, b) * s + t → conv(x, w * s, b * s + t)      conv(x * s + t, w, b) → conv(x, w * s, b + Σ w * t)
/// the offset t before a convolution only where nothing is padded. Values that others use stay. A BatchNormalization by
/// constants is such a factor and offset. Weights of halves are rounded once, from double precision, if none errs by
/// more than half an epsilon of its channel's largest; a bias that halves do not have exactly is of singles.
Result<> fold_affine(Graph& graph, const PassContext& context);

/// Transposed convolutions of few output channels whose windows lie side by side become a product for each pixel,
/// spread out:
///   convtranspose(x, w) {2x2, strides 2}   →   depthtospace(conv(x, w') {1x1})
/// Others write as many pixels in each phase of their stride, part of which may be left out:
///   convtranspose(x, w) {3x3, strides 2} → [55, 55]   →   slice(convtranspose(x, w) {output_padding 1})
Result<> lower_conv_transpose(Graph& graph, const PassContext& context);

/// Reshapes and transposes move behind elementwise work, so that who makes their input takes it along:
///   reshape(x @ w) + b → reshape(x @ w + b')
/// and behind softmax and CausalMask where these see the same rows.
Result<> sink_views(Graph& graph, const PassContext& context);

/// Products with one-hot rows, and elementwise work on what is looked up in a constant:
///   cast(i == [0, 1, …, n-1]) @ w → w[i]      f(table[i]) → f(table)[i]
Result<> fold_gathers(Graph& graph, const PassContext& context);

/// Scalar factors of what is multiplied become one of the product, whose kernel takes it along:
///   (q * s) @ (k * t) → (q @ k) * (s*t)
/// Where halves do not have s*t exactly, it is (q @ k) * s * t.
Result<> sink_scales(Graph& graph, const PassContext& context);

/// Products and convolutions of one input with several constant weights become one, whose result is split:
///   x @ u + a, x @ v + b → split(x @ [u v] + [a b])
/// where nothing follows that a kernel of its own would have taken along.
Result<> combine_siblings(Graph& graph, const PassContext& context);

/// Two sums over one large matrix, of its rows or columns, become one program that goes through it once:
///   q = A p, s = Aᵀ r   →   q, s = program {for i: {for j: q[i] += A[i, j] p[j]; for j: s[j] += A[i, j] r[i]}}
///   t = A x, y = Aᵀ t   →   the same, for a row of the second needs one element of the first
/// Singles and doubles only, of known sizes. One thread runs such a program faster than two products, several do not.
Result<> join_sums(Graph& graph, const PassContext& context);

/// Loops of small elementwise work whose iterations are counted become one kernel (graph/loop_kernel.h). They are
/// marked so, and are given their bodies' constants.
///   Loop(n, s, x) {i, s, x → s * 0.9 + x[i]}   →   Loop(n, s, x, 0.9) {steps n; i, s, x, f → s * f + x[i]}
Result<> fuse_loops(Graph& graph, const PassContext& context);

/// What iterations compute for their rows alone is computed for all of them at once, behind the loop, unless the loop
/// is one kernel as it is:
///   Loop(n, s, x) {i, s, x → s * 0.9 + x[i]; Σ s}   →   Loop(n, s, x) {i, s, x → s * 0.9 + x[i]; s}, Σ over each row
/// What these nodes read becomes rows: as much as a cache holds, or a few times what the loop's rows take.
Result<> distribute_loops(Graph& graph, const PassContext& context);

/// Equal nodes over equal inputs become one, and so do equal small constants.
Result<> merge_common(Graph& graph, const PassContext& context);

/// Nodes that nothing needs are dropped.
Result<> drop_dead(Graph& graph, const PassContext& context);

}  // namespace fettle::passes
