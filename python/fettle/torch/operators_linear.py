"""Products, convolutions, normalisation, and attention."""

import math

import numpy
import torch

from .fx import DTYPES, Unsupported, translates
from .operators_reduce import reduced


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
    away = g.Sub(g.Unsqueeze(x.value, b.integers([x.rank - 1])), g.Unsqueeze(y.value, b.integers([y.rank - 2])))
    return distance(b, away, p, b.out.dim(), x.dtype)


def distance(b, away, p, axis, dtype):
    """The norm of differences along an axis."""
    g, last = b.graph, b.integers([axis])
    away = g.Abs(away)
    if p == math.inf:
        return g.ReduceMax(away, last, keepdims=0)
    if p == 0:
        return g.ReduceSum(g.Cast(g.Greater(away, b.constant(0, dtype)), to=DTYPES[dtype]), last, keepdims=0)
    if p in (1, 2):
        return g.node("ReduceL1" if p == 1 else "ReduceL2", [away, last], keepdims=0)
    powers = g.ReduceSum(g.Pow(away, b.constant(p, dtype)), last, keepdims=0)
    return g.Pow(powers, b.constant(1 / p, dtype))


def along(b, value, axis, rank, table, dtype):
    """A product with a table [extent, results] along an axis."""
    g = b.graph
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    value = g.MatMul(b.transpose(value, swap), g.Cast(g.constant(table), to=DTYPES[dtype]))
    return b.transpose(value, swap)


@translates("dot", "mv", "vdot")
def dot(b, x, y):
    return b.graph.MatMul(x.value, y.value)


@translates("_trilinear")
def trilinear(b, x, y, z, expand_x, expand_y, expand_z, summed, unroll_dim=1):
    """A product of three, each without some axes, summed along others."""
    del unroll_dim
    rank = x.rank + len(expand_x)
    letters = [chr(ord("a") + axis) for axis in range(rank)]

    def of(missing):
        return "".join(letter for axis, letter in enumerate(letters) if axis not in missing)

    equation = f"{of(expand_x)},{of(expand_y)},{of(expand_z)}->{of(summed)}"
    return b.graph.Einsum(x.value, y.value, z.value, equation=equation)


# --- convolutions


def each(value, count):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


@translates("convolution")
def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = x.rank - 2
    inputs = [x.value, weight.value] + ([bias.value] if bias is not None else [])
    window = _window(weight.shape[2:], stride, padding, dilation, n)
    if transposed:
        return b.graph.node("ConvTranspose", inputs, group=groups, output_padding=each(output_padding, n), **window)
    return b.graph.node("Conv", inputs, group=groups, **window)


def _window(kernel, stride, padding, dilation, n):
    return {
        "kernel_shape": [int(k) for k in kernel],
        "strides": each(stride, n),
        "pads": each(padding, n) * 2,
        "dilations": each(dilation, n),
    }


@translates("convolution_backward")
def convolution_backward(b, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    del bias_sizes
    if transposed:
        raise Unsupported("gradients of a transposed convolution")
    g, n = b.graph, x.rank - 2
    stride, padding, dilation = (each(v, n) for v in (stride, padding, dilation))
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
