"""Operators whose work data tell: scans that choose, counts, histograms, segments, and results of sizes that data tell."""

import functools
import math

import numpy
import torch

import fettle

from .fx import DTYPES, Kind, Unsupported, axis_of, translates
from .operators_index import _MOST_COMPARISONS
from .operators_linear import distance
from .operators_shape import listed_count, sliced

# --- scans


def _scan(b, operands, firsts, axis, fold):
    """Folds along an axis: `fold` takes a graph, states and elements, and gives states."""
    body = fettle.Graph()
    dtypes = [dtype for _, dtype in operands]
    states = [body.input(f"s{i}", DTYPES[dtype], []) for i, dtype in enumerate(dtypes)]
    elements = [body.input(f"e{i}", DTYPES[dtype], []) for i, dtype in enumerate(dtypes)]
    for i, value in enumerate(fold(body, states, elements)):
        body.output(f"r{i}", value)
    inputs = [value for value, _ in operands] + firsts
    return b.graph.node("CumulativeReduce", inputs, domain="fettle", outputs=len(operands), axis=axis, exclusive=0, reverse=0, body=body)


def _running_extreme(name, operator):
    """Of equal elements the last one; NaN wins."""

    @translates(name)
    def translate(b, x, dim):
        g = b.graph
        if x.rank == 0:
            return x.value, b.zeros((), torch.int64)
        if x.dtype == torch.bool:
            raise Unsupported("truths")
        axis = axis_of(dim, x.rank)
        extent = b.number(x.shape[axis], torch.int64)
        places = g.Range(b.constant(0, torch.int64), extent, b.constant(1, torch.int64))
        places = b.reshape(places, [-1 if i == axis else 1 for i in range(x.rank)])
        places = g.Expand(places, b.dims(x.shape))

        def fold(body, states, elements):
            (kept, at), (value, place) = states, elements
            taken = body.node(operator, [value, kept])
            if x.dtype.is_floating_point:
                taken = body.Or(body.IsNaN(value), body.And(taken, body.Not(body.IsNaN(kept))))
            taken = body.Or(taken, body.Less(at, body.constant(numpy.int64(0))))
            return body.Where(taken, value, kept), body.Where(taken, place, at)

        return _scan(b, [(x.value, x.dtype), (places, torch.int64)], [b.constant(0, x.dtype), b.constant(-1, torch.int64)], axis, fold)


_running_extreme("cummax", "GreaterOrEqual")
_running_extreme("cummin", "LessOrEqual")


@translates("logcumsumexp")
def logcumsumexp(b, x, dim):
    if x.rank == 0:
        return x.value
    wide = torch.float64

    def fold(body, states, elements):
        (total,), (value,) = states, elements
        large, small = body.Max(total, value), body.Min(total, value)
        added = body.Add(large, body.Log(body.Add(body.constant(numpy.float64(1)), body.Exp(body.Sub(small, large)))))
        return [body.Where(body.IsInf(large), large, added)]

    value = b.cast(x.value, x.dtype, wide)
    made = _scan(b, [(value, wide)], [b.constant(-math.inf, wide)], axis_of(dim, x.rank), fold)
    return b.cast(made[0] if isinstance(made, (list, tuple)) else made, wide, x.dtype)


# --- counts


def _middle(b, x, axis, keepdim):
    """The median of what is a number; NaN where nothing is."""
    g = b.graph
    values, places = g.node("TopK", [x, b.graph.Shape(x, start=axis, end=axis + 1)], outputs=2, axis=axis, largest=0)
    numbers = g.Cast(g.Not(g.IsNaN(x)), to="int64")
    count = g.ReduceSum(numbers, b.integers([axis]), keepdims=1)
    one, two = b.constant(1, torch.int64), b.constant(2, torch.int64)
    place = g.Max(g.Div(g.Sub(count, one), two), b.constant(0, torch.int64))
    made = [g.GatherElements(part, place, axis=axis) for part in (values, places)]
    return made if keepdim else [g.Squeeze(part, b.integers([axis])) for part in made]


@translates("nanmedian.dim")
def nanmedian(b, x, dim, keepdim=False):
    if not x.dtype.is_floating_point:
        raise Unsupported("integers")
    if x.rank == 0:
        return x.value, b.zeros((), torch.int64)
    return _middle(b, x.value, axis_of(dim, x.rank), keepdim)


@translates("nanmedian")
def nanmedian_of_all(b, x):
    if not x.dtype.is_floating_point or listed_count(x.shape) == 0:
        raise Unsupported("integers, or no elements")
    return _middle(b, b.graph.Reshape(x.value, b.integers([-1])), 0, False)[0]


@translates("mode")
def mode(b, x, dim=-1, keepdim=False):
    """Of the values that are there most often the least one, and its last place: all are compared. NaN counts for nothing."""
    g = b.graph
    if x.rank == 0:
        return x.value, b.zeros((), torch.int64)
    axis = axis_of(dim, x.rank)
    extent = x.shape[axis]
    if listed_count(x.shape) * extent > _MOST_COMPARISONS or x.dtype == torch.bool or not extent:
        raise Unsupported("a mode of many elements, of truths, or of none")
    perm = [i for i in range(x.rank) if i != axis] + [axis]
    line = b.transpose(x.value, perm)
    same = g.Equal(g.Unsqueeze(line, b.integers([x.rank])), g.Unsqueeze(line, b.integers([x.rank - 1])))
    counts = g.ReduceSum(g.Cast(same, to="int64"), b.integers([x.rank]), keepdims=0)
    last = b.integers([x.rank - 1])
    often = g.Equal(counts, g.ReduceMax(counts, last, keepdims=1))
    most = math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max
    value = g.ReduceMin(g.Where(often, line, b.constant(most, x.dtype)), last, keepdims=1)
    places = b.integers(range(extent))
    chosen = g.Equal(line, value)
    if x.dtype.is_floating_point:
        chosen = g.Or(chosen, g.IsNaN(value))
    place = g.ReduceMax(g.Where(chosen, places, b.constant(-1, torch.int64)), last, keepdims=1)
    made = [value, place]
    if keepdim:
        return [b.transpose(part, [perm.index(i) for i in range(x.rank)]) for part in made]
    return [g.Squeeze(part, last) for part in made]


# --- histograms


def _span(b, x, given, half):
    """The bounds that are given, or the least and the largest element; twice `half` apart where they are equal."""
    g, dtype = b.graph, x.dtype
    if given is not None or listed_count(x.shape) == 0:
        low, high = given or (0, 1)
        apart = half if low == high else 0
        return b.constant(low - apart, dtype), b.constant(high + apart, dtype)
    flat = g.Reshape(x.value, b.integers([-1]))
    least, most = (g.node(name, [flat, b.integers([0])], keepdims=0) for name in ("ReduceMin", "ReduceMax"))
    finite = g.Not(g.Or(g.IsNaN(g.Sub(most, least)), g.IsInf(g.Sub(most, least))))
    b.check(g.Not(finite), lambda: RuntimeError("a histogram's range is not finite"))
    equal, apart = g.Equal(least, most), b.constant(half, dtype)
    return g.Where(equal, g.Sub(least, apart), least), g.Where(equal, g.Add(most, apart), most)


def _counted(b, places, inside, weights, bins, dtype):
    """The sums of weights by place; what is not inside adds nothing."""
    g = b.graph
    zero = b.constant(0, dtype)
    weights = g.Where(inside, weights, zero)
    places = g.Where(inside, places, b.constant(0, torch.int64))
    return g.ScatterElements(b.zeros([bins], dtype), places, weights, axis=0, reduction="add")


@translates("histc")
def histc(b, x, bins=100, min=0, max=0):
    g, dtype = b.graph, x.dtype
    if dtype not in (torch.float32, torch.float64):
        raise Unsupported(f"elements of {dtype}")
    flat = g.Reshape(x.value, b.integers([-1]))
    low, high = _span(b, x, None if min == max == 0 else (min, max), 1)
    inside = g.And(g.GreaterOrEqual(flat, low), g.LessOrEqual(flat, high))
    held = g.Where(inside, flat, low)
    scaled = g.Div(g.Mul(g.Sub(held, low), b.constant(bins, dtype)), g.Sub(high, low))
    places = g.Min(g.Cast(scaled, to="int64"), b.constant(bins - 1, torch.int64))
    return _counted(b, places, inside, b.constant(1, dtype), bins, dtype)


@translates("histogram.bin_ct")
def histogram(b, x, bins=100, *, range=None, weight=None, density=False):
    g, dtype = b.graph, x.dtype
    if dtype not in (torch.float32, torch.float64):
        raise Unsupported(f"elements of {dtype}")
    low, high = _span(b, x, range, 0.5)
    # Steps are counted from the nearer end, as torch does.
    step = g.Div(g.Sub(high, low), b.constant(bins, dtype))
    counted = numpy.arange(bins + 1)
    up, down = (g.Mul(step, g.Cast(g.constant(numbers), to=DTYPES[dtype])) for numbers in (counted, bins - counted))
    edges = g.Where(g.constant(counted < (bins + 1) // 2), g.Add(low, up), g.Sub(high, down))
    return _histogram(b, x, edges, bins, weight, density), edges


@translates("histogram.bins_tensor")
def histogram_of_edges(b, x, bins, *, weight=None, density=False):
    count = bins.shape[0] - 1
    return _histogram(b, x, bins.value, count, weight, density), bins.value


def _histogram(b, x, edges, bins, weight, density):
    """A bin has its first edge, and the last one both."""
    g, dtype = b.graph, x.dtype
    if not isinstance(bins, int) or listed_count(x.shape) * bins > _MOST_COMPARISONS:
        raise Unsupported("a histogram of many elements, or open")
    flat = g.Reshape(x.value, b.integers([-1]))
    low, high = (g.Gather(edges, b.constant(i, torch.int64), axis=0) for i in (0, bins))
    inside = g.And(g.GreaterOrEqual(flat, low), g.LessOrEqual(flat, high))
    passed = g.GreaterOrEqual(g.Unsqueeze(flat, b.integers([1])), edges)
    places = g.Sub(g.ReduceSum(g.Cast(passed, to="int64"), b.integers([1]), keepdims=0), b.constant(1, torch.int64))
    places = g.Min(places, b.constant(bins - 1, torch.int64))
    weights = g.Reshape(weight.value, b.integers([-1])) if weight is not None else b.constant(1, dtype)
    made = _counted(b, places, inside, weights, bins, dtype)
    if density:
        widths = g.Sub(sliced(b, edges, 0, 1, bins + 1), sliced(b, edges, 0, 0, bins))
        made = g.Div(g.Div(made, widths), g.ReduceSum(made, b.integers([0]), keepdims=1))
    return made


# --- segments and bags: slices of the first axis that are reduced


def _segment_of(b, ends, count):
    """For each of `count` slices how many segments end at or before it: the number of its own."""
    g = b.graph
    slices = g.Range(b.constant(0, torch.int64), b.number(count, torch.int64), b.constant(1, torch.int64))
    over = g.GreaterOrEqual(g.Unsqueeze(slices, b.integers([1])), ends)
    return g.ReduceSum(g.Cast(over, to="int64"), b.integers([1]), keepdims=0)


def _by_segment(b, value, segments, shape, dtype, reduction, first):
    g = b.graph
    places = g.Unsqueeze(segments, b.integers([1]))
    return g.ScatterND(b.zeros(shape, dtype, first), places, value, reduction=reduction)


def _column(b, value, rank):
    return b.reshape(value, [-1] + [1] * (rank - 1))


@translates("segment_reduce")
def segment_reduce(b, data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Lengths and offsets are believed, as with unsafe=True, but that all slices must be in segments."""
    g, dtype = b.graph, data.dtype
    given = lengths if lengths is not None else offsets
    if indices is not None or given is None or given.rank != 1 or axis_of(axis, data.rank) != 0:
        raise Unsupported("segments that are not of the first axis")
    if not dtype.is_floating_point:
        raise Unsupported(f"elements of {dtype}")
    zero, one = b.constant(0, torch.int64), b.constant(1, torch.int64)
    numbers = b.as_type(given, torch.int64)
    if lengths is not None:
        counts, ends = numbers, g.CumSum(numbers, zero)
    else:
        ends = sliced(b, numbers, 0, 1, 2**63 - 1)
        begins = sliced(b, numbers, 0, 0, -1)
        counts = g.Sub(ends, begins)
        b.check(g.Not(g.Equal(sliced(b, numbers, 0, 0, 1), zero)), lambda: RuntimeError("offsets that do not begin with 0"))
    count = data.shape[0]
    b.check(g.Less(counts, zero), lambda: RuntimeError("lengths contains negative value!"))
    b.check(g.Not(g.Equal(sliced(b, ends, 0, -1, 2**63 - 1), b.number(count, torch.int64))),
            lambda: RuntimeError("segments and data differ in size"))  # fmt: skip
    kind = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}[reduce]
    empty = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}[kind]
    # A check fails at the call's end: places must lie inside until then.
    segments = g.Min(_segment_of(b, ends, count), g.Sub(b.number(b.out.shape[0], torch.int64), one))
    made = _by_segment(b, data.value, segments, b.out.shape, dtype, kind, empty if initial is None else initial)
    if reduce != "mean":
        return made
    counts = _column(b, counts, data.rank)
    mean = g.Div(made, g.Cast(g.Max(counts, one), to=DTYPES[dtype]))
    return g.Where(g.Equal(counts, zero), b.constant(math.nan, dtype), mean) if initial is None else mean


@translates("_embedding_bag_forward_only", "_embedding_bag")
def embedding_bag(b, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=-1):  # fmt: skip
    del scale_grad_by_freq, sparse
    g, dtype = b.graph, weight.dtype
    if any(b.uses(i) for i in (1, 2, 3)):
        raise Unsupported("where bags begin, and how large they are")
    bags, zero = b.out[0].shape[0], b.constant(0, torch.int64)
    places = b.indices(indices, weight.shape[0])
    begins = b.as_type(offsets, torch.int64)
    b.check(g.Not(g.Equal(sliced(b, begins, 0, 0, 1), zero)), lambda: RuntimeError("offsets[0] has to be 0"))
    ends = sliced(b, begins, 0, 1, 2**63 - 1)
    bag = g.Min(_segment_of(b, ends, indices.shape[0]), b.number(bags - 1, torch.int64))
    rows = g.Gather(weight.value, places, axis=0)
    counted = g.Not(g.Equal(places, b.constant(padding_idx, torch.int64))) if padding_idx >= 0 else None
    if per_sample_weights is not None:
        rows = g.Mul(rows, g.Unsqueeze(per_sample_weights.value, b.integers([1])))
    first = -math.inf if mode == 2 else 0
    if counted is not None:
        rows = g.Where(g.Unsqueeze(counted, b.integers([1])), rows, b.constant(first, dtype))
    made = _by_segment(b, rows, bag, [bags, weight.shape[1]], dtype, "max" if mode == 2 else "add", first)
    if mode == 0:
        return [made]
    ones = b.zeros([indices.shape[0]], torch.int64, 1) if counted is None else g.Cast(counted, to="int64")
    sizes = _column(b, _by_segment(b, ones, bag, [bags], torch.int64, "add", 0), 2)
    if mode == 2:
        return [g.Where(g.Equal(sizes, zero), b.constant(0, dtype), made)]
    return [g.Div(made, g.Cast(g.Max(sizes, b.constant(1, torch.int64)), to=DTYPES[dtype]))]


@translates("_pdist_forward")
def pdist(b, x, p=2.0):
    count = listed_count(x.shape[:1]) and x.shape[0]
    first, second = numpy.triu_indices(count, 1)
    listed_count([len(first), x.shape[1]])
    g = b.graph
    one, other = (g.Gather(x.value, b.graph.constant(places.astype("int64")), axis=0) for places in (first, second))
    return distance(b, g.Sub(one, other), p, 1, x.dtype)


# --- results of sizes that data tell


def _nonzero(b, x):
    """[how many, rank]."""
    g = b.graph
    if x.rank == 0:
        places = g.Transpose(g.NonZero(b.reshape(x.value, [1])), perm=[1, 0])
        return sliced(b, places, 1, 0, 0)
    return g.Transpose(g.NonZero(x.value), perm=[1, 0])


@translates("nonzero")
def nonzero(b, x):
    return _nonzero(b, x)


@translates("nonzero_static")
def nonzero_static(b, x, *, size, fill_value=-1):
    if not isinstance(size, int):
        raise Unsupported("an open size")
    if x.rank == 0 or size == 0:
        return b.zeros([size, x.rank], torch.int64)
    filled = b.graph.Concat(_nonzero(b, x), b.zeros([size, x.rank], torch.int64, fill_value), axis=0)
    return b.reshape(sliced(b, filled, 0, 0, size), [size, x.rank])


@translates("masked_select")
def masked_select(b, x, mask):
    g, flat = b.graph, b.integers([-1])
    shape = b.dims(list(torch.broadcast_shapes(x.shape, mask.shape)))
    values, truths = (g.Reshape(g.Expand(value, shape), flat) for value in (x.value, mask.value))
    return g.Compress(values, truths, axis=0)


@translates("unique_consecutive")
def unique_consecutive(b, x, return_inverse=False, return_counts=False, dim=None):
    g = b.graph
    if dim is not None or return_inverse or return_counts:
        raise Unsupported("slices, places, or counts")
    flat = g.Reshape(x.value, b.integers([-1]))
    count = listed_count(x.shape)
    if count:
        differ = g.Not(g.Equal(sliced(b, flat, 0, 1, count), sliced(b, flat, 0, 0, count - 1)))
        flat = g.Compress(flat, g.Concat(g.constant(numpy.array([True])), differ, axis=0), axis=0)
    return [flat] + [b.zeros([0], torch.int64) for i in (1, 2) if b.uses(i)]


@translates("_unique2")
def unique(b, x, sorted=True, return_inverse=False, return_counts=False):
    """Ascending, whether that is asked for or not."""
    del sorted
    g, count = b.graph, listed_count(x.shape)
    if not count or x.dtype == torch.bool:
        raise Unsupported("no elements, or truths")
    flat = g.Reshape(x.value, b.integers([-1]))
    values, order = g.node("TopK", [flat, b.integers([count])], outputs=2, axis=0, largest=0)
    differ = g.Not(g.Equal(sliced(b, values, 0, 1, count), sliced(b, values, 0, 0, count - 1)))
    begins = g.Concat(g.constant(numpy.array([True])), differ, axis=0)
    made = [g.Compress(values, begins, axis=0)] + [b.zeros([0], torch.int64)] * 2
    if return_inverse:
        group = g.Sub(g.CumSum(g.Cast(begins, to="int64"), b.constant(0, torch.int64)), b.constant(1, torch.int64))
        inverse = g.ScatterElements(b.zeros([count], torch.int64), order, group, axis=0)
        made[1] = b.reshape(inverse, x.shape)
    if return_counts:
        places = g.Compress(g.constant(numpy.arange(count)), begins, axis=0)
        ends = g.Concat(sliced(b, places, 0, 1, count), b.integers([count]), axis=0)
        made[2] = g.Sub(ends, places)
    return made


@translates("_assert_scalar", "_assert_async.msg", "sym_constrain_range_for_size", "sym_constrain_range")
def claim(b, *args, **kwargs):
    """What torch believes of sizes that it knows of: the kernels that make them see to it."""
    del b, args, kwargs


# --- bits


def _bits(b, x, dtype, of):
    if of != torch.float32:
        raise Unsupported(f"bits of {of}")
    return b.graph.BitCast(x, to=DTYPES[dtype])


@translates("prims::frexp.default", "frexp.Tensor")
def frexp(b, x):
    """x = m 2^e with 0.5 <= |m| < 1."""
    g, value = b.graph, x.value
    zero = b.constant(0, x.dtype)
    small = g.Less(g.Abs(value), b.constant(2.0**-126, x.dtype))
    scaled = g.Where(small, g.Mul(value, b.constant(2.0**24, x.dtype)), value)
    bits = _bits(b, scaled, torch.uint32, x.dtype)
    exponent = g.BitwiseAnd(g.Div(bits, b.constant(1 << 23, torch.uint32)), b.constant(255, torch.uint32))
    offset = g.Where(small, b.constant(126 + 24, torch.int32), b.constant(126, torch.int32))
    exponent = g.Sub(g.Cast(exponent, to="int32"), offset)
    fraction = g.BitwiseAnd(bits, b.constant(0x807FFFFF, torch.uint32))
    mantissa = g.BitCast(g.BitwiseOr(fraction, b.constant(0x3F000000, torch.uint32)), to="float32")
    plain = g.Or(g.Equal(value, zero), g.Or(g.IsNaN(value), g.IsInf(value)))
    return g.Where(plain, value, mantissa), g.Where(plain, b.constant(0, torch.int32), exponent)


@translates("prims::nextafter.default", "nextafter")
def nextafter(b, x, y):
    """One step of the bits, which are in the order of magnitudes."""
    (x, y), dtype = b.promoted(x, y, kind=Kind.DEFAULT)
    g, zero = b.graph, b.constant(0, dtype)
    bits = _bits(b, x, torch.int32, dtype)
    grows = g.Equal(g.Less(x, y), g.Greater(x, zero))
    step = g.Where(grows, b.constant(1, torch.int32), b.constant(-1, torch.int32))
    moved = g.BitCast(g.Add(bits, step), to=DTYPES[dtype])
    least = b.constant(1, torch.int32)
    least = g.Where(g.Less(y, zero), b.constant(-(2**31) + 1, torch.int32), least)
    moved = g.Where(g.Equal(x, zero), g.BitCast(least, to=DTYPES[dtype]), moved)
    moved = g.Where(g.Equal(x, y), y, moved)
    return g.Where(g.Or(g.IsNaN(x), g.IsNaN(y)), g.Add(x, y), moved)
