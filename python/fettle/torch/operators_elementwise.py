"""Elementwise operators."""

import math

import torch

from .fx import DTYPES, Kind, Unsupported, is_number, translates


def _unary(name, operator, kind=Kind.INT_TO_FLOAT):
    @translates(name, f"prims::{name}.default")
    def translate(b, x):
        (value,), _ = b.promoted(x, kind=kind)
        return b.graph.node(operator, [value])


for _name, _operator in {
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "log": "Log",
    "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}.items():
    _unary(_name, _operator)
_unary("neg", "Neg", Kind.DEFAULT)
_unary("_neg_view", "Neg", Kind.DEFAULT)


@translates("abs", "prims::abs.default")
def absolute(b, x):
    return x.value if x.dtype == torch.bool else b.graph.Abs(x.value)


@translates("relu")
def relu(b, x):
    return b.graph.Relu(x.value) if x.dtype.is_floating_point else b.graph.Max(x.value, b.constant(0, x.dtype))


@translates("signbit", "prims::signbit.default")
def signbit(b, x):
    g = b.graph
    if x.dtype.is_floating_point:
        bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.dtype.itemsize]
        return g.Less(g.BitCast(x.value, to=DTYPES[bits]), b.constant(0, bits))
    if x.dtype == torch.bool or not x.dtype.is_signed:
        return b.zeros(x.shape, torch.bool, False)
    return g.Less(x.value, b.constant(0, x.dtype))


@translates("hypot", "prims::hypot.default")
def hypot(b, x, y):
    """Scaled by the larger one, so that no square overflows."""
    (x, y), dtype = b.promoted(x, y)
    g, zero = b.graph, b.constant(0, dtype)
    large, small = g.Max(g.Abs(x), g.Abs(y)), g.Min(g.Abs(x), g.Abs(y))
    plain = g.Or(g.Equal(large, zero), g.IsInf(large))
    ratio = g.Where(plain, zero, g.Div(small, large))
    return g.Mul(large, g.Sqrt(g.Add(g.Mul(ratio, ratio), b.constant(1, dtype))))


@translates("sign", "sgn")
def sign(b, x):
    return x.value if x.dtype == torch.bool else b.graph.Sign(x.value)


def _rounding(name, operator):
    @translates(name)
    def translate(b, x):
        return b.graph.node(operator, [x.value]) if x.dtype.is_floating_point else x.value


for _name, _operator in {"floor": "Floor", "ceil": "Ceil", "round": "Round"}.items():
    _rounding(_name, _operator)


@translates("round.decimals")
def round_decimals(b, x, *, decimals=0):
    g, scale = b.graph, b.constant(10.0 ** abs(decimals), x.dtype)
    if not x.dtype.is_floating_point:
        raise Unsupported("decimals of integers")
    if decimals >= 0:
        return g.Div(g.Round(g.Mul(x.value, scale)), scale)
    return g.Mul(g.Round(g.Div(x.value, scale)), scale)


@translates("trunc", "fix")
def trunc(b, x):
    return _truncated(b, x.value) if x.dtype.is_floating_point else x.value


def _truncated(b, value):
    g = b.graph
    return g.Mul(g.Sign(value), g.Floor(g.Abs(value)))


@translates("exp2")
def exp2(b, x):
    (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    return b.graph.Pow(b.constant(2, dtype), value)


def _scaled_log(name, base):
    @translates(name)
    def translate(b, x):
        (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
        return b.graph.Mul(b.graph.Log(value), b.constant(1 / math.log(base), dtype))


_scaled_log("log2", 2)
_scaled_log("log10", 10)


@translates("log1p")
def log1p(b, x):
    """Kahan's: the error of 1 + x divides out."""
    (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    g, one = b.graph, b.constant(1, dtype)
    u = g.Add(one, value)
    exact = g.Mul(g.Log(u), g.Div(value, g.Sub(u, one)))
    return g.Where(g.Or(g.Equal(u, one), g.IsInf(value)), g.Where(g.Equal(u, one), value, g.Log(u)), exact)


@translates("expm1")
def expm1(b, x):
    """Kahan's: the error of exp(x) divides out."""
    (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    g, one = b.graph, b.constant(1, dtype)
    u = g.Exp(value)
    less = g.Sub(u, one)
    exact = g.Mul(less, g.Div(value, g.Log(u)))
    plain = g.Greater(g.Abs(value), one)
    return g.Where(plain, less, g.Where(g.Equal(u, one), value, exact))


@translates("rsqrt")
def rsqrt(b, x):
    (value,), _ = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    return b.graph.Reciprocal(b.graph.Sqrt(value))


@translates("logical_not")
def logical_not(b, x):
    return b.graph.Not(b.as_type(x, torch.bool))


@translates("bitwise_not")
def bitwise_not(b, x):
    return b.graph.Not(x.value) if x.dtype == torch.bool else b.graph.BitwiseNot(x.value)


@translates("isnan")
def isnan(b, x):
    if not x.dtype.is_floating_point:
        return b.zeros(x.shape, torch.bool, False)
    return b.graph.IsNaN(x.value)


@translates("isinf")
def isinf(b, x):
    if not x.dtype.is_floating_point:
        return b.zeros(x.shape, torch.bool, False)
    return b.graph.IsInf(x.value)


# --- of two


def _scaled(b, value, alpha, dtype):
    return value if not isinstance(alpha, torch.SymInt) and alpha == 1 else b.graph.Mul(value, b.number(alpha, dtype))


@translates("add.Tensor", "add.Scalar")
def add(b, x, y, *rest, alpha=1):
    (x, y), dtype = b.promoted(x, y)
    alpha = rest[0] if rest else alpha
    if dtype == torch.bool:
        if not alpha:
            raise Unsupported("a sum of truths with alpha=0")
        return b.graph.Or(x, y)
    return b.graph.Add(x, _scaled(b, y, alpha, dtype))


@translates("sub.Tensor", "sub.Scalar")
def sub(b, x, y, *rest, alpha=1):
    (x, y), dtype = b.promoted(x, y)
    return b.graph.Sub(x, _scaled(b, y, rest[0] if rest else alpha, dtype))


@translates("rsub.Tensor", "rsub.Scalar")
def rsub(b, x, y, alpha=1):
    (x, y), dtype = b.promoted(x, y)
    return b.graph.Sub(y, _scaled(b, x, alpha, dtype))


@translates("mul.Tensor", "mul.Scalar")
def mul(b, x, y):
    (x, y), dtype = b.promoted(x, y)
    return b.graph.And(x, y) if dtype == torch.bool else b.graph.Mul(x, y)


@translates("div.Tensor", "div.Scalar")
def div(b, x, y):
    (x, y), _ = b.promoted(x, y, kind=Kind.INT_TO_FLOAT)
    return b.graph.Div(x, y)


@translates("div.Tensor_mode", "div.Scalar_mode")
def div_mode(b, x, y, *, rounding_mode=None):
    if rounding_mode is None:
        return div(b, x, y)
    return _rounded_quotient(b, x, y, rounding_mode)


@translates("floor_divide", "floor_divide.Scalar")
def floor_divide(b, x, y):
    return _rounded_quotient(b, x, y, "floor")


def _rounded_quotient(b, x, y, mode):
    (x, y), dtype = b.promoted(x, y)
    g = b.graph
    if dtype.is_floating_point:
        return _truncated(b, g.Div(x, y)) if mode == "trunc" else _floored_quotient(b, x, y, dtype)
    _refuse_zero(b, y, dtype)
    quotient = g.Div(x, y)  # of integers: to zero
    if mode == "trunc" or not dtype.is_signed:
        return quotient
    zero = b.constant(0, dtype)
    rest = g.Sub(x, g.Mul(quotient, y))
    crosses = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(rest, zero), g.Less(y, zero)))
    return g.Sub(quotient, g.Cast(crosses, to=DTYPES[dtype]))


def _refuse_zero(b, divisor, dtype):
    b.check(b.graph.Equal(divisor, b.constant(0, dtype)), lambda: RuntimeError("ZeroDivisionError"))


def _floored_quotient(b, x, y, dtype):
    """As Python's and torch's: made of the remainder, so that 1 // 0.1 is 9."""
    g, zero = b.graph, b.constant(0, dtype)
    rest = g.Mod(x, y, fmod=1)
    crosses = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(rest, zero), g.Less(y, zero)))
    quotient = g.Div(g.Sub(x, rest), y)
    quotient = g.Where(crosses, g.Sub(quotient, b.constant(1, dtype)), quotient)
    down = g.Floor(quotient)
    down = g.Where(g.Greater(g.Sub(quotient, down), b.constant(0.5, dtype)), g.Add(down, b.constant(1, dtype)), down)
    return g.Where(g.Equal(y, zero), g.Div(x, y), down)


@translates("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(b, x, y):
    (x, y), dtype = b.promoted(x, y)
    g, zero = b.graph, b.constant(0, dtype)
    if not dtype.is_floating_point:
        _refuse_zero(b, y, dtype)
        return g.Mod(x, y)
    rest = g.Mod(x, y, fmod=1)
    crosses = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(rest, zero), g.Less(y, zero)))
    return g.Where(crosses, g.Add(rest, y), rest)


@translates("fmod.Tensor", "fmod.Scalar")
def fmod(b, x, y):
    (x, y), dtype = b.promoted(x, y)
    if not dtype.is_floating_point:
        _refuse_zero(b, y, dtype)
    return b.graph.Mod(x, y, fmod=1)


@translates("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(b, x, y):
    exponent = y
    (x, y), dtype = b.promoted(x, y, kind=Kind.BOOL_TO_LONG)
    if is_number(exponent) and exponent == 2:
        return b.graph.Mul(x, x)
    if is_number(exponent) and exponent == 0.5:
        return b.graph.Sqrt(x)
    if not dtype.is_floating_point and not (is_number(exponent) and exponent >= 0):
        raise Unsupported("powers of integers whose exponents may be negative")
    return b.graph.Pow(x, y)


@translates("atan2")
def atan2(b, y, x):
    (y, x), dtype = b.promoted(y, x, kind=Kind.INT_TO_FLOAT)
    g, zero = b.graph, b.constant(0, dtype)
    pi, half = b.constant(math.pi, dtype), b.constant(math.pi / 2, dtype)
    # The quotient is at most 1; what is beyond turns by a quarter.
    ax, ay = g.Abs(x), g.Abs(y)
    steep = g.Greater(ay, ax)
    small, large = g.Where(steep, ax, ay), g.Where(steep, ay, ax)
    both_inf = g.And(g.IsInf(ax), g.IsInf(ay))
    ratio = g.Where(g.Equal(small, zero), zero, g.Div(small, large))
    ratio = g.Where(both_inf, b.constant(1, dtype), ratio)
    angle = g.Atan(ratio)
    angle = g.Where(steep, g.Sub(half, angle), angle)
    x_negative = g.Or(g.Less(x, zero), g.And(g.Equal(x, zero), g.Less(g.Reciprocal(x), zero)))
    y_negative = g.Or(g.Less(y, zero), g.And(g.Equal(y, zero), g.Less(g.Reciprocal(y), zero)))
    angle = g.Where(x_negative, g.Sub(pi, angle), angle)
    angle = g.Where(y_negative, g.Neg(angle), angle)
    return g.Where(g.Or(g.IsNaN(x), g.IsNaN(y)), g.Add(x, y), angle)


def _extreme(names, operator):
    @translates(*names)
    def translate(b, x, y):
        (x, y), dtype = b.promoted(x, y)
        if dtype == torch.bool:
            return (b.graph.Or if operator == "Max" else b.graph.And)(x, y)
        return b.graph.node(operator, [x, y])


_extreme(["maximum"], "Max")
_extreme(["minimum"], "Min")


def _numeric_extreme(name, operator):
    """A number wins over NaN."""

    @translates(name)
    def translate(b, x, y):
        (x, y), dtype = b.promoted(x, y)
        g = b.graph
        if dtype == torch.bool:
            return (g.Or if operator == "Max" else g.And)(x, y)
        both = g.node(operator, [x, y])
        return g.Where(g.IsNaN(x), y, g.Where(g.IsNaN(y), x, both)) if dtype.is_floating_point else both


_numeric_extreme("fmax", "Max")
_numeric_extreme("fmin", "Min")


@translates("clamp", "clamp.Tensor")
def clamp(b, x, min=None, max=None):
    bounds = [bound for bound in (min, max) if bound is not None]
    values, dtype = b.promoted(x, *bounds)
    if dtype == torch.bool:
        raise Unsupported("truths")
    value, bounds = values[0], values[1:]
    if min is not None:
        value = b.graph.Max(value, bounds[0])
    return value if max is None else b.graph.Min(value, bounds[-1])


@translates("clamp_min", "clamp_min.Tensor")
def clamp_min(b, x, min):
    return clamp(b, x, min)


@translates("clamp_max", "clamp_max.Tensor")
def clamp_max(b, x, max):
    return clamp(b, x, None, max)


def _comparison(name, operator, negated=False):
    @translates(f"{name}.Tensor", f"{name}.Scalar")
    def translate(b, x, y):
        (x, y), dtype = b.promoted(x, y, kind=Kind.ALWAYS_BOOL)
        if dtype == torch.bool and operator != "Equal":
            x, y = (b.cast(v, torch.bool, torch.uint8) for v in (x, y))
        value = b.graph.node(operator, [x, y])
        return b.graph.Not(value) if negated else value


_comparison("eq", "Equal")
_comparison("ne", "Equal", negated=True)
_comparison("lt", "Less")
_comparison("le", "LessOrEqual")
_comparison("gt", "Greater")
_comparison("ge", "GreaterOrEqual")


def _logical(name, operator):
    @translates(f"logical_{name}")
    def translate(b, x, y):
        return b.graph.node(operator, [b.as_type(x, torch.bool), b.as_type(y, torch.bool)])


def _bitwise(name, operator):
    @translates(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar", f"bitwise_{name}.Scalar_Tensor")
    def translate(b, x, y):
        (x, y), dtype = b.promoted(x, y)
        return b.graph.node(operator if dtype == torch.bool else f"Bitwise{operator}", [x, y])


for _name, _operator in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    _logical(_name, _operator)
    _bitwise(_name, _operator)


@translates("prims::where.default", "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(b, condition, x, y):
    (x, y), _ = b.promoted(x, y)
    return b.graph.Where(b.as_type(condition, torch.bool), x, y)


@translates("lerp.Scalar", "lerp.Tensor")
def lerp(b, x, y, weight):
    (x, y, weight), dtype = b.promoted(x, y, weight)
    g, one = b.graph, b.constant(1, dtype)
    near = g.Add(x, g.Mul(weight, g.Sub(y, x)))
    far = g.Sub(y, g.Mul(g.Sub(y, x), g.Sub(one, weight)))
    return g.Where(g.Less(g.Abs(weight), b.constant(0.5, dtype)), near, far)


# --- activations


@translates("gelu")
def gelu(b, x, *, approximate="none"):
    return b.graph.Gelu(x.value, approximate=approximate)


@translates("leaky_relu")
def leaky_relu(b, x, negative_slope=0.01):
    return b.graph.LeakyRelu(x.value, alpha=float(negative_slope))


@translates("hardswish")
def hardswish(b, x):
    return b.graph.HardSwish(x.value)


@translates("elu")
def elu(b, x, alpha=1.0, scale=1.0, input_scale=1.0):
    g = b.graph
    zero = b.constant(0, x.dtype)
    inner = x.value if input_scale == 1 else g.Mul(x.value, b.constant(input_scale, x.dtype))
    below = g.Mul(g.Sub(g.Exp(g.Min(inner, zero)), b.constant(1, x.dtype)), b.constant(alpha, x.dtype))
    value = g.Where(g.Greater(x.value, zero), x.value, below)
    return value if scale == 1 else g.Mul(value, b.constant(scale, x.dtype))


@translates("_to_copy")
def to_copy(b, x, *, dtype=None, device=None, **options):
    del options
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a copy to {device}")
    return b.as_type(x, dtype or x.dtype)


@translates("prims::convert_element_type.default")
def convert_element_type(b, x, dtype):
    return b.as_type(x, dtype)


@translates("fill.Scalar", "fill.Tensor")
def fill(b, x, value):
    return b.graph.Expand(b.as_type(value, x.dtype), b.dims(x.shape))


@translates("copy")
def copy(b, x, source, non_blocking=False):
    del non_blocking
    return b.graph.Expand(b.as_type(source, x.dtype), b.dims(x.shape))
