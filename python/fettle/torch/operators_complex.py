"""Operators where an operand or a result is complex: parts are computed side by side."""

import math

import numpy
import torch

from .fx import DTYPES, PARTS, Complex, Kind, Tensor, Unsupported, axis_of, is_complex, is_number, translates, translates_complex, translation
from .operators_linear import along

_MOST_POINTS = 1024  # of a Fourier transform by tables


def _part_type(b):
    """The type of the parts of the result."""
    return PARTS.get(b.out.dtype, b.out.dtype)


def _parts(b, x, dtype):
    """Real and imaginary part, in this type, of a tensor or a number."""
    if isinstance(x, Complex):
        own = PARTS[x.dtype]
        return b.cast(x.real, own, dtype), b.cast(x.imaginary, own, dtype)
    if isinstance(x, Tensor):
        return b.as_type(x, dtype), b.zeros(x.shape, dtype)
    if isinstance(x, complex):
        return b.constant(x.real, dtype), b.constant(x.imag, dtype)
    return b.number(x, dtype), b.constant(0, dtype)


# --- what moves elements, and what is linear: each part by itself


_MOVES = """view _unsafe_view reshape view_copy _reshape_copy squeeze squeeze.dim squeeze.dims unsqueeze prims::view_of.default clone contiguous
alias detach lift_fresh_copy lift_fresh prims::clone.default resolve_conj resolve_neg positive alias_copy expand expand_copy permute t
transpose.int slice.Tensor select.int narrow split_with_sizes split_with_sizes_copy split.Tensor unbind.int cat stack flip repeat
constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d diagonal diagonal_copy
roll tril triu index_select gather index.Tensor _unsafe_index.Tensor index_copy slice_scatter select_scatter diagonal_scatter scatter.src
scatter_add index_add sum sum.dim_IntList mean mean.dim cumsum neg _neg_view zeros zeros_like new_zeros empty.memory_format new_empty empty_like
empty_strided new_empty_strided""".split()  # fmt: skip


def _real_fake(fake):
    """What torch says of one part."""
    if isinstance(fake, (list, tuple)):
        return [_real_fake(part) for part in fake]
    return fake.abs() if fake.is_complex() else fake


def _part_of(b, value, which):
    if isinstance(value, (list, tuple)):
        return type(value)(_part_of(b, element, which) for element in value)
    if isinstance(value, Complex):
        return Tensor((value.real, value.imaginary)[which], _real_fake(value.fake))
    if isinstance(value, Tensor) and value.dtype.is_floating_point and which:
        return Tensor(b.zeros(value.shape, value.dtype), value.fake)
    return value


def _by_parts(name):
    overload = name

    @translates_complex(name)
    def translate(b, *args, dtype=None, **kwargs):
        del dtype  # that of the result says it
        if any(isinstance(arg, complex) for arg in args):
            raise Unsupported("a complex number")
        space, _, own = overload.rpartition("::")
        packet, _, kind = own.partition(".")
        function = translation(getattr(getattr(getattr(torch.ops, space or "aten"), packet), kind or "default"))
        whole, made = b.out, []
        for which in (0, 1):
            b.out = _real_fake(whole)
            given = {key: _part_of(b, value, which) for key, value in kwargs.items()}
            made.append(function(b, *_part_of(b, args, which), **given))
        b.out = whole
        return list(zip(*made)) if isinstance(whole, (list, tuple)) else tuple(made)


for _name in _MOVES:
    _by_parts(_name)


@translates_complex("full", "full_like", "new_full", "ones", "ones_like", "new_ones", "scalar_tensor", "fill.Scalar")
def full(b, *args, **options):
    del options
    value = args[-1] if args and is_number(args[-1]) or is_complex(args[-1]) and not isinstance(args[-1], Complex) else 1
    dtype = _part_type(b)
    return tuple(b.graph.Expand(part, b.dims(b.out.shape)) for part in _parts(b, value, dtype))


# --- made of reals, and back


@translates_complex("complex")
def complex_(b, real, imaginary):
    shape = b.dims(b.out.shape)
    return b.graph.Expand(real.value, shape), b.graph.Expand(imaginary.value, shape)


@translates_complex("polar")
def polar(b, size, angle):
    g = b.graph
    return g.Mul(size.value, g.Cos(angle.value)), g.Mul(size.value, g.Sin(angle.value))


@translates_complex("view_as_complex", "view_as_complex_copy")
def view_as_complex(b, x):
    return tuple(b.parts_of_pairs(x.value, x.rank - 1))


@translates_complex("view_as_real", "view_as_real_copy")
def view_as_real(b, x):
    parts = [b.graph.Unsqueeze(part, b.integers([x.rank])) for part in (x.real, x.imaginary)]
    return b.graph.Concat(*parts, axis=x.rank)


@translates_complex("real", "prims::real.default")
def real(b, x):
    return x.real


@translates_complex("imag", "prims::imag.default")
def imag(b, x):
    return x.imaginary


@translates_complex("_conj", "conj", "conj_physical", "_conj_physical", "_conj_copy", "prims::conj.default")
def conj(b, x):
    return x.real, b.graph.Neg(x.imaginary)


@translates("conj_physical", "_conj_physical")
def conj_of_reals(b, x):
    return x.value


@translates_complex("_to_copy", "prims::convert_element_type.default")
def to_copy(b, x, *args, dtype=None, device=None, **options):
    del args, dtype, options
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a copy to {device}")
    real, imaginary = _parts(b, x, _part_type(b) if b.out.is_complex() or not isinstance(x, Complex) else PARTS[x.dtype])
    if b.out.is_complex():
        return real, imaginary
    if b.out.dtype == torch.bool:
        return b.graph.Or(b.graph.Cast(real, to="bool"), b.graph.Cast(imaginary, to="bool"))
    return b.graph.Cast(real, to=DTYPES[b.out.dtype])


# --- arithmetic


@translates_complex("add.Tensor", "add.Scalar")
def add(b, x, y, *rest, alpha=1):
    return _sum(b, x, y, rest[0] if rest else alpha, "Add")


@translates_complex("sub.Tensor", "sub.Scalar")
def sub(b, x, y, *rest, alpha=1):
    return _sum(b, x, y, rest[0] if rest else alpha, "Sub")


@translates_complex("rsub.Tensor", "rsub.Scalar")
def rsub(b, x, y, alpha=1):
    return _sum(b, y, x, alpha, "Sub")


def _sum(b, x, y, alpha, operator):
    dtype = _part_type(b)
    left, right = _parts(b, x, dtype), _parts(b, y, dtype)
    if alpha != 1:
        right = _product(b.graph, right, _parts(b, alpha, dtype))
    return tuple(b.graph.node(operator, [one, other]) for one, other in zip(left, right))


def _product(g, x, y):
    return g.Sub(g.Mul(x[0], y[0]), g.Mul(x[1], y[1])), g.Add(g.Mul(x[0], y[1]), g.Mul(x[1], y[0]))


@translates_complex("mul.Tensor", "mul.Scalar")
def mul(b, x, y):
    dtype, g = _part_type(b), b.graph
    for one, other in ((x, y), (y, x)):
        if not is_complex(one):  # a real factor is one factor
            factor = b.as_type(one, dtype)
            return tuple(g.Mul(part, factor) for part in _parts(b, other, dtype))
    return _product(g, _parts(b, x, dtype), _parts(b, y, dtype))


def _inverse(b, parts):
    """Scaled by the larger part, so that no square overflows."""
    g = b.graph
    large = g.Max(g.Abs(parts[0]), g.Abs(parts[1]))
    real, imaginary = (g.Div(part, large) for part in parts)
    size = g.Mul(large, g.Add(g.Mul(real, real), g.Mul(imaginary, imaginary)))
    return g.Div(real, size), g.Neg(g.Div(imaginary, size))


@translates_complex("div.Tensor", "div.Scalar")
def div(b, x, y):
    dtype, g = _part_type(b), b.graph
    if not is_complex(y):
        divisor = b.as_type(y, dtype)
        return tuple(g.Div(part, divisor) for part in _parts(b, x, dtype))
    return _product(g, _parts(b, x, dtype), _inverse(b, _parts(b, y, dtype)))


@translates_complex("reciprocal")
def reciprocal(b, x):
    return _inverse(b, (x.real, x.imaginary))


def _size(b, x):
    return translation(torch.ops.aten.hypot.default)(b, *(Tensor(part, _real_fake(x.fake)) for part in (x.real, x.imaginary)))


@translates_complex("abs", "prims::abs.default")
def absolute(b, x):
    return _size(b, x)


@translates_complex("angle")
def angle(b, x):
    return translation(torch.ops.aten.atan2.default)(b, *(Tensor(part, _real_fake(x.fake)) for part in (x.imaginary, x.real)))


@translates("angle")
def angle_of_reals(b, x):
    (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    g, zero = b.graph, b.constant(0, dtype)
    turned = g.Where(g.Less(value, zero), b.constant(math.pi, dtype), zero)
    return g.Where(g.IsNaN(value), value, turned) if x.dtype.is_floating_point else turned


@translates_complex("sgn")
def sgn(b, x):
    g, zero = b.graph, b.constant(0, PARTS[x.dtype])
    size = _size(b, x)
    return tuple(g.Where(g.Equal(size, zero), zero, g.Div(part, size)) for part in (x.real, x.imaginary))


@translates_complex("exp")
def exp(b, x):
    g = b.graph
    size = g.Exp(x.real)
    return g.Mul(size, g.Cos(x.imaginary)), g.Mul(size, g.Sin(x.imaginary))


@translates_complex("log")
def log(b, x):
    return b.graph.Log(_size(b, x)), angle(b, x)


def _equal(b, x, y):
    dtype = next(PARTS[v.dtype] for v in (x, y) if isinstance(v, Complex))
    return b.graph.And(*(b.graph.Equal(one, other) for one, other in zip(_parts(b, x, dtype), _parts(b, y, dtype))))


@translates_complex("eq.Tensor", "eq.Scalar")
def eq(b, x, y):
    return _equal(b, x, y)


@translates_complex("ne.Tensor", "ne.Scalar")
def ne(b, x, y):
    return b.graph.Not(_equal(b, x, y))


@translates_complex("where.self", "prims::where.default", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(b, condition, x, y):
    dtype, truth = _part_type(b), b.as_type(condition, torch.bool)
    return tuple(b.graph.Where(truth, one, other) for one, other in zip(_parts(b, x, dtype), _parts(b, y, dtype)))


@translates_complex("mm", "bmm", "matmul", "mv", "dot")
def matmul(b, x, y):
    g, dtype = b.graph, _part_type(b)
    (a, c), (d, e) = _parts(b, x, dtype), _parts(b, y, dtype)
    return g.Sub(g.MatMul(a, d), g.MatMul(c, e)), g.Add(g.MatMul(a, e), g.MatMul(c, d))


# --- Fourier's transforms: products with tables of cosines and sines


def _points(shape, axis):
    points = shape[axis]
    if not isinstance(points, int):
        raise Unsupported("a Fourier transform along an open axis")
    if points > _MOST_POINTS:
        raise Unsupported(f"a Fourier transform of {points} points, for which torch's takes less work")
    return points


def _angles(points, results):
    """2 pi i k / points, where the product is cut to a turn while it is whole."""
    return numpy.outer(numpy.arange(points), numpy.arange(results)) % points * (2 * math.pi / points)


def _scale(normalization, counts):
    count = math.prod(counts)
    return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _only_wide(dtype):
    if dtype not in (torch.float32, torch.float64):
        raise Unsupported(f"a Fourier transform of {dtype}")


def _turned(b, parts, axis, rank, points, sign, scale, dtype):
    """sum over i of x[i] exp(sign 2 pi I i k / points), times the scale."""
    g, angles = b.graph, _angles(points, points)
    cosines, sines = numpy.cos(angles) * scale, numpy.sin(angles) * (sign * scale)
    (real, imaginary) = parts
    a, c = (along(b, part, axis, rank, cosines, dtype) for part in parts)
    d, e = along(b, imaginary, axis, rank, sines, dtype), along(b, real, axis, rank, sines, dtype)
    return g.Sub(a, d), g.Add(c, e)


@translates_complex("_fft_c2c")
def fft_c2c(b, x, dim, normalization, forward):
    dtype, shape = PARTS[x.dtype], x.shape
    _only_wide(dtype)
    axes = [axis_of(d, x.rank) for d in dim]
    counts = [_points(shape, axis) for axis in axes]
    parts, scale = (x.real, x.imaginary), _scale(normalization, counts)
    for axis, count in zip(axes, counts):
        parts = _turned(b, parts, axis, x.rank, count, -1 if forward else 1, scale, dtype)
        scale = 1.0
    return parts


@translates_complex("_fft_r2c")
def fft_r2c(b, x, dim, normalization, onesided):
    dtype = x.dtype
    _only_wide(dtype)
    axes = [axis_of(d, x.rank) for d in dim]
    counts = [_points(x.shape, axis) for axis in axes]
    last, points = axes[-1], counts[-1]
    angles = _angles(points, points // 2 + 1 if onesided else points)
    scale = _scale(normalization, counts)
    parts = tuple(along(b, x.value, last, x.rank, table * scale, dtype) for table in (numpy.cos(angles), -numpy.sin(angles)))
    for axis, count in zip(axes[:-1], counts):
        parts = _turned(b, parts, axis, x.rank, count, -1, 1.0, dtype)
    return parts


@translates_complex("_fft_c2r")
def fft_c2r(b, x, dim, normalization, last_dim_size):
    """All axes but the last are turned; of the last, half is given: what is left out is conjugate to it."""
    dtype = PARTS[x.dtype]
    _only_wide(dtype)
    axes = [axis_of(d, x.rank) for d in dim]
    points = _points([last_dim_size], 0)
    if x.shape[axes[-1]] != points // 2 + 1:
        raise Unsupported("a half of a spectrum that is none")
    counts = [_points(x.shape, axis) for axis in axes[:-1]]
    parts = (x.real, x.imaginary)
    for axis, count in zip(axes[:-1], counts):
        parts = _turned(b, parts, axis, x.rank, count, 1, 1.0, dtype)
    angles = _angles(points, points)[: points // 2 + 1]
    twice = numpy.full([len(angles), 1], 2.0 * _scale(normalization, [*counts, points]))
    twice[0] /= 2
    if points % 2 == 0:
        twice[-1] /= 2
    real, imaginary = (along(b, part, axes[-1], x.rank, table * twice, dtype)
                       for part, table in zip(parts, (numpy.cos(angles), numpy.sin(angles))))  # fmt: skip
    return b.graph.Sub(real, imaginary)
