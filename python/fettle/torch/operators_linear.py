"""Products, convolutions, pooling, normalisation, attention, and images that are resized."""

import math

import numpy
import torch

from .fx import DTYPES, Unsupported, translates
from .operators_reduce import reduced


def _only_floats(x):
    if not x.dtype.is_floating_point:
        raise Unsupported(f"elements of {x.dtype}")


# --- products


@translates("mm", "bmm", "matmul")
def matmul(b, x, y):
    return b.graph.MatMul(x.value, y.value)


@translates("addmm", "addbmm", "baddbmm")
def addmm(b, bias, x, y, *, beta=1, alpha=1):
    """beta * bias + alpha * (x @ y); with beta = 0 the bias is not looked at."""
    g = b.graph
    product = g.MatMul(x.value, y.value)
    if x.rank > b.out.dim():  # addbmm: the sum over the batch
        product = g.ReduceSum(product, b.integers([0]), keepdims=0)
    if alpha != 1:
        product = g.Mul(product, b.number(alpha, x.dtype))
    if beta == 0:
        return product
    added = bias.value if beta == 1 else g.Mul(bias.value, b.number(beta, x.dtype))
    return g.Add(product, added)


@translates("_cdist_forward")
def cdist(b, x, y, p, compute_mode):
    """Distances of all rows to all others."""
    del compute_mode
    g = b.graph
    away = g.Abs(g.Sub(g.Unsqueeze(x.value, b.integers([x.rank - 1])), g.Unsqueeze(y.value, b.integers([y.rank - 2]))))
    last = b.integers([b.out.dim()])
    if p == math.inf:
        return g.ReduceMax(away, last, keepdims=0)
    if p == 0:
        return g.ReduceSum(g.Cast(g.Greater(away, b.constant(0, x.dtype)), to=DTYPES[x.dtype]), last, keepdims=0)
    if p in (1, 2):
        return g.node("ReduceL1" if p == 1 else "ReduceL2", [away, last], keepdims=0)
    powers = g.ReduceSum(g.Pow(away, b.constant(p, x.dtype)), last, keepdims=0)
    return g.Pow(powers, b.constant(1 / p, x.dtype))


@translates("dot", "mv", "vdot")
def dot(b, x, y):
    return b.graph.MatMul(x.value, y.value)


# --- convolutions


def _each(value, count):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


@translates("convolution")
def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = x.rank - 2
    inputs = [x.value, weight.value] + ([bias.value] if bias is not None else [])
    window = _window(weight.shape[2:], stride, padding, dilation, n)
    if transposed:
        return b.graph.node("ConvTranspose", inputs, group=groups, output_padding=_each(output_padding, n), **window)
    return b.graph.node("Conv", inputs, group=groups, **window)


def _window(kernel, stride, padding, dilation, n):
    return {
        "kernel_shape": [int(k) for k in kernel],
        "strides": _each(stride, n),
        "pads": _each(padding, n) * 2,
        "dilations": _each(dilation, n),
    }


@translates("convolution_backward")
def convolution_backward(b, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    del bias_sizes
    if transposed:
        raise Unsupported("gradients of a transposed convolution")
    g, n = b.graph, x.rank - 2
    stride, padding, dilation = (_each(v, n) for v in (stride, padding, dilation))
    kernel = list(weight.shape[2:])
    made = [None, None, None]
    if mask[0]:
        extra = [x.shape[2 + i] - ((grad.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1)
                 for i in range(n)]  # fmt: skip
        if not all(isinstance(e, int) for e in extra):
            raise Unsupported("gradients of a convolution of open extents")
        window = _window(kernel, stride, padding, dilation, n)
        made[0] = g.node("ConvTranspose", [grad.value, weight.value], group=groups, output_padding=extra, **window)
    if mask[1]:
        made[1] = _weight_gradient(b, grad, x, kernel, stride, padding, dilation, groups)
    if mask[2]:
        made[2] = reduced(b, "ReduceSum", grad.value, [0] + list(range(2, grad.rank)), False, grad.rank)
    return made


def _weight_gradient(b, grad, x, kernel, stride, padding, dilation, groups):
    """A convolution of x with the gradient, over the batch: what was the stride is the dilation."""
    g, n = b.graph, len(kernel)
    space = list(range(2, 2 + n))

    def batch_inside(tensor, outer):
        """[N, G*c, …] → [c, G*N, …], or [G*c, N, …]."""
        count, channels = tensor.shape[0], tensor.shape[1] // groups
        value = b.reshape(tensor.value, [count, groups, channels, *tensor.shape[2:]])
        value = g.Transpose(value, perm=[*outer, *(axis + 1 for axis in space)])
        return value, count, channels

    value, count, channels = batch_inside(x, [2, 1, 0])
    value = b.reshape(value, [channels, groups * count, *x.shape[2:]])
    kernels, _, filters = batch_inside(grad, [1, 2, 0])
    kernels = b.reshape(kernels, [groups * filters, count, *grad.shape[2:]])
    made = g.node("Conv", [value, kernels], group=groups, strides=dilation, dilations=stride, pads=padding * 2)
    ends, starts = b.integers([int(k) for k in kernel]), b.integers([0] * n)
    made = g.Slice(made, starts, ends, b.integers(space), b.integers([1] * n))
    return g.Transpose(made, perm=[1, 0, *space])


# --- pooling


def _pooled(n, kernel, stride, padding, ceil_mode):
    kernel = _each(kernel, n)
    return {
        "kernel_shape": kernel,
        "strides": _each(stride, n) if stride else kernel,
        "pads": _each(padding, n) * 2,
        "ceil_mode": int(ceil_mode),
    }


def _batched(b, x, n):
    """One image is a batch of one."""
    return x.value if x.rank == n + 2 else b.reshape(x.value, [1, *x.shape])


def _as_given(b, x, n, value, fake):
    return value if x.rank == n + 2 else b.reshape(value, fake.shape)


def _max_pool(name, n):
    @translates(name)
    def translate(b, x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        return _max_pooled(b, x, n, _pooled(n, kernel_size, stride, padding, ceil_mode), dilation)


def _max_pooled(b, x, n, window, dilation):
    _only_floats(x)
    wants_places = b.uses(1)
    made = b.graph.node("MaxPool", [_batched(b, x, n)], outputs=2 if wants_places else 1,
                        dilations=_each(dilation, n), **window)  # fmt: skip
    if not wants_places:
        return [_as_given(b, x, n, made, b.out[0])]
    area = math.prod(x.shape[-n:])
    places = b.graph.Mod(made[1], b.number(area, torch.int64))  # ONNX counts through the batch, too
    return [_as_given(b, x, n, made[0], b.out[0]), _as_given(b, x, n, places, b.out[1])]


_max_pool("max_pool2d_with_indices", 2)
_max_pool("max_pool3d_with_indices", 3)


@translates("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b, x, output_size):
    """Where all windows are alike."""
    n = len(output_size)
    extents = x.shape[-n:]
    if any(not isinstance(e, int) or e % size for e, size in zip(extents, output_size)):
        raise Unsupported("windows that differ in size")
    return _max_pooled(b, x, n, _pooled(n, [e // size for e, size in zip(extents, output_size)], (), 0, False), 1)


@translates("max_pool2d_with_indices_backward")
def max_pool2d_backward(b, grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    del kernel_size, stride, padding, dilation, ceil_mode
    outer = list(x.shape[:-2])
    places = b.reshape(indices.value, outer + [indices.shape[-2] * indices.shape[-1]])
    updates = b.reshape(grad.value, outer + [grad.shape[-2] * grad.shape[-1]])
    empty = b.zeros(outer + [x.shape[-2] * x.shape[-1]], x.dtype)
    made = b.graph.ScatterElements(empty, places, updates, axis=x.rank - 2, reduction="add")
    return b.reshape(made, x.shape)


def _average_pool(name, n):
    @translates(name)
    def translate(b, x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        _only_floats(x)
        window = _pooled(n, kernel_size, stride, padding, ceil_mode)
        g, value = b.graph, _batched(b, x, n)
        if divisor_override is None:
            value = g.node("AveragePool", [value], count_include_pad=int(count_include_pad), **window)
            return _as_given(b, x, n, value, b.out)
        if ceil_mode:
            raise Unsupported("a divisor where windows are cut")
        area = math.prod(window["kernel_shape"])
        value = g.node("AveragePool", [value], count_include_pad=1, **window)
        value = g.Mul(value, b.constant(area / divisor_override, x.dtype))
        return _as_given(b, x, n, value, b.out)


_average_pool("avg_pool1d", 1)
_average_pool("avg_pool2d", 2)
_average_pool("avg_pool3d", 3)


@translates("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_average_pool(b, x, output_size):
    """Along each axis a product with the matrix of windows."""
    g, value, n = b.graph, x.value, len(output_size)
    if all(size == 1 for size in output_size):
        return reduced(b, "ReduceMean", value, list(range(x.rank - n, x.rank)), True, x.rank)
    for axis, size in zip(range(x.rank - n, x.rank), output_size):
        extent = x.shape[axis]
        if not isinstance(extent, int) or not isinstance(size, int):
            raise Unsupported("windows that adapt to open extents")
        if extent == size:
            continue
        matrix = numpy.zeros((extent, size))
        for i in range(size):
            begin, end = i * extent // size, -(-(i + 1) * extent // size)
            matrix[begin:end, i] = 1 / (end - begin)
        weights = g.Cast(g.constant(matrix.astype("float32")), to=DTYPES[x.dtype])
        last = axis == x.rank - 1
        swap = list(range(x.rank))
        swap[axis], swap[-1] = swap[-1], swap[axis]
        value = value if last else g.Transpose(value, perm=swap)
        value = g.MatMul(value, weights)
        value = value if last else g.Transpose(value, perm=swap)
    return value


# --- normalisation


@translates("native_layer_norm")
def native_layer_norm(b, x, normalized_shape, weight, bias, eps):
    axis = x.rank - len(normalized_shape)
    scale = weight.value if weight is not None else b.zeros(normalized_shape, x.dtype, 1)
    inputs = [x.value, scale] + ([bias.value] if bias is not None else [])
    outputs = 3 if b.uses(1) or b.uses(2) else 1
    made = b.graph.node("LayerNormalization", inputs, outputs=outputs, axis=axis, epsilon=float(eps))
    return made if outputs == 3 else [made]


def _channel(b, tensor, count, fill, dtype):
    return tensor.value if tensor is not None else b.zeros([count], dtype, fill)


@translates("_native_batch_norm_legit_no_training")
def batch_norm_inference(b, x, weight, bias, running_mean, running_var, momentum, eps):
    del momentum
    count = x.shape[1]
    inputs = [x.value, _channel(b, weight, count, 1, x.dtype), _channel(b, bias, count, 0, x.dtype),
              running_mean.value, running_var.value]  # fmt: skip
    made = [b.graph.node("BatchNormalization", inputs, epsilon=float(eps))]
    # Of the statistics of a batch there are none: torch gives empty ones.
    return made + [b.zeros(fake.shape, fake.dtype) for i, fake in enumerate(b.out) if i and b.uses(i)]


@translates("native_group_norm")
def native_group_norm(b, x, weight, bias, N, C, HxW, group, eps):
    del HxW
    g = b.graph
    flat = b.reshape(x.value, [N, group, -1]) if isinstance(N, int) and N else g.Reshape(x.value, b.integers([0, group, -1]))
    mean = g.ReduceMean(flat, b.integers([2]), keepdims=1)
    away = g.Sub(flat, mean)
    variance = g.ReduceMean(g.Mul(away, away), b.integers([2]), keepdims=1)
    inverse = g.Reciprocal(g.Sqrt(g.Add(variance, b.constant(eps, x.dtype))))
    if b.uses(1) or b.uses(2):
        value = b.reshape(g.Mul(away, inverse), x.shape)
        for factor, operator in ((weight, "Mul"), (bias, "Add")):
            if factor is not None:
                value = g.node(operator, [value, b.reshape(factor.value, [C] + [1] * (x.rank - 2))])
        return value, g.Squeeze(mean, b.integers([2])), g.Squeeze(inverse, b.integers([2]))
    inputs = [x.value, _channel(b, weight, C, 1, x.dtype), _channel(b, bias, C, 0, x.dtype)]
    return [g.node("GroupNormalization", inputs, num_groups=group, epsilon=float(eps))]


# --- attention


def _scores(b, q, k, is_causal, mask, scale):
    g = b.graph
    scale = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    scores = g.MatMul(q.value, g.Transpose(k.value, perm=[0, 1, 3, 2]))
    scores = g.Mul(scores, b.constant(scale, q.dtype))
    if mask is not None:
        scores = g.Add(scores, b.as_type(mask, q.dtype))
    if is_causal:
        ones = b.zeros([q.shape[2], k.shape[2]], torch.uint8, 1)
        seen = g.Cast(g.Trilu(ones, upper=0), to="bool")
        scores = g.Where(seen, scores, b.constant(-math.inf, q.dtype))
    return scores, scale


@translates("_scaled_dot_product_flash_attention_for_cpu")
def attention(b, q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if dropout_p:
        raise Unsupported("attention with dropout")
    g = b.graph
    if b.uses(1):  # the sums, which the gradients need
        scores, _ = _scores(b, q, k, is_causal, attn_mask, scale)
        sums = g.ReduceLogSumExp(scores, b.integers([3]), keepdims=1)
        weights = g.Exp(g.Sub(scores, sums))
        return g.MatMul(weights, v.value), b.reshape(sums, q.shape[:3])
    inputs = [q.value, k.value, v.value] + ([b.as_type(attn_mask, q.dtype)] if attn_mask is not None else [])
    options = {} if scale is None else {"scale": float(scale)}
    return [g.node("Attention", inputs, is_causal=int(is_causal), **options)]


@translates("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(b, grad, q, k, v, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    if dropout_p:
        raise Unsupported("attention with dropout")
    g = b.graph

    def turned(value):
        return g.Transpose(value, perm=[0, 1, 3, 2])

    scores, scale = _scores(b, q, k, is_causal, attn_mask, scale)
    sums = b.reshape(b.as_type(logsumexp, q.dtype), [*q.shape[:3], 1])
    weights = g.Exp(g.Sub(scores, sums))
    dv = g.MatMul(turned(weights), grad.value)
    dweights = g.MatMul(grad.value, turned(v.value))
    inner = g.ReduceSum(g.Mul(grad.value, out.value), b.integers([3]), keepdims=1)
    dscores = g.Mul(g.Mul(weights, g.Sub(dweights, inner)), b.constant(scale, q.dtype))
    return g.MatMul(dscores, k.value), g.MatMul(turned(dscores), q.value), dv


# --- images


def _resized(b, x, mode, transformation, **options):
    """To the extents that torch says."""
    sizes = b.dims(list(b.out.shape))
    if any(not isinstance(e, int) for e in (*x.shape[2:], *b.out.shape[2:])):
        raise Unsupported("images of open extents that are resized")
    return b.graph.node("Resize", [x.value, None, None, sizes], mode=mode,
                        coordinate_transformation_mode=transformation, **options)  # fmt: skip


def _given_scales(scales, x, out):
    """Torch maps places by the scales that the caller gave, which extents need not tell."""
    for scale, extent, made in zip(scales or [], x.shape[2:], out.shape[2:]):
        if scale is not None and scale * extent != made:
            raise Unsupported("images resized by scales that do not divide their extents")


@translates("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def upsample_nearest(b, x, output_size, scale_factors):
    del output_size
    _given_scales(scale_factors, x, b.out)
    return _resized(b, x, "nearest", "asymmetric", nearest_mode="floor")


@translates("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def upsample_linear(b, x, output_size, align_corners, scale_factors):
    del output_size
    _given_scales(scale_factors, x, b.out)
    return _resized(b, x, "linear", "align_corners" if align_corners else "half_pixel")


@translates("upsample_bicubic2d.vec")
def upsample_bicubic(b, x, output_size, align_corners, scale_factors):
    del output_size
    _given_scales(scale_factors, x, b.out)
    return _resized(b, x, "cubic", "align_corners" if align_corners else "half_pixel", cubic_coeff_a=-0.75)


@translates("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(b, x, grid, interpolation_mode, padding_mode, align_corners):
    mode = ["linear", "nearest", "cubic"][interpolation_mode]
    padding = ["zeros", "border", "reflection"][padding_mode]
    return b.graph.GridSample(x.value, grid.value, mode=mode, padding_mode=padding, align_corners=int(align_corners))
