"""Pooling, and images that are resized."""

import math

import numpy
import torch

from .fx import Unsupported, translates
from .operators_linear import along, each
from .operators_reduce import reduced
from .operators_shape import padded


def _only_floats(x):
    if not x.dtype.is_floating_point:
        raise Unsupported(f"elements of {x.dtype}")


def _pooled(n, kernel, stride, padding, ceil_mode):
    kernel = each(kernel, n)
    return {
        "kernel_shape": kernel,
        "strides": each(stride, n) if stride else kernel,
        "pads": each(padding, n) * 2,
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
                        dilations=each(dilation, n), **window)  # fmt: skip
    if not wants_places:
        return [_as_given(b, x, n, made, b.out[0])]
    area = math.prod(x.shape[-n:])
    places = b.graph.Mod(made[1], b.number(area, torch.int64))  # ONNX counts through the batch, too
    return [_as_given(b, x, n, made[0], b.out[0]), _as_given(b, x, n, places, b.out[1])]


_max_pool("max_pool2d_with_indices", 2)
_max_pool("max_pool3d_with_indices", 3)


@translates("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b, x, output_size):
    """Windows that are alike are pooled; else the elements of each are put side by side, some of them twice."""
    n = len(output_size)
    extents = x.shape[-n:]
    if any(not isinstance(e, int) for e in (*extents, *output_size)):
        raise Unsupported("windows that adapt to open extents")
    if not any(e % size for e, size in zip(extents, output_size)):
        return _max_pooled(b, x, n, _pooled(n, [e // size for e, size in zip(extents, output_size)], (), 0, False), 1)
    _only_floats(x)
    g, value, first = b.graph, x.value, x.rank - n
    places = numpy.zeros([1] * (2 * n), "int64")
    for i, (extent, size) in enumerate(zip(extents, output_size)):
        windows = [(k * extent // size, -(-(k + 1) * extent // size)) for k in range(size)]
        widest = max(end - begin for begin, end in windows)
        taken = numpy.array([[min(begin + j, end - 1) for j in range(widest)] for begin, end in windows])
        value = g.Gather(value, g.constant(taken), axis=first + 2 * i)
        places = places * extent + taken.reshape([taken.shape[axis - 2 * i] if axis in (2 * i, 2 * i + 1) else 1 for axis in range(2 * n)])
    # […, size, window, size, window] → […, size, size, windows]
    outer = list(range(first))
    inner = list(range(0, 2 * n, 2)) + list(range(1, 2 * n, 2))
    value = g.Transpose(value, perm=outer + [first + axis for axis in inner])
    value = b.reshape(value, [*x.shape[:first], *output_size, -1])
    last = first + n
    made = [g.ReduceMax(value, b.integers([last]), keepdims=0)]
    if b.uses(1):
        chosen = g.ArgMax(value, axis=last, keepdims=1)
        listed = places.transpose(inner).reshape([1] * first + [*output_size, -1])
        whole = g.Expand(g.constant(numpy.ascontiguousarray(listed)), g.Shape(value))
        made.append(g.Squeeze(g.GatherElements(whole, chosen, axis=last), b.integers([last])))
    return made


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
        # The sum: padding is written out, so that no window is cut.
        area, pads = math.prod(window["kernel_shape"]), []
        for axis, (k, stride, before) in enumerate(zip(window["kernel_shape"], window["strides"], window["pads"])):
            extent, made = x.shape[x.rank - n + axis], b.out.shape[b.out.dim() - n + axis]
            if not isinstance(extent, int):
                raise Unsupported("a divisor, and open extents")
            pads = [before, max((made - 1) * stride + k - extent - before, 0), *pads]
        value = padded(b, value, pads, n + 2, "constant")
        value = g.node("AveragePool", [value], kernel_shape=window["kernel_shape"], strides=window["strides"])
        value = g.Mul(value, b.constant(area / divisor_override, x.dtype))
        return _as_given(b, x, n, value, b.out)


_average_pool("avg_pool1d", 1)
_average_pool("avg_pool2d", 2)
_average_pool("avg_pool3d", 3)


@translates("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_average_pool(b, x, output_size):
    """Along each axis a product with the matrix of windows."""
    value, n = x.value, len(output_size)
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
        value = along(b, value, axis, x.rank, matrix, x.dtype)
    return value


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


# What a place adds to another one at this distance, in steps of the coarser image, and how far this reaches.
_FILTERS = {
    "linear": (1, lambda d: max(1 - d, 0)),
    "cubic": (2, lambda d: (1.5 * d - 2.5) * d * d + 1 if d < 1 else ((-0.5 * d + 2.5) * d - 4) * d + 2 if d < 2 else 0),
}


def _smoothing(extent, size, scale, align_corners, kind):
    """[extent, size]: the weights of a filter that is as wide as a step of the coarser image."""
    reach, weight = _FILTERS[kind]
    if align_corners:
        step = (extent - 1) / (size - 1) if size > 1 else 0
    else:
        step = 1 / scale if scale else extent / size
    wide = max(step, 1)
    matrix = numpy.zeros((extent, size))
    for i in range(size):
        centre = step * (i + 0.5)
        begin, end = max(int(centre - reach * wide + 0.5), 0), min(int(centre + reach * wide + 0.5), extent)
        weights = [weight(abs(j - centre + 0.5) / wide) for j in range(begin, end)]
        matrix[begin:end, i] = numpy.array(weights) / sum(weights)
    return matrix


def _smooth(name, kind):
    @translates(name, f"{name}.vec")
    def translate(b, x, output_size, align_corners, *scales):
        del output_size
        scales = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales
        value = x.value
        for i, axis in enumerate((2, 3)):
            extent, size = x.shape[axis], b.out.shape[axis]
            if not isinstance(extent, int) or not isinstance(size, int):
                raise Unsupported("images of open extents that are resized")
            if extent != size:
                scale = scales[i] if scales else None
                value = along(b, value, axis, x.rank, _smoothing(extent, size, scale, align_corners, kind), x.dtype)
        return value


_smooth("_upsample_bilinear2d_aa", "linear")
_smooth("_upsample_bicubic2d_aa", "cubic")
