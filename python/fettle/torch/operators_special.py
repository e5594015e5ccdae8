"""Special functions of one number.

Each is computed in double precision and rounded once. Where no formula is at hand, it is a polynomial for each part of the axis.
Its coefficients come from torch's own kernels of double precision, or from mpmath, at the places of Chebyshev. `_TOLERANCE` bounds
the error of each part, which is measured when the polynomial is made. Tensors in double precision are left to torch."""

import functools
import math

import numpy
import torch
from numpy.polynomial import chebyshev
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .fx import DTYPES, Kind, Unsupported, translates

_TOLERANCE = 2e-8  # of the largest magnitude of a part's polynomial
_MOST_TERMS = 30
_WIDE = torch.float64


def _special(name, *aliases):
    """The function below takes the builder and a value in double precision, and gives one."""

    def register(function):
        @translates(name, *aliases)
        def translate(b, x):
            (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
            return b.cast(function(b, _widened(b, value, dtype)), _WIDE, dtype)

        return function

    return register


def _widened(b, value, dtype):
    if dtype == _WIDE:
        raise Unsupported("a special function in double precision")
    return b.cast(value, dtype, _WIDE)


def _number(b, value):
    return b.constant(float(value), _WIDE)


@functools.cache
def _coefficients(function, low, high):
    """Of powers of t in [-1, 1], which stands for [low, high]: as many as the tolerance asks for."""
    with unset_fake_temporarily():
        count = 4 * _MOST_TERMS
        places = chebyshev.chebpts1(count)
        values = function(torch.from_numpy((places + 1) / 2 * (high - low) + low)).numpy()
    series = chebyshev.chebfit(places, values, _MOST_TERMS)
    scale = abs(values).max()
    for terms in range(1, _MOST_TERMS + 1):
        powers = chebyshev.cheb2poly(series[:terms])
        if abs(numpy.polynomial.polynomial.polyval(places, powers) - values).max() <= _TOLERANCE * scale:
            return tuple(float(p) for p in powers)
    raise Unsupported(f"a polynomial of {_MOST_TERMS} terms does not reach from {low} to {high}")


def _exact(name, *order):
    """A function of mpmath, which torch brings along with sympy, for tensors. Torch's own Bessel functions have errors of 3e-7."""

    @functools.cache
    def at(places):
        import mpmath

        return [float(getattr(mpmath, name)(*order, x)) for x in places]

    return lambda x: torch.tensor(at(tuple(x.tolist())), dtype=_WIDE)


def _polynomial(b, x, coefficients):
    """Horner's: c0 + x (c1 + x (c2 + …))."""
    total = _number(b, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = b.graph.Add(b.graph.Mul(total, x), _number(b, coefficient))
    return total


def _fitted(b, x, function, low, high):
    """`function`, of tensors, as a polynomial over [low, high]; x beyond it is held at its ends."""
    g = b.graph
    held = g.Min(g.Max(x, _number(b, low)), _number(b, high))
    t = g.Mul(g.Sub(held, _number(b, (low + high) / 2)), _number(b, 2 / (high - low)))
    return _polynomial(b, t, _coefficients(function, low, high))


def _as_nan_where(b, wrong, value):
    return b.graph.Where(wrong, _number(b, math.nan), value)


def _through_nan(b, x, value):
    """Max and Min need not keep it."""
    return b.graph.Where(b.graph.IsNaN(x), x, value)


def _with_sign_of(b, x, value):
    return b.graph.Where(b.graph.Less(x, _number(b, 0)), b.graph.Neg(value), value)


# --- of the error function


def _erfcx_of_map(t):
    """erfcx, for t in [-1, 1], of the x from 0 on to infinity with t = (x - 2) / (x + 2), times (x + 2)."""
    x = 2 * (1 + t) / (1 - t)
    return torch.special.erfcx(x) * (x + 2)


def _erfcx_of_positive(b, x):
    g = b.graph
    two = _number(b, 2)
    behind = g.Add(x, two)
    t = g.Where(g.IsInf(x), _number(b, 1), g.Div(g.Sub(x, two), behind))
    return g.Div(_fitted(b, t, _erfcx_of_map, -1.0, 1.0), behind)


def _gauss(b, x, sign):
    return b.graph.Exp(b.graph.Mul(_number(b, sign), b.graph.Mul(x, x)))


@_special("erfc", "prims::erfc.default")
def erfc(b, x):
    g, positive = b.graph, b.graph.Abs(x)
    tail = g.Mul(_gauss(b, positive, -1), _erfcx_of_positive(b, positive))
    return _through_nan(b, x, g.Where(g.Less(x, _number(b, 0)), g.Sub(_number(b, 2), tail), tail))


@_special("special_erfcx", "prims::erfcx.default")
def erfcx(b, x):
    g = b.graph
    scaled = _erfcx_of_positive(b, g.Abs(x))
    mirrored = g.Sub(g.Mul(_number(b, 2), _gauss(b, x, 1)), scaled)
    return _through_nan(b, x, g.Where(g.Less(x, _number(b, 0)), mirrored, scaled))


@_special("special_log_ndtr")
def log_ndtr(b, x):
    """log(erfcx(-x / sqrt(2)) / 2) - x² / 2 below 0; above, the logarithm of 1 less the other tail, by its series where that is small."""
    g = b.graph
    scaled = g.Mul(x, _number(b, math.sqrt(0.5)))
    below = g.Log(g.Mul(_erfcx_of_positive(b, g.Abs(g.Min(scaled, _number(b, 0)))), _number(b, 0.5)))
    below = g.Sub(below, g.Mul(scaled, scaled))
    tail = g.Mul(erfc(b, scaled), _number(b, 0.5))
    series = g.Mul(tail, _polynomial(b, tail, (-1, -1 / 2, -1 / 3, -1 / 4)))
    above = g.Where(g.Less(tail, _number(b, 1e-3)), series, g.Log(g.Sub(_number(b, 1), tail)))
    return _through_nan(b, x, g.Where(g.Less(x, _number(b, 0)), below, above))


def _probit_near(w):
    """|erfinv(y)| / sqrt(w), where w = -log(1 - y²)."""
    tail = torch.exp(-w) / (2 * (1 + torch.sqrt(-torch.expm1(-w))))
    return -torch.special.ndtri(tail) * math.sqrt(0.5) / torch.sqrt(w)


def _probit_far(s):
    return _probit_near(s * s)


def _erfinv_of(b, w):
    """|erfinv(y)|, for w = -log(1 - y²)."""
    g = b.graph
    root = g.Sqrt(w)
    near = _fitted(b, w, _probit_near, 1e-12, 5.0)
    far = _fitted(b, root, _probit_far, math.sqrt(5.0), 11.0)
    return g.Mul(root, g.Where(g.Less(w, _number(b, 5)), near, far))


@_special("erfinv", "prims::erf_inv.default")
def erfinv(b, x):
    g, one = b.graph, _number(b, 1)
    away = g.Abs(x)
    # 1 - y² is exact in double precision, but where y is tiny: there y tells the result.
    w = g.Neg(g.Log(g.Mul(g.Sub(one, away), g.Add(one, away))))
    made = g.Where(g.Less(away, _number(b, 1e-5)), g.Mul(away, _number(b, math.sqrt(math.pi) / 2)), _erfinv_of(b, w))
    made = g.Where(g.Equal(away, one), _number(b, math.inf), made)
    return _as_nan_where(b, g.Or(g.IsNaN(x), g.Greater(away, one)), _with_sign_of(b, x, made))


@_special("special_ndtri", "prims::ndtri.default")
def ndtri(b, p):
    g, one, half = b.graph, _number(b, 1), _number(b, 0.5)
    tail = g.Min(p, g.Sub(one, p))
    centre = g.Sub(half, tail)
    w = g.Neg(g.Log(g.Mul(_number(b, 4), g.Mul(tail, g.Sub(one, tail)))))
    made = g.Where(g.Less(centre, _number(b, 1e-5)), g.Mul(centre, _number(b, math.sqrt(math.pi))), _erfinv_of(b, w))
    made = g.Where(g.Equal(tail, _number(b, 0)), _number(b, math.inf), g.Mul(made, _number(b, math.sqrt(2))))
    outside = g.Or(g.IsNaN(p), g.Or(g.Less(p, _number(b, 0)), g.Greater(p, one)))
    return _as_nan_where(b, outside, g.Where(g.Less(p, half), g.Neg(made), made))


# --- of the gamma function


def _to_whole(b, x):
    """How far x is from the next whole number."""
    return b.graph.Sub(x, b.graph.Round(x))


def _is_pole(b, x):
    return b.graph.And(b.graph.LessOrEqual(x, _number(b, 0)), b.graph.Equal(x, b.graph.Floor(x)))


def _mirrored(b, x):
    """1 - x below one half: there a formula of reflection says what is wanted."""
    below = b.graph.Less(x, _number(b, 0.5))
    return below, b.graph.Where(below, b.graph.Sub(_number(b, 1), x), x)


_SHIFT = 8  # from where on asymptotic series are taken


@_special("lgamma", "prims::lgamma.default")
def lgamma(b, x):
    """Stirling's series, from 8 on."""
    g, one = b.graph, _number(b, 1)
    below, y = _mirrored(b, x)
    small = g.Less(y, _number(b, _SHIFT))
    product = y
    for i in range(1, _SHIFT):
        product = g.Mul(product, g.Add(y, _number(b, i)))
    z = g.Where(small, g.Add(y, _number(b, _SHIFT)), y)
    inverse = g.Reciprocal(z)
    series = _polynomial(b, g.Mul(inverse, inverse), (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188))
    stirling = g.Mul(g.Sub(z, _number(b, 0.5)), g.Sub(g.Log(z), one))
    stirling = g.Add(stirling, g.Add(g.Mul(series, inverse), _number(b, 0.5 * math.log(2 * math.pi) - 0.5)))
    made = g.Sub(stirling, g.Where(small, g.Log(product), _number(b, 0)))
    made = g.Where(g.IsInf(y), _number(b, math.inf), made)
    sine = g.Abs(g.Sin(g.Mul(_number(b, math.pi), _to_whole(b, x))))
    mirrored = g.Sub(g.Log(g.Div(_number(b, math.pi), sine)), made)
    made = g.Where(below, mirrored, made)
    return _through_nan(b, x, g.Where(g.Or(_is_pole(b, x), g.IsInf(x)), _number(b, math.inf), made))


@_special("digamma", "prims::digamma.default")
def digamma(b, x):
    g, zero = b.graph, _number(b, 0)
    below, y = _mirrored(b, x)
    total = g.Reciprocal(y)
    for i in range(1, _SHIFT):
        total = g.Add(total, g.Reciprocal(g.Add(y, _number(b, i))))
    z = g.Add(y, _number(b, _SHIFT))
    inverse = g.Reciprocal(z)
    square = g.Mul(inverse, inverse)
    series = g.Mul(square, _polynomial(b, square, (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)))
    made = g.Sub(g.Sub(g.Log(z), g.Mul(_number(b, 0.5), inverse)), g.Add(series, total))
    angle = g.Mul(_number(b, math.pi), _to_whole(b, x))
    made = g.Where(below, g.Sub(made, g.Div(_number(b, math.pi), g.Tan(angle))), made)
    made = _as_nan_where(b, _is_pole(b, x), made)
    at_zero = g.Neg(g.Div(_number(b, 1), x))  # the infinity of the other sign
    return _through_nan(b, x, g.Where(g.Equal(x, zero), at_zero, made))


def _cotangents(order):
    """The derivative of this order of cot, as a polynomial in cot: P' (-1 - c²)."""
    powers = numpy.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        powers = powers.deriv() * numpy.polynomial.Polynomial([-1.0, 0.0, -1.0])
    return tuple(powers.coef)


@translates("polygamma", "special_polygamma")
def polygamma(b, order, x):
    """The derivative of this order of digamma: terms of the series up to 8, then Euler's and Maclaurin's; reflected below one half."""
    if order == 0:
        made = digamma
    elif order > 20:
        raise Unsupported(f"a derivative of order {order}")
    else:
        made = functools.partial(_derivative, order)
    (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    return b.cast(made(b, _widened(b, value, dtype)), _WIDE, dtype)


def _derivative(n, b, x):
    g, steps = b.graph, _SHIFT + n // 2
    below, y = _mirrored(b, x)

    def power(value, exponent):
        return g.Pow(value, _number(b, exponent))

    total = power(y, -n - 1)
    for i in range(1, steps):
        total = g.Add(total, power(g.Add(y, _number(b, i)), -n - 1))
    total = g.Mul(total, _number(b, math.factorial(n)))
    z = g.Add(y, _number(b, steps))
    # (n-1)! z^-n + n!/2 z^-(n+1) + sum of B2k (2k+n-1)!/(2k)! z^-(2k+n)
    bernoulli = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
    inverse = g.Reciprocal(z)
    series = [factor * math.factorial(2 * k + n - 1) / math.factorial(2 * k) for k, factor in enumerate(bernoulli, 1)]
    square = g.Mul(inverse, inverse)
    tail = g.Add(g.Mul(square, _polynomial(b, square, series)), g.Mul(inverse, _number(b, math.factorial(n) / 2)))
    tail = g.Mul(g.Add(tail, _number(b, math.factorial(n - 1))), power(z, -n))
    made = g.Add(total, tail)  # |psi^(n)(y)|
    angle = g.Mul(_number(b, math.pi), _to_whole(b, x))
    cotangent = g.Reciprocal(g.Tan(angle))
    turned = g.Mul(_polynomial(b, cotangent, _cotangents(n)), _number(b, math.pi ** (n + 1)))
    # psi^(n)(x) = (-1)^n psi^(n)(1 - x) - pi d^n/dx^n cot(pi x), and psi^(n)(1 - x) is (-1)^(n+1) of what was made.
    sign = (-1) ** (n + 1)
    mirrored = g.Sub(g.Neg(made), turned)
    made = g.Where(below, mirrored, g.Mul(made, _number(b, sign)))
    return _through_nan(b, x, g.Where(_is_pole(b, x), _number(b, sign * math.inf), made))


@translates("mvlgamma")
def mvlgamma(b, x, p):
    (value,), dtype = b.promoted(x, kind=Kind.INT_TO_FLOAT)
    wide, g = _widened(b, value, dtype), b.graph
    text = f"All elements must be greater than (p-1)/2: p is {p}"
    b.check(g.LessOrEqual(wide, _number(b, (p - 1) / 2)), functools.partial(RuntimeError, text))
    total = _number(b, p * (p - 1) / 4 * math.log(math.pi))
    for i in range(p):
        total = g.Add(total, lgamma(b, g.Sub(wide, _number(b, i / 2))))
    return b.cast(total, _WIDE, dtype)


# --- of Bessel


def _growing(name, kernel, is_odd, is_scaled):
    """I0 and I1: exp(-x) of them, up to 8 and beyond; `kernel` has them so."""

    def near(x):  # over the power of x that it begins with
        return kernel(x) / x if is_odd else kernel(x)

    def far(u):  # the inverse of x
        x = 1 / u
        return kernel(x) * torch.sqrt(x)

    @_special(*name)
    def translate(b, x):
        g, away = b.graph, b.graph.Abs(x)
        beyond = g.Div(_fitted(b, g.Reciprocal(away), far, 1e-9, 1 / 8), g.Sqrt(away))
        inner = _fitted(b, away, near, 1e-9, 8.0)
        made = g.Where(g.LessOrEqual(away, _number(b, 8)), g.Mul(inner, away) if is_odd else inner, beyond)
        made = made if is_scaled else g.Mul(made, g.Exp(away))
        return _through_nan(b, x, _with_sign_of(b, x, made) if is_odd else made)


_growing(["special_i0e", "prims::bessel_i0e.default"], torch.special.i0e, False, True)
_growing(["special_i1e", "prims::bessel_i1e.default"], torch.special.i1e, True, True)
_growing(["i0", "special_modified_bessel_i0", "prims::bessel_i0.default"], torch.special.i0e, False, False)
_growing(["special_i1", "special_modified_bessel_i1", "prims::bessel_i1.default"], torch.special.i1e, True, False)


def _decaying(order, is_scaled):
    """K0 and K1: a logarithm times I0 or I1, and a polynomial in x², up to 2; beyond, exp(x) of it."""
    kernel = (torch.special.modified_bessel_k0, torch.special.modified_bessel_k1)[order]
    scaled = (torch.special.scaled_modified_bessel_k0, torch.special.scaled_modified_bessel_k1)[order]
    grown = (torch.special.modified_bessel_i0, torch.special.modified_bessel_i1)[order]
    sign = (1, -1)[order]

    def i_of(s):  # of x², over the power of x that it begins with
        x = torch.sqrt(s)
        return grown(x) / x**order

    def rest(s):
        x = torch.sqrt(s)
        return (kernel(x) + sign * torch.log(x / 2) * grown(x)) * x**order

    def far(u):
        x = 1 / u
        return scaled(x) * torch.sqrt(x)

    @_special(f"special_{'scaled_' if is_scaled else ''}modified_bessel_k{order}")
    def translate(b, x):
        g, square = b.graph, b.graph.Mul(x, x)
        power = x if order else _number(b, 1)
        first = g.Mul(_fitted(b, square, i_of, 1e-12, 4.0), power)
        logarithm = g.Mul(_number(b, sign), g.Log(g.Mul(x, _number(b, 0.5))))
        near = g.Sub(g.Div(_fitted(b, square, rest, 1e-12, 4.0), power), g.Mul(logarithm, first))
        near = g.Mul(near, g.Exp(x)) if is_scaled else near
        beyond = g.Div(_fitted(b, g.Reciprocal(x), far, 1e-9, 0.5), g.Sqrt(x))
        beyond = beyond if is_scaled else g.Mul(beyond, g.Exp(g.Neg(x)))
        made = g.Where(g.LessOrEqual(x, _number(b, 2)), near, beyond)
        made = g.Where(g.Equal(x, _number(b, 0)), _number(b, math.inf), made)
        return _as_nan_where(b, g.Or(g.IsNaN(x), g.Less(x, _number(b, 0))), made)


for _order in (0, 1):
    _decaying(_order, False)
    _decaying(_order, True)


_FIRST_ZEROS = 8.0  # up to here a polynomial in x², beyond it a wave


def _waves(order):
    """P and Q of J = sqrt(2 / (pi x)) (P cos - Q sin), and Y = sqrt(2 / (pi x)) (P sin + Q cos), of the inverse of x."""
    j, y = _exact("besselj", order), _exact("bessely", order)
    phase = math.pi / 4 + order * math.pi / 2

    def parts(u):
        x = 1 / u
        scale, angle = torch.sqrt(x * (math.pi / 2)), x - phase
        return scale, angle, j(x), y(x)

    def even(u):
        scale, angle, first, second = parts(u)
        return scale * (first * torch.cos(angle) + second * torch.sin(angle))

    def odd(u):  # over u
        scale, angle, first, second = parts(u)
        return scale * (second * torch.cos(angle) - first * torch.sin(angle)) / u

    def wave(b, x, is_second):
        g = b.graph
        u = g.Reciprocal(x)
        p, q = _fitted(b, u, even, 1e-4, 1 / _FIRST_ZEROS), g.Mul(u, _fitted(b, u, odd, 1e-3, 1 / _FIRST_ZEROS))
        angle = g.Sub(x, _number(b, phase))
        sine, cosine = g.Sin(angle), g.Cos(angle)
        if is_second:
            made = g.Add(g.Mul(p, sine), g.Mul(q, cosine))
        else:
            made = g.Sub(g.Mul(p, cosine), g.Mul(q, sine))
        return g.Mul(made, g.Sqrt(g.Mul(u, _number(b, 2 / math.pi))))

    return wave


def _bessel(order):
    j, y = _exact("besselj", order), _exact("bessely", order)
    wave = _waves(order)

    def j_of(s):  # of x²
        x = torch.sqrt(s)
        return j(x) / x**order

    def rest(s):
        x = torch.sqrt(s)
        return (y(x) - 2 / math.pi * torch.log(x) * j(x)) * x**order

    def first_kind(b, square, power):
        return b.graph.Mul(_fitted(b, square, j_of, 1e-12, _FIRST_ZEROS**2), power)

    @_special(f"special_bessel_j{order}", f"prims::bessel_j{order}.default")
    def first(b, x):
        g, away = b.graph, b.graph.Abs(x)
        power = away if order else _number(b, 1)
        made = g.Where(g.Less(away, _number(b, _FIRST_ZEROS)), first_kind(b, g.Mul(x, x), power), wave(b, away, False))
        return _through_nan(b, x, _with_sign_of(b, x, made) if order else made)

    @_special(f"special_bessel_y{order}")
    def second(b, x):
        g, square = b.graph, b.graph.Mul(x, x)
        power = x if order else _number(b, 1)
        logarithm = g.Mul(_number(b, 2 / math.pi), g.Log(x))
        near = g.Div(_fitted(b, square, rest, 1e-12, _FIRST_ZEROS**2), power)
        near = g.Add(near, g.Mul(logarithm, first_kind(b, square, power)))
        made = g.Where(g.Less(x, _number(b, _FIRST_ZEROS)), near, wave(b, x, True))
        made = g.Where(g.Equal(x, _number(b, 0)), _number(b, -math.inf), made)
        return _as_nan_where(b, g.Or(g.IsNaN(x), g.Less(x, _number(b, 0))), made)


_bessel(0)
_bessel(1)


@_special("special_spherical_bessel_j0", "prims::spherical_bessel_j0.default")
def spherical_bessel_j0(b, x):
    g = b.graph
    small = g.Less(g.Abs(x), _number(b, 1e-3))
    series = g.Sub(_number(b, 1), g.Div(g.Mul(x, x), _number(b, 6)))
    made = g.Where(small, series, g.Div(g.Sin(x), x))
    return _through_nan(b, x, g.Where(g.IsInf(x), _number(b, 0), made))


def _airy_far(u):
    """Ai(x) 2 sqrt(pi) x^(1/4) exp(z), of the inverse of z = 2/3 x^(3/2)."""
    z = 1 / u
    x = (1.5 * z) ** (2 / 3)
    return _exact("airyai")(x) * (2 * math.sqrt(math.pi)) * x**0.25 * torch.exp(z)


def _airy_parts(u):
    z = 1 / u
    x, angle = (1.5 * z) ** (2 / 3), z - math.pi / 4
    first, second = (_exact(name)(-x) * math.sqrt(math.pi) * x**0.25 for name in ("airyai", "airybi"))
    return first, second, torch.cos(angle), torch.sin(angle)


def _airy_even(u):
    first, second, cosine, sine = _airy_parts(u)
    return first * cosine - second * sine


def _airy_odd(u):
    first, second, cosine, sine = _airy_parts(u)
    return (first * sine + second * cosine) / u


_airy_near = _exact("airyai")


@_special("special_airy_ai")
def airy(b, x):
    """Ai: a polynomial from -3 to 2, a wave below, and a decay above."""
    g, away = b.graph, b.graph.Abs(x)
    root = g.Sqrt(away)
    u = g.Div(_number(b, 1.5), g.Mul(root, away))  # the inverse of 2/3 |x|^(3/2)
    z = g.Mul(_number(b, 2 / 3), g.Mul(root, away))
    size = g.Div(_number(b, 1 / math.sqrt(math.pi)), g.Sqrt(root))
    above = g.Mul(g.Mul(_number(b, 0.5), size), g.Mul(g.Exp(g.Neg(z)), _fitted(b, u, _airy_far, 0.01, 0.55)))
    angle = g.Sub(z, _number(b, math.pi / 4))
    odd = g.Mul(u, _fitted(b, u, _airy_odd, 1e-3, 0.3))
    below = g.Mul(size, g.Add(g.Mul(_fitted(b, u, _airy_even, 1e-4, 0.3), g.Cos(angle)), g.Mul(odd, g.Sin(angle))))
    near = _fitted(b, x, _airy_near, -3.0, 2.0)
    made = g.Where(g.Less(x, _number(b, -3)), below, g.Where(g.Less(x, _number(b, 2)), near, above))
    return _as_nan_where(b, g.Or(g.IsNaN(x), g.IsInf(x)), made)


# --- orthogonal polynomials


def _orthogonal(names, first, step, shifted=False):
    """P(0) = 1, P(1) = first(b, x), and P(k + 1) = step(g, k, x, P(k), P(k - 1)), up to the degree that each element has.

    k is a scalar of the loop. A negative degree gives 0, as torch has it."""

    @translates(*names)
    def translate(b, x, degree):
        import fettle

        g = b.graph
        (x, degree), dtype = b.promoted(x, degree, kind=Kind.INT_TO_FLOAT)
        x, degree = _widened(b, x, dtype), _widened(b, degree, dtype)
        shape = b.dims(b.out.shape)
        x = g.Expand(x, shape)
        if shifted:
            x = g.Sub(g.Mul(_number(b, 2), x), _number(b, 1))
        zero, one = _number(b, 0), _number(b, 1)
        degree = g.Expand(g.Mul(g.Sign(degree), g.Floor(g.Abs(degree))), shape)
        degree = g.Where(g.IsNaN(degree), _number(b, -1), degree)
        most = g.ReduceMax(g.Reshape(degree, b.integers([-1])), b.integers([0]), keepdims=0) if b.out.numel() else zero
        too_high = f"a degree of more than {_MOST_DEGREE}"
        b.check(g.Greater(most, _number(b, _MOST_DEGREE)), functools.partial(RuntimeError, too_high))
        trips = g.Cast(g.Max(g.Min(most, _number(b, _MOST_DEGREE)), zero), to="int64")
        ones = g.Expand(one, shape)
        body = fettle.Graph()
        k = body.input("k", "int64", [])
        body.input("go", "bool", [])
        extents = [e if isinstance(e, int) else None for e in b.out.shape]
        if None in extents:
            raise Unsupported("open extents")
        now, before, made = (body.input(name, DTYPES[_WIDE], extents) for name in ("now", "before", "made"))
        count = body.Cast(k, to=DTYPES[_WIDE])
        constant = functools.partial(_constant_in, body)
        made = body.Where(body.Equal(degree, count), now, made)
        after = body.Where(body.Equal(count, constant(0)), first(body, constant, x), step(body, constant, count, x, now, before))
        for name, value in (("go_on", body.constant(numpy.array(True))), ("after", after), ("was", body.Identity(now)), ("all", made)):
            body.output(name, value)
        empty = g.Expand(zero, shape)
        trips = g.Add(trips, b.constant(1, torch.int64))
        made = g.node("Loop", [trips, None, ones, empty, empty], outputs=3, body=body)[2]
        return b.cast(made, _WIDE, dtype)


_MOST_DEGREE = 1024


def _constant_in(graph, value):
    return graph.constant(numpy.float64(value))


def _twice(g, constant, x):
    return g.Mul(constant(2), x)


def _chebyshev(g, constant, k, x, now, before):
    return g.Sub(g.Mul(_twice(g, constant, x), now), before)


def _firsts(factor, offset):
    return lambda g, constant, x: g.Add(g.Mul(constant(factor), x), constant(offset))


for _prefix in ("", "shifted_"):
    for _kind, _first in {"t": (1, 0), "u": (2, 0), "v": (2, -1), "w": (2, 1)}.items():
        _name = f"special_{_prefix}chebyshev_polynomial_{_kind}"
        _orthogonal([_name, f"{_name}.x_scalar", f"{_name}.n_scalar"], _firsts(*_first), _chebyshev, shifted=bool(_prefix))


def _hermite(factor):
    def step(g, constant, k, x, now, before):
        return g.Sub(g.Mul(g.Mul(constant(factor), x), now), g.Mul(g.Mul(constant(factor), k), before))

    return step


def _laguerre(g, constant, k, x, now, before):
    """((2k + 1 - x) P(k) - k P(k - 1)) / (k + 1)."""
    odd = g.Add(_twice(g, constant, k), constant(1))
    return g.Div(g.Sub(g.Mul(g.Sub(odd, x), now), g.Mul(k, before)), g.Add(k, constant(1)))


def _legendre(g, constant, k, x, now, before):
    """((2k + 1) x P(k) - k P(k - 1)) / (k + 1)."""
    odd = g.Add(_twice(g, constant, k), constant(1))
    return g.Div(g.Sub(g.Mul(g.Mul(odd, x), now), g.Mul(k, before)), g.Add(k, constant(1)))


for _name, _first, _step in (("hermite_polynomial_h", (2, 0), _hermite(2)), ("hermite_polynomial_he", (1, 0), _hermite(1)),
                             ("laguerre_polynomial_l", (-1, 1), _laguerre), ("legendre_polynomial_p", (1, 0), _legendre)):  # fmt: skip
    _name = f"special_{_name}"
    _orthogonal([_name, f"{_name}.x_scalar", f"{_name}.n_scalar"], _firsts(*_first), _step)
