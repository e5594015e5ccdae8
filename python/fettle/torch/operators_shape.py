"""Operators that move elements, and those that make tensors of none."""

import math

import numpy
import torch

from .fx import DTYPES, Unsupported, axis_of, dense_order, hint, translates

_MOST_INDICES = 1 << 22  # of a view whose elements are listed


@translates("view", "_unsafe_view", "reshape", "view_copy", "_reshape_copy", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze",
            "prims::view_of.default")  # fmt: skip
def view(b, x, *_):
    return b.reshape(x.value, b.out.shape)


@translates("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "prims::clone.default", "_conj", "conj", "resolve_conj",
            "resolve_neg", "real", "positive", "alias_copy")  # fmt: skip
def same(b, x, **options):
    del b, options
    return x.value


@translates("expand", "expand_copy")
def expand(b, x, size, *, implicit=False):
    del size, implicit
    return b.graph.Expand(x.value, b.dims(b.out.shape))


@translates("permute")
def permute(b, x, dims):
    return b.graph.Transpose(x.value, perm=[axis_of(d, x.rank) for d in dims]) if dims else x.value


@translates("t")
def t(b, x):
    return b.graph.Transpose(x.value, perm=[1, 0]) if x.rank == 2 else x.value


@translates("transpose.int")
def transpose(b, x, i, j):
    perm = list(range(x.rank))
    if perm:
        i, j = axis_of(i, x.rank), axis_of(j, x.rank)
        perm[i], perm[j] = perm[j], perm[i]
    return b.graph.Transpose(x.value, perm=perm) if perm else x.value


def sliced(b, value, axis, start, end, step=1):
    starts, ends = b.dims([start]), b.dims([end])
    return b.graph.Slice(value, starts, ends, b.integers([axis]), b.integers([step]))


def listed_count(shape):
    """How many elements there are, where they may be listed."""
    if not all(isinstance(e, int) for e in shape) or math.prod(shape) > _MOST_INDICES:
        raise Unsupported("elements that are too many to be listed, or open")
    return math.prod(shape)


def strided_places(x, size, stride, storage_offset):
    """Where in the memory of a dense x the elements of a view lie."""
    listed_count(size)
    if not all(isinstance(e, int) for e in (*stride, *x.shape)) or x.fake.storage_offset() != 0:
        raise Unsupported("a view of memory that is not known")
    places = numpy.full([1] * len(size), storage_offset or 0)
    for axis, (extent, step) in enumerate(zip(size, stride)):
        places = places + (numpy.arange(extent) * step).reshape([-1 if i == axis else 1 for i in range(len(size))])
    if places.size and places.max() >= math.prod(x.shape):
        raise Unsupported("a view of memory that is not known")
    return numpy.broadcast_to(places, size)


@translates("as_strided", "as_strided_copy")
def as_strided(b, x, size, stride, storage_offset=None):
    """Of a tensor that is all of its memory: elements in the memory's order, and what is taken of them."""
    order = dense_order(x.shape, x.fake.stride())
    if order is None:
        raise Unsupported("a view of memory that is not known")
    memory, taken = b.transpose(x.value, order), dense_order(size, stride)
    whole = all(isinstance(e, int) for e in (*size, *stride, *x.shape)) and math.prod(size) == math.prod(x.shape)
    if taken is not None and whole and not storage_offset and x.fake.storage_offset() == 0:
        made = b.reshape(memory, [size[axis] for axis in taken])
        return b.transpose(made, [taken.index(axis) for axis in range(len(size))])
    places = strided_places(x, size, stride, storage_offset)
    return b.graph.Gather(b.graph.Reshape(memory, b.integers([-1])), b.graph.constant(numpy.ascontiguousarray(places)), axis=0)


@translates("slice.Tensor")
def slice_(b, x, dim=0, start=None, end=None, step=1):
    if isinstance(step, torch.SymInt):
        raise Unsupported("a step that sizes decide")
    axis = axis_of(dim, x.rank)
    return sliced(b, x.value, axis, 0 if start is None else start, 2**63 - 1 if end is None else end, step)


@translates("select.int")
def select(b, x, dim, index):
    return b.graph.Gather(x.value, b.number(index, torch.int64), axis=axis_of(dim, x.rank))


@translates("narrow")
def narrow(b, x, dim, start, length):
    return sliced(b, x.value, axis_of(dim, x.rank), start, start + length)


def _parts(b, x, axis, sizes):
    if len(sizes) == 1:
        return [x.value]
    made = b.graph.node("Split", [x.value, b.dims(sizes)], outputs=len(sizes), axis=axis)
    return list(made)


@translates("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(b, x, sizes, dim=0):
    return _parts(b, x, axis_of(dim, x.rank), sizes)


@translates("split.Tensor")
def split(b, x, size, dim=0):
    axis = axis_of(dim, x.rank)
    return _parts(b, x, axis, [part.shape[axis] for part in b.out])


@translates("unbind.int")
def unbind(b, x, dim=0):
    axis = axis_of(dim, x.rank)
    return [b.graph.Gather(x.value, b.constant(i, torch.int64), axis=axis) for i in range(len(b.out))]


@translates("cat")
def cat(b, tensors, dim=0):
    # An empty vector joins tensors of any rank, and adds nothing.
    rank = b.out.dim()
    joined = [t for t in tensors if t.rank == rank and not (rank > 1 and t.shape == (0,))]
    values = [b.as_type(t, b.out.dtype) for t in joined]
    return values[0] if len(values) == 1 else b.graph.Concat(*values, axis=axis_of(dim, rank))


@translates("stack")
def stack(b, tensors, dim=0):
    axis = axis_of(dim, b.out.dim())
    values = [b.graph.Unsqueeze(b.as_type(t, b.out.dtype), b.integers([axis])) for t in tensors]
    return b.graph.Concat(*values, axis=axis)


@translates("flip")
def flip(b, x, dims):
    if not dims or not x.rank:
        return x.value
    axes = [axis_of(d, x.rank) for d in dims]
    count = len(axes)
    least = b.integers([-(2**63)] * count)
    return b.graph.Slice(x.value, b.integers([-1] * count), least, b.integers(axes), b.integers([-1] * count))


@translates("repeat")
def repeat(b, x, repeats):
    value = x.value
    if len(repeats) > x.rank:
        value = b.reshape(value, [1] * (len(repeats) - x.rank) + list(x.shape))
    return b.graph.Tile(value, b.dims(repeats)) if repeats else value


def padded(b, value, pads, rank, mode, fill=None):
    """pads: torch's, of the last axes first."""
    begin, end = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        begin[rank - 1 - i], end[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    inputs = [value, b.dims(begin + end)] + ([fill] if fill is not None else [])
    return b.graph.node("Pad", inputs, mode=mode)


@translates("constant_pad_nd")
def constant_pad_nd(b, x, pad, value=0):
    return padded(b, x.value, pad, x.rank, "constant", b.number(value, x.dtype))


@translates("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(b, x, pad):
    return padded(b, x.value, pad, x.rank, "reflect")


@translates("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(b, x, pad):
    return padded(b, x.value, pad, x.rank, "edge")


@translates("diagonal", "diagonal_copy")
def diagonal(b, x, offset=0, dim1=0, dim2=1):
    """Axes to the back, flattened, then every (n + 1)th element."""
    dim1, dim2 = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    kept = [axis for axis in range(x.rank) if axis not in (dim1, dim2)]
    g = b.graph
    value = g.Transpose(x.value, perm=kept + [dim1, dim2])
    outer, columns = [x.shape[axis] for axis in kept], x.shape[dim2]
    length = b.out.shape[-1]
    if hint(length) == 0:
        return b.zeros(b.out.shape, x.dtype)
    value = b.reshape(value, outer + [x.shape[dim1] * columns])
    start = offset if offset >= 0 else -offset * columns
    end = start + (length - 1) * (columns + 1) + 1
    indices = g.Range(b.number(start, torch.int64), b.number(end, torch.int64), b.number(columns + 1, torch.int64))
    return g.Gather(value, indices, axis=len(outer))


@translates("roll")
def roll(b, x, shifts, dims=()):
    shifts, dims = (list(v) if isinstance(v, (list, tuple)) else [v] for v in (shifts, dims))
    value = x.value
    if not dims:
        count = b.numel(x)
        return b.reshape(_rolled(b, b.reshape(value, [count]), 0, shifts[0], count), x.shape)
    for shift, dim in zip(shifts, dims):
        axis = axis_of(dim, x.rank)
        value = _rolled(b, value, axis, shift, x.shape[axis])
    return value


def _rolled(b, value, axis, shift, extent):
    if not isinstance(extent, int):
        raise Unsupported("an open extent")
    cut = -shift % extent if extent else 0
    if cut == 0:
        return value
    last = 2**63 - 1
    return b.graph.Concat(sliced(b, value, axis, cut, last), sliced(b, value, axis, 0, cut), axis=axis)


def _triangle(name, upper):
    @translates(name)
    def translate(b, x, diagonal=0):
        if x.dtype == torch.bool:
            value = b.graph.Trilu(b.cast(x.value, torch.bool, torch.uint8), b.constant(diagonal, torch.int64), upper=upper)
            return b.cast(value, torch.uint8, torch.bool)
        return b.graph.Trilu(x.value, b.constant(diagonal, torch.int64), upper=upper)


_triangle("tril", 0)
_triangle("triu", 1)


# --- made of nothing


@translates("full")
def full(b, size, value, **options):
    del size, options
    return b.graph.Expand(b.number(value, b.out.dtype), b.dims(b.out.shape))


@translates("full_like", "new_full")
def full_like(b, x, *args, **options):
    del x, options
    return b.graph.Expand(b.number(args[-1], b.out.dtype), b.dims(b.out.shape))


@translates("zeros", "zeros_like", "new_zeros", "empty.memory_format", "new_empty", "empty_like", "empty_strided", "new_empty_strided")
def zeros(b, *args, **options):
    del args, options
    return b.zeros(b.out.shape, b.out.dtype)


@translates("ones", "ones_like", "new_ones")
def ones(b, *args, **options):
    del args, options
    return b.zeros(b.out.shape, b.out.dtype, 1)


@translates("scalar_tensor")
def scalar_tensor(b, value, **options):
    del options
    return b.number(value, b.out.dtype)


@translates("eye", "eye.m")
def eye(b, n, m=None, **options):
    del n, m, options
    rows = b.zeros(b.out.shape, torch.int64)
    return b.graph.EyeLike(rows, dtype=DTYPES[b.out.dtype])


@translates("arange", "arange.start", "arange.start_step")
def arange(b, *args, **options):
    del options
    start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = b.out.dtype
    if not dtype.is_floating_point and not any(isinstance(v, float) for v in (start, end, step)):
        made = b.graph.Range(*(b.number(v, torch.int64) for v in (start, end, step)))
        return b.cast(made, torch.int64, dtype)
    return _steps(b, start, step, b.out.shape[0], dtype)


@translates("prims::iota.default")
def iota(b, length, *, start, step, **options):
    del options
    return _steps(b, start, step, length, b.out.dtype)


def _steps(b, start, step, length, dtype):
    """start + i * step, computed in double where it is no integer."""
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    places = b.graph.Range(b.constant(0, torch.int64), b.number(length, torch.int64), b.constant(1, torch.int64))
    scaled = b.graph.Mul(b.cast(places, torch.int64, wide), b.number(step, wide))
    return b.cast(b.graph.Add(scaled, b.number(start, wide)), wide, dtype)
