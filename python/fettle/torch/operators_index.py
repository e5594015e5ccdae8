"""Operators that look elements up by indices, and that write them there."""

import math

import numpy
import torch

from .fx import DTYPES, Kind, Tensor, Unsupported, axis_of, dense_order, translates
from .operators_shape import listed_count, sliced, strided_places


@translates("embedding")
def embedding(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    del padding_idx, scale_grad_by_freq, sparse
    return b.graph.Gather(weight.value, b.indices(indices, weight.shape[0]), axis=0)


@translates("embedding_dense_backward")
def embedding_backward(b, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        raise Unsupported("gradients scaled by frequency")
    g = b.graph
    width, indices_shape = grad.shape[-1], list(indices.shape)
    updates = grad.value
    if padding_idx >= 0:
        padding = g.Equal(indices.value, b.constant(padding_idx, indices.dtype))
        updates = g.Where(b.reshape(padding, [*indices_shape, 1]), b.constant(0, grad.dtype), updates)
    places = b.reshape(b.as_type(indices, torch.int64), [*indices_shape, 1])
    return g.ScatterND(b.zeros([num_weights, width], grad.dtype), places, updates, reduction="add")


@translates("index_select")
def index_select(b, x, dim, index):
    if x.rank == 0:
        return x.value
    axis = axis_of(dim, x.rank)
    made = b.graph.Gather(x.value, b.indices(index, x.shape[axis]), axis=axis)
    return made if index.rank else b.reshape(made, b.out.shape)


@translates("gather")
def gather(b, x, dim, index, *, sparse_grad=False):
    del sparse_grad
    if x.rank == 0:
        return b.reshape(x.value, b.out.shape)
    axis = axis_of(dim, x.rank)
    return b.graph.GatherElements(_cut(b, x, index, axis), b.indices(index, x.shape[axis]), axis=axis)


def _cut(b, x, index, axis):
    """Of the axes that are not looked along, what the index reaches."""
    value = x.value
    for other, (extent, reached) in enumerate(zip(x.shape, index.shape)):
        if other != axis and extent is not reached and not (isinstance(extent, int) and extent == reached):
            value = sliced(b, value, other, 0, reached)
    return value


def _scattered(b, x, dim, index, updates, reduction, value=None):
    """`value`: what is written into, where it is not x itself."""
    g, value = b.graph, x.value if value is None else value
    places = b.indices(index, x.shape[axis_of(dim, x.rank)] if x.rank else 1)
    if x.rank == 0:  # as a vector of one
        one = b.integers([1])
        value, places, updates = (g.Reshape(v, one) for v in (value, places, updates))
    made = g.ScatterElements(value, places, updates, axis=axis_of(dim, x.rank), reduction=reduction)
    return made if x.rank else b.reshape(made, ())


def _updates(b, src, index, dtype):
    value = b.as_type(src, dtype)
    for axis, (extent, reached) in enumerate(zip(src.shape, index.shape)):
        if isinstance(extent, int) and isinstance(reached, int) and extent == reached:
            continue
        value = sliced(b, value, axis, 0, reached)
    return value


@translates("scatter.src")
def scatter_src(b, x, dim, index, src):
    return _scattered(b, x, dim, index, _updates(b, src, index, x.dtype), "none")


@translates("scatter.value")
def scatter_value(b, x, dim, index, value):
    updates = b.graph.Expand(b.number(value, x.dtype), b.dims(index.shape))
    return _scattered(b, x, dim, index, updates, "none")


@translates("scatter_add")
def scatter_add(b, x, dim, index, src):
    return _scattered(b, x, dim, index, _updates(b, src, index, x.dtype), "add")


@translates("scatter.reduce")
def scatter_with(b, x, dim, index, src, *, reduce):
    reduction = {"add": "add", "multiply": "mul"}[reduce]
    return _scattered(b, x, dim, index, _updates(b, src, index, x.dtype), reduction)


@translates("scatter.value_reduce")
def scatter_value_with(b, x, dim, index, value, *, reduce):
    updates = b.graph.Expand(b.number(value, x.dtype), b.dims(index.shape))
    return _scattered(b, x, dim, index, updates, {"add": "add", "multiply": "mul"}[reduce])


_REDUCTIONS = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}


def _identity(reduction, dtype):
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    if dtype.is_floating_point:
        return float("-inf" if reduction == "max" else "inf")
    return torch.iinfo(dtype).min if reduction == "max" else torch.iinfo(dtype).max


@translates("scatter_reduce.two")
def scatter_reduce(b, x, dim, index, src, reduce, *, include_self=True):
    return _scatter_reduced(b, x, dim, index, index.shape, _updates(b, src, index, x.dtype), reduce, include_self)


def _scatter_reduced(b, x, dim, index, shape, updates, reduce, include_self):
    """Without the elements that are there: the identity is put in their place first."""
    g, reduction = b.graph, _REDUCTIONS[reduce]
    if x.dtype == torch.bool:
        raise Unsupported("truths")
    value = x.value
    if not include_self:
        identity = g.Expand(b.constant(_identity(reduction, x.dtype), x.dtype), b.dims(shape))
        value = _scattered(b, x, dim, index, identity, "none")
    made = _scattered(b, x, dim, index, updates, reduction, value)
    if reduce != "mean":
        return made
    if not x.dtype.is_floating_point:
        raise Unsupported("means of integers")
    ones = g.Expand(b.constant(1, x.dtype), b.dims(shape))
    start = b.zeros(x.shape, x.dtype, 1 if include_self else 0)
    count = g.Max(_scattered(b, x, dim, index, ones, "add", start), b.constant(1, x.dtype))
    return g.Div(made, count)


@translates("index_reduce")
def index_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    if x.rank == 0:
        return _scatter_reduced(b, x, 0, index, source.shape, b.as_type(source, x.dtype), reduce, include_self)
    axis = axis_of(dim, x.rank)
    lined = b.reshape(b.as_type(index, torch.int64), [1] * axis + [source.shape[axis]] + [1] * (x.rank - 1 - axis))
    places = Tensor(b.graph.Expand(lined, b.dims(source.shape)), index.fake)
    return _scatter_reduced(b, x, dim, places, source.shape, b.as_type(source, x.dtype), reduce, include_self)


class _Indexed:
    """x[i, :, j]: which axes are looked up, and where the result has those of the indices."""

    def __init__(self, b, x, indices, is_checked):
        if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
            raise Unsupported("a mask as an index: how many it selects is not known")
        self.axes = [axis for axis, i in enumerate(indices) if i is not None]
        make = b.indices if is_checked else lambda i, *_: b.as_type(i, torch.int64)
        self.given = [make(i, x.shape[axis], True) for axis, i in enumerate(indices) if i is not None]
        self.shape = list(torch.broadcast_shapes(*(i.shape for i in indices if i is not None)))
        self.others = [axis for axis in range(x.rank) if axis not in self.axes]
        adjacent = self.axes == list(range(self.axes[0], self.axes[-1] + 1)) if self.axes else False
        self.position = self.axes[0] if adjacent else 0
        self.forth = self.axes + self.others  # the axes that are looked up come first
        count = len(self.shape)
        rest = list(range(count, count + len(self.others)))
        self.back = rest[: self.position] + list(range(count)) + rest[self.position :]

    def places(self, b):
        """[…, number of axes]."""
        shape = b.dims(self.shape)
        parts = [b.graph.Unsqueeze(b.graph.Expand(i, shape), b.integers([len(self.shape)])) for i in self.given]
        return parts[0] if len(parts) == 1 else b.graph.Concat(*parts, axis=len(self.shape))


@translates("index.Tensor")
def index(b, x, indices):
    return _looked_up(b, x, indices, True)


@translates("_unsafe_index.Tensor", "prims::_unsafe_index.default")
def unsafe_index(b, x, indices):
    return _looked_up(b, x, indices, False)


def _looked_up(b, x, indices, is_checked):
    indexed = _Indexed(b, x, indices, is_checked)
    if not indexed.axes:
        return x.value
    if len(indexed.axes) == 1:
        return b.graph.Gather(x.value, indexed.given[0], axis=indexed.axes[0])
    made = b.graph.GatherND(b.transpose(x.value, indexed.forth), indexed.places(b))
    return b.transpose(made, indexed.back)


@translates("index_put")
def index_put(b, x, indices, values, accumulate=False):
    return _put(b, x, indices, values, accumulate, True)


@translates("_unsafe_index_put")
def unsafe_index_put(b, x, indices, values, accumulate=False):
    return _put(b, x, indices, values, accumulate, False)


def _put(b, x, indices, values, accumulate, is_checked):
    g = b.graph
    if len(indices) == 1 and indices[0].dtype == torch.bool:
        return _put_by_mask(b, x, indices[0], values, accumulate)
    indexed = _Indexed(b, x, indices, is_checked)
    if not indexed.axes:
        raise Unsupported("no index")
    # Values as x[indices] would be, then with the axes of the indices first.
    others = [x.shape[axis] for axis in indexed.others]
    shape = others[: indexed.position] + indexed.shape + others[indexed.position :]
    updates = g.Expand(b.as_type(values, x.dtype), b.dims(shape))
    updates = b.transpose(updates, [indexed.back.index(axis) for axis in range(len(shape))])
    reduction = "add" if accumulate else "none"
    made = g.ScatterND(b.transpose(x.value, indexed.forth), indexed.places(b), updates, reduction=reduction)
    return b.transpose(made, [indexed.forth.index(axis) for axis in range(x.rank)])


def _put_by_mask(b, x, mask, values, accumulate):
    """One value for all is a choice; else the places that the mask selects are listed."""
    g = b.graph
    if values.rank == 0 or values.fake.numel() == 1:
        wide = b.reshape(mask.value, [*mask.shape, *[1] * (x.rank - mask.rank)])
        value = b.reshape(b.as_type(values, x.dtype), ())
        return g.Where(wide, g.Add(x.value, value) if accumulate else value, x.value)
    if mask.rank == 0:
        raise Unsupported("a single truth as an index")
    places = g.Transpose(g.NonZero(mask.value), perm=[1, 0])
    shape = g.Concat(g.Shape(places, start=0, end=1), b.dims(x.shape[mask.rank :]), axis=0)
    updates = g.Expand(b.as_type(values, x.dtype), shape)
    return g.ScatterND(x.value, places, updates, reduction="add" if accumulate else "none")


@translates("slice_scatter")
def slice_scatter(b, x, src, dim=0, start=None, end=None, step=1):
    axis = axis_of(dim, x.rank)
    places = _places_along(b, x, axis, start, end, step)
    return _written_along(b, x, axis, places, b.as_type(src, x.dtype))


@translates("select_scatter")
def select_scatter(b, x, src, dim, index):
    axis = axis_of(dim, x.rank)
    index = index + x.shape[axis] if isinstance(index, int) and index < 0 else index
    updates = b.graph.Unsqueeze(b.as_type(src, x.dtype), b.integers([axis]))
    return _written_along(b, x, axis, b.dims([index]), updates)


def _places_along(b, x, axis, start, end, step):
    g, extent = b.graph, x.shape[axis]
    everything = g.Range(b.constant(0, torch.int64), b.number(extent, torch.int64), b.constant(1, torch.int64))
    return sliced(b, everything, 0, 0 if start is None else start, 2**63 - 1 if end is None else end, step)


def _written_along(b, x, axis, places, updates):
    """Slices of x along the axis are replaced."""
    g = b.graph
    perm = [axis] + [other for other in range(x.rank) if other != axis]
    made = g.ScatterND(b.transpose(x.value, perm), g.Unsqueeze(places, b.integers([1])), b.transpose(updates, perm))
    return b.transpose(made, [perm.index(other) for other in range(x.rank)])


@translates("index_add")
def index_add(b, x, dim, index, source, *, alpha=1):
    return _along(b, x, dim, index, source, alpha, "add")


@translates("index_copy")
def index_copy(b, x, dim, index, source):
    return _along(b, x, dim, index, source, 1, "none")


def _along(b, x, dim, index, source, alpha, reduction):
    g = b.graph
    updates = b.as_type(source, x.dtype)
    if alpha != 1:
        updates = g.Mul(updates, b.number(alpha, x.dtype))
    if x.rank == 0:
        return _scattered(b, x, 0, index, updates, reduction)
    axis = axis_of(dim, x.rank)
    perm = [axis] + [other for other in range(x.rank) if other != axis]
    places = b.reshape(b.indices(index, x.shape[axis]), [source.shape[axis], 1])
    made = g.ScatterND(b.transpose(x.value, perm), places, b.transpose(updates, perm), reduction=reduction)
    return b.transpose(made, [perm.index(other) for other in range(x.rank)])


@translates("index_fill.int_Scalar")
def index_fill(b, x, dim, index, value):
    if x.rank == 0:
        return b.number(value, x.dtype)
    axis = axis_of(dim, x.rank)
    shape = list(x.shape)
    shape[axis] = index.shape[0] if index.rank else 1
    updates = b.graph.Expand(b.number(value, x.dtype), b.dims(shape))
    places = b.reshape(b.indices(index, x.shape[axis], True), [shape[axis]])
    return _written_along(b, x, axis, places, updates)



@translates("masked_scatter")
def masked_scatter(b, x, mask, source):
    """The nth element that the mask selects is the source's nth."""
    g = b.graph
    wide = g.Expand(mask.value, b.dims(x.shape))
    counted = g.CumSum(g.Cast(g.Reshape(wide, b.integers([-1])), to="int64"), b.constant(0, torch.int64))
    places = g.Max(g.Sub(counted, b.constant(1, torch.int64)), b.constant(0, torch.int64))
    taken = g.Gather(g.Reshape(source.value, b.integers([-1])), places, axis=0)
    return g.Where(wide, b.reshape(taken, x.shape), x.value)


@translates("put")
def put(b, x, index, source, accumulate=False):
    g, flat = b.graph, b.integers([-1])
    places = g.Reshape(b.indices(index, b.numel(x), True), flat)
    updates = g.Reshape(source.value, flat)
    reduction = "add" if accumulate else "none"
    made = g.ScatterElements(g.Reshape(x.value, flat), places, updates, axis=0, reduction=reduction)
    return b.reshape(made, x.shape)


def _written_at(b, x, source, places):
    """`places`: which elements of x, counted through all of it, the source replaces."""
    g, flat = b.graph, b.integers([-1])
    listed = g.constant(numpy.ascontiguousarray(places).reshape(-1))
    made = g.ScatterElements(g.Reshape(x.value, flat), listed, g.Reshape(source.value, flat), axis=0)
    return b.reshape(made, x.shape)


@translates("diagonal_scatter")
def diagonal_scatter(b, x, source, offset=0, dim1=0, dim2=1):
    places = numpy.arange(listed_count(x.shape)).reshape(x.shape)
    return _written_at(b, x, source, numpy.diagonal(places, offset, dim1, dim2))


@translates("as_strided_scatter")
def as_strided_scatter(b, x, source, size, stride, storage_offset=None):
    places = strided_places(x, size, stride, storage_offset)
    if dense_order(x.shape, x.fake.stride()) != list(range(x.rank)) or len(numpy.unique(places)) != places.size:
        raise Unsupported("a view of memory that is not known")
    return _written_at(b, x, source, places)


_MOST_COMPARISONS = 1 << 24


@translates("bucketize.Tensor", "bucketize.Scalar")
def bucketize(b, values, boundaries, *, out_int32=False, right=False):
    return searchsorted(b, boundaries, values, out_int32=out_int32, right=right)


@translates("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(b, ordered, values, *, out_int32=False, right=False, side=None, sorter=None):
    """How many elements are less (not greater): all are compared."""
    del out_int32
    g = b.graph
    extents = [*ordered.shape, *(values.shape if isinstance(values, Tensor) else ())]
    if not all(isinstance(e, int) for e in extents) or math.prod(extents) > _MOST_COMPARISONS:
        raise Unsupported("a search in many elements")
    (line, keys), dtype = b.promoted(ordered, values, kind=Kind.ALWAYS_BOOL)
    if sorter is not None:
        line = g.GatherElements(line, sorter.value, axis=-1)
    keys = g.Unsqueeze(keys, b.integers([b.out.dim()]))
    if ordered.rank > 1:
        line = g.Unsqueeze(line, b.integers([ordered.rank - 1]))
    less = g.LessOrEqual(line, keys) if right or side == "right" else g.Less(line, keys)
    return g.ReduceSum(g.Cast(less, to=DTYPES[b.out.dtype]), b.integers([b.out.dim()]), keepdims=0)
