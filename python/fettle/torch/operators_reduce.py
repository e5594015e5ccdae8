"""Reductions, scans, and sorting."""

import torch

from .fx import Tensor, Unsupported, axis_of, translates


def axes_of(dim, rank):
    """None and [] are all axes."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(rank))
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    return [axis_of(d, rank) for d in dims] if rank else []


def reduced(b, operator, value, axes, keepdim, rank):
    if rank == 0 or not axes:
        return value
    return b.graph.node(operator, [value, b.integers(axes)], keepdims=int(keepdim))


@translates("sum.dim_IntList", "sum")
def sum_(b, x, dim=None, keepdim=False, *, dtype=None):
    del dtype
    value = b.as_type(x, b.out.dtype)
    return reduced(b, "ReduceSum", value, axes_of(dim, x.rank), keepdim, x.rank)


@translates("mean.dim", "mean")
def mean(b, x, dim=None, keepdim=False, *, dtype=None):
    del dtype
    value = b.as_type(x, b.out.dtype)
    return reduced(b, "ReduceMean", value, axes_of(dim, x.rank), keepdim, x.rank)


@translates("prod.dim_int", "prod", "prims::prod.default")
def prod(b, x, dim=None, keepdim=False, *, dtype=None, output_dtype=None):
    del dtype, output_dtype
    value = b.as_type(x, b.out.dtype)
    return reduced(b, "ReduceProd", value, axes_of(dim, x.rank), keepdim, x.rank)


def _extreme(name, operator):
    @translates(name)
    def translate(b, x, dim=(), keepdim=False):
        axes = axes_of(dim, x.rank)
        if x.dtype == torch.bool:
            value = reduced(b, operator, b.cast(x.value, torch.bool, torch.uint8), axes, keepdim, x.rank)
            return b.cast(value, torch.uint8, torch.bool)
        return reduced(b, operator, x.value, axes, keepdim, x.rank)


_extreme("amax", "ReduceMax")
_extreme("amin", "ReduceMin")
_extreme("max", "ReduceMax")
_extreme("min", "ReduceMin")


def _truths(name, operator):
    @translates(name, f"{name}.dim", f"{name}.dims")
    def translate(b, x, dim=None, keepdim=False):
        value = b.cast(b.as_type(x, torch.bool), torch.bool, torch.uint8)
        axes = axes_of(dim, x.rank) if dim is None or not isinstance(dim, (list, tuple)) or dim else []
        return b.cast(reduced(b, operator, value, axes, keepdim, x.rank), torch.uint8, torch.bool)


_truths("any", "ReduceMax")
_truths("all", "ReduceMin")


def _place(name, operator):
    @translates(name)
    def translate(b, x, dim=None, keepdim=False):
        _refuse_truths(x)
        if x.rank == 0:
            return b.zeros((), torch.int64)
        if dim is None:
            flat = b.graph.Reshape(x.value, b.integers([-1]))
            place = b.graph.node(operator, [flat], axis=0, keepdims=0)
            return b.reshape(place, b.out.shape) if keepdim else place
        return b.graph.node(operator, [x.value], axis=axis_of(dim, x.rank), keepdims=int(keepdim))


def _refuse_truths(x):
    if x.dtype == torch.bool:
        raise Unsupported("truths")


_place("argmax", "ArgMax")
_place("argmin", "ArgMin")


def _extreme_and_place(name, extreme, place):
    @translates(name)
    def translate(b, x, dim, keepdim=False):
        _refuse_truths(x)
        if x.rank == 0:
            return x.value, b.zeros((), torch.int64)
        axis = axis_of(dim, x.rank)
        values = reduced(b, extreme, x.value, [axis], keepdim, x.rank)
        return values, b.graph.node(place, [x.value], axis=axis, keepdims=int(keepdim))


_extreme_and_place("max.dim", "ReduceMax", "ArgMax")
_extreme_and_place("min.dim", "ReduceMin", "ArgMin")


def _count(b, x, axes, dtype):
    total = b.constant(1, torch.int64)
    for axis in axes:
        total = b.graph.Mul(total, b.number(x.shape[axis], torch.int64))
    return b.cast(total, torch.int64, dtype)


def moments(b, x, axes, correction, keepdim):
    """Mean and variance of what is left when `axes` are gone."""
    g = b.graph
    average = reduced(b, "ReduceMean", x.value, axes, True, x.rank)
    away = g.Sub(x.value, average)
    squares = reduced(b, "ReduceSum", g.Mul(away, away), axes, keepdim, x.rank)
    count = g.Sub(_count(b, x, axes, x.dtype), b.constant(correction, x.dtype))
    variance = g.Div(squares, g.Max(count, b.constant(0, x.dtype)))
    return reduced(b, "ReduceMean", x.value, axes, keepdim, x.rank), variance


@translates("var.correction", "prims::var.default")
def var(b, x, dim=None, correction=1, keepdim=False, **options):
    correction = 1 if correction is None else correction
    del options
    return moments(b, x, axes_of(dim, x.rank), correction, keepdim)[1]


@translates("var_mean.correction")
def var_mean(b, x, dim=None, *, correction=1, keepdim=False):
    average, variance = moments(b, x, axes_of(dim, x.rank), 1 if correction is None else correction, keepdim)
    return variance, average


@translates("cumsum")
def cumsum(b, x, dim, *, dtype=None):
    del dtype
    value = b.as_type(x, b.out.dtype)
    return b.graph.CumSum(value, b.constant(axis_of(dim, x.rank), torch.int64)) if x.rank else value


@translates("cumprod")
def cumprod(b, x, dim, *, dtype=None):
    del dtype
    value = b.as_type(x, b.out.dtype)
    return b.graph.CumProd(value, b.constant(axis_of(dim, x.rank), torch.int64)) if x.rank else value


@translates("topk")
def topk(b, x, k, dim=-1, largest=True, sorted=True):
    del sorted
    if x.rank == 0:
        return x.value, b.zeros((), torch.int64)
    return b.graph.node("TopK", [x.value, b.dims([k])], outputs=2, axis=axis_of(dim, x.rank), largest=int(largest))


@translates("sort.stable", "sort")
def sort(b, x, *args, stable=None, dim=-1, descending=False):
    """All of it, of equals the first one first."""
    del stable
    if len(args) == 3:  # (stable, dim, descending)
        args = args[1:]
    dim, descending = (*args, dim, descending)[:2] if len(args) != 1 else (args[0], descending)
    if x.rank == 0:
        return x.value, b.zeros((), torch.int64)
    _refuse_truths(x)
    axis = axis_of(dim, x.rank)
    return b.graph.node("TopK", [x.value, b.dims([x.shape[axis]])], outputs=2, axis=axis, largest=int(descending))


@translates("_softmax")
def softmax(b, x, dim, half_to_float):
    del half_to_float
    value = b.as_type(x, b.out.dtype)
    return b.graph.Softmax(value, axis=axis_of(dim, x.rank)) if x.rank else b.zeros((), b.out.dtype, 1)


@translates("_log_softmax")
def log_softmax(b, x, dim, half_to_float):
    del half_to_float
    value = b.as_type(x, b.out.dtype)
    return b.graph.LogSoftmax(value, axis=axis_of(dim, x.rank)) if x.rank else b.zeros((), b.out.dtype)


@translates("logsumexp")
def logsumexp(b, x, dim, keepdim=False):
    value = b.as_type(x, b.out.dtype)
    return reduced(b, "ReduceLogSumExp", value, axes_of(dim, x.rank), keepdim, x.rank)


def _of_order(b, x, place, dim, keepdim, nan_wins):
    """The element that `place` others precede, and where it was."""
    if x.rank == 0:
        return x.value, b.zeros((), torch.int64)
    g, axis = b.graph, axis_of(dim, x.rank)
    values, places = g.node("TopK", [x.value, b.dims([place + 1])], outputs=2, axis=axis, largest=0)
    picked = []
    for made in (values, places):
        one = g.Gather(made, b.integers([place]) if keepdim else b.constant(place, torch.int64), axis=axis)
        picked.append(one)
    if not nan_wins or not x.dtype.is_floating_point:
        return picked
    nan = g.Cast(g.IsNaN(x.value), to="uint8")
    some = g.Cast(g.ReduceMax(nan, b.integers([axis]), keepdims=int(keepdim)), to="bool")
    first = g.ArgMax(nan, axis=axis, keepdims=int(keepdim))
    return [g.Where(some, b.constant(float("nan"), x.dtype), picked[0]), g.Where(some, first, picked[1])]


def _extent(x, dim):
    extent = x.shape[axis_of(dim, x.rank)] if x.rank else 1
    if not isinstance(extent, int) or not extent:
        raise Unsupported("an open extent")
    return extent


@translates("median.dim")
def median(b, x, dim, keepdim=False):
    return _of_order(b, x, (_extent(x, dim) - 1) // 2, dim, keepdim, True)


@translates("median")
def median_of_all(b, x):
    flat = Tensor(b.graph.Reshape(x.value, b.integers([-1])), x.fake.reshape(-1))
    return _of_order(b, flat, (_extent(flat, 0) - 1) // 2, 0, False, True)[0]


@translates("kthvalue")
def kthvalue(b, x, k, dim=-1, keepdim=False):
    if not isinstance(k, int):
        raise Unsupported("an open place")
    return _of_order(b, x, k - 1, dim, keepdim, False)
