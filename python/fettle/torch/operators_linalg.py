"""Linear algebra: what torch leaves to LAPACK becomes host calls of SciPy's (`fettle.linear_algebra`); the rest is a graph."""

import functools
import importlib.util

import numpy
import torch

from .fx import DTYPES, PARTS, TOKEN, Complex, Unsupported, translates, translates_complex

_COMPLEX = {torch.complex64: "complex64", torch.complex128: "complex128"}
_WIDTHS = (torch.float32, torch.float64)


@functools.cache
def _is_there():
    if importlib.util.find_spec("scipy") is None:
        return False
    from fettle import linear_algebra

    linear_algebra.register_functions()
    return True


def _linear(*names):
    """For real and for complex numbers: the function below makes host calls alone."""

    def register(function):
        return translates(*names)(translates_complex(*names)(function))

    return register


def _value(x):
    return (x.real, x.imaginary) if isinstance(x, Complex) else x.value


def _parts(value):
    return value if isinstance(value, tuple) else (value,)


def _called(b, name, inputs, outputs, batch, **parameters):
    """Values, or pairs of them. inputs: values; outputs: (type, shape) of each; batch: how many leading dims there are."""
    if not _is_there():
        raise Unsupported("LAPACK, which the package scipy has, and which is not installed")
    wanted = []
    for dtype, shape in outputs:
        if dtype not in DTYPES and dtype not in _COMPLEX:
            raise Unsupported(f"{dtype} in linear algebra")
        if not all(isinstance(extent, int) for extent in shape):
            raise Unsupported("linear algebra of open sizes")
        wanted.append((_COMPLEX.get(dtype) or DTYPES[dtype], shape))
    return b.graph.host_call(f"linalg.{name}", inputs, wanted, batch=batch, **parameters)


def _like(fake):
    return fake.dtype, tuple(fake.shape)


def _each(b, made, function):
    """`function` of a value, or of both parts."""
    return tuple(map(function, made)) if isinstance(made, tuple) else function(made)


def _swapped(b, value, rank, conjugate=False):
    """The transpose of matrices."""
    perm = [*range(rank - 2), rank - 1, rank - 2]
    made = _each(b, value, lambda part: b.graph.Transpose(part, perm=perm))
    return (made[0], b.graph.Neg(made[1])) if conjugate and isinstance(made, tuple) else made


def _expanded(b, value, shape):
    return _each(b, value, lambda part: b.graph.Expand(part, b.dims(shape)))


def _extents(x):
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def _refuse_narrow(x):
    if PARTS.get(x.dtype, x.dtype) not in _WIDTHS:
        raise Unsupported(f"{x.dtype} in linear algebra")


def _fails_where(b, wrong, text):
    b.check(wrong, functools.partial(torch.linalg.LinAlgError, text))


def _is_nan(b, value):
    nans = [b.graph.IsNaN(part) for part in _parts(value)]
    return nans[0] if len(nans) == 1 else b.graph.Or(*nans)


# --- LU


def _lu(b, x, value=None):
    """Factors, pivots, info."""
    _refuse_narrow(x)
    batch, m, n = _extents(x)
    outputs = [(x.dtype, (*batch, m, n)), (torch.int32, (*batch, min(m, n))), (torch.int32, batch)]
    return _called(b, "lu_factor", [_value(x) if value is None else value], outputs, len(batch))


def _lu_as_kept(b, x):
    """What torch keeps for gradients: of real matrices in C order, those of the transposes; and whether it is so."""
    turned = x.fake.is_contiguous() and not isinstance(x, Complex)
    return *_lu(b, x, _swapped(b, x.value, x.rank) if turned else None), turned


@_linear("linalg_lu_factor_ex")
def lu_factor(b, x, *, pivot=True, check_errors=False):
    if not pivot:
        raise Unsupported("a factorisation without pivots")
    made = _lu(b, x)
    if check_errors:
        _check_info(b, made[2], "linalg.lu_factor_ex")
    return made


def _triangle(b, part, upper):
    return b.graph.Trilu(part, upper=int(upper))


def _eye(b, rows, columns, dtype):
    return b.graph.Trilu(b.graph.Trilu(b.zeros([rows, columns], dtype, 1), upper=0), upper=1)


def _unpacked(b, factors, m, n, dtype):
    """L and U; of both parts."""
    k, g, axes = min(m, n), b.graph, [-2, -1]

    def cut(part, rows, columns):
        zero, one = b.integers([0, 0]), b.integers([1, 1])
        return g.Slice(part, zero, b.integers([rows, columns]), b.integers(axes), one)

    whole = factors if isinstance(factors, tuple) else (factors,)
    width = PARTS.get(dtype, dtype)
    below = _eye(b, m, k, torch.uint8)
    below = g.Cast(g.Sub(_triangle(b, b.zeros([m, k], torch.uint8, 1), False), below), to="bool")
    zero = b.constant(0, width)
    lower = [g.Where(below, cut(part, m, k), zero) for part in whole]
    lower[0] = g.Add(lower[0], g.Cast(_eye(b, m, k, torch.uint8), to=DTYPES[width]))
    upper = [_triangle(b, cut(part, k, n), True) for part in whole]
    return [tuple(parts) if len(parts) == 2 else parts[0] for parts in (lower, upper)]


def _permutation(b, pivots, batch, m, dtype):
    """P of A = P L U: row order[j] of A is row j of L U."""
    g = b.graph
    (order,) = _called(b, "row_order", [pivots], [(torch.int64, (*batch, m))], len(batch), rows=m)
    rows = b.reshape(g.constant(numpy.arange(m, dtype="int64")), [m, 1])
    width = PARTS.get(dtype, dtype)
    real = g.Cast(g.Equal(rows, b.reshape(order, [*batch, 1, m])), to=DTYPES[width])
    return real if width == dtype else (real, b.zeros([*batch, m, m], width))


@_linear("linalg_lu")
def lu(b, x, *, pivot=True):
    if not pivot:
        raise Unsupported("a factorisation without pivots")
    batch, m, n = _extents(x)
    factors, pivots, _ = _lu(b, x)
    return _permutation(b, pivots, batch, m, x.dtype), *_unpacked(b, factors, m, n, x.dtype)


@_linear("lu_unpack")
def lu_unpack(b, x, pivots, unpack_data=True, unpack_pivots=True):
    batch, m, n = _extents(x)
    made = [_permutation(b, pivots.value, batch, m, x.dtype) if unpack_pivots else _nothing(b, 0)]
    return made + (_unpacked(b, _value(x), m, n, x.dtype) if unpack_data else [_nothing(b, 1), _nothing(b, 2)])


def _nothing(b, index):
    """A result that torch leaves empty."""
    fake = b.out[index]
    zeros = b.zeros(fake.shape, PARTS.get(fake.dtype, fake.dtype))
    return (zeros, zeros) if fake.is_complex() else zeros


def _solved(b, factors, pivots, right, dtype, batch, n, columns, *, left, transposed):
    """x of a x = right, or of x a = right: values of shape [*batch, n, columns], or with rows and columns swapped."""
    rank = len(batch) + 2
    if not left:  # aᴴ xᴴ = rightᴴ
        right = _swapped(b, right, rank, conjugate=True)
        transposed = not transposed
    factors = _expanded(b, factors, [*batch, n, n])
    pivots = b.graph.Expand(pivots, b.dims([*batch, n]))
    output = [(dtype, (*batch, n, columns))]
    (made,) = _called(b, "lu_solve", [factors, pivots, right], output, len(batch), transposed=transposed)
    return made if left else _swapped(b, made, rank, conjugate=True)


@_linear("linalg_lu_solve")
def lu_solve(b, x, pivots, right, *, left=True, adjoint=False):
    batch = tuple(b.out.shape[:-2])
    n, columns = x.shape[-1], b.out.shape[-1] if left else b.out.shape[-2]
    value = _expanded(b, _value(right), b.out.shape)
    return _solved(b, _value(x), pivots.value, value, x.dtype, batch, n, columns, left=left, transposed=adjoint)


@_linear("_linalg_solve_ex")
def solve(b, x, right, *, left=True, check_errors=False):
    factors, pivots, info, turned = _lu_as_kept(b, x)
    if check_errors:
        _check_info(b, info, "linalg.solve")
    n, shape = x.shape[-1], tuple(b.out[0].shape)
    is_vector = right.rank == 1 or (x.rank - 1 == right.rank and right.shape == x.shape[:-1])
    batch = shape[:-1] if is_vector else shape[:-2]
    columns = 1 if is_vector else shape[-1] if left else shape[-2]
    whole = (*batch, n, 1) if is_vector else shape
    value = _value(right)
    if is_vector:
        value = _each(b, value, lambda part: b.graph.Unsqueeze(part, b.integers([right.rank])))
    value = _expanded(b, value, whole)
    made = _solved(b, factors, pivots, value, x.dtype, batch, n, columns, left=left or is_vector, transposed=turned)
    if is_vector:
        made = _each(b, made, lambda part: b.reshape(part, shape))
    return made, factors, pivots, info


@_linear("linalg_inv_ex")
def inverse(b, x, *, check_errors=False):
    batch, n, _ = _extents(x)
    factors, pivots, info = _lu(b, x)
    if check_errors:
        _check_info(b, info, "linalg.inv")
    eye = b.graph.Cast(_eye(b, n, n, torch.uint8), to=DTYPES[PARTS.get(x.dtype, x.dtype)])
    eye = (eye, b.zeros([n, n], PARTS[x.dtype])) if isinstance(x, Complex) else eye
    eye = _expanded(b, eye, [*batch, n, n])
    return _solved(b, factors, pivots, eye, x.dtype, batch, n, n, left=True, transposed=False), info


def _diagonal(b, value, batch, n):
    g = b.graph
    flat = b.reshape(value, [*batch, n * n])
    return g.Slice(flat, b.integers([0]), b.integers([n * n]), b.integers([-1]), b.integers([n + 1]))


def _sign_of_pivots(b, pivots, n, dtype):
    g = b.graph
    moved = g.Not(g.Equal(pivots, g.constant(numpy.arange(1, n + 1, dtype="int32"))))
    return g.ReduceProd(g.Where(moved, b.constant(-1, dtype), b.constant(1, dtype)), b.integers([-1]), keepdims=0)


@translates("_linalg_det")
def determinant(b, x):
    batch, n, _ = _extents(x)
    factors, pivots, _, _ = _lu_as_kept(b, x)
    product = b.graph.ReduceProd(_diagonal(b, factors, batch, n), b.integers([-1]), keepdims=0)
    return b.graph.Mul(product, _sign_of_pivots(b, pivots, n, x.dtype)), factors, pivots


@translates("_linalg_slogdet")
def sign_and_log_of_determinant(b, x):
    g, (batch, n, _) = b.graph, _extents(x)
    factors, pivots, _, _ = _lu_as_kept(b, x)
    diagonal, last = _diagonal(b, factors, batch, n), b.integers([-1])
    sign = g.Mul(g.ReduceProd(g.Sign(diagonal), last, keepdims=0), _sign_of_pivots(b, pivots, n, x.dtype))
    return sign, g.ReduceSum(g.Log(g.Abs(diagonal)), last, keepdims=0), factors, pivots


# --- Cholesky, LDL, triangles


def _cholesky(b, x, upper):
    _refuse_narrow(x)
    batch, n, _ = _extents(x)
    outputs = [(x.dtype, (*batch, n, n)), (torch.int32, batch)]
    return _called(b, "cholesky", [_value(x)], outputs, len(batch), lower=not upper)


@_linear("linalg_cholesky_ex")
def cholesky(b, x, *, upper=False, check_errors=False):
    made = _cholesky(b, x, upper)
    if check_errors:
        _check_info(b, made[1], "linalg.cholesky_ex")
    return made


def _triangular(b, a, right, shape, dtype, *, lower, transposed=False, unit=False):
    """x of a x = right, or of aᵀ x = right, with leading dims that agree."""
    batch = tuple(shape[:-2])
    (made,) = _called(b, "solve_triangular", [a, right], [(dtype, tuple(shape))], len(batch), lower=lower,
                      transposed=transposed, unit=unit)  # fmt: skip
    return made


@_linear("linalg_solve_triangular")
def solve_triangular(b, x, right, *, upper, left=True, unitriangular=False):
    _refuse_narrow(x)
    shape = tuple(b.out.shape)
    n = x.shape[-1]
    a, value = _expanded(b, _value(x), [*shape[:-2], n, n]), _expanded(b, _value(right), shape)
    if left:
        return _triangular(b, a, value, shape, x.dtype, lower=not upper, unit=unitriangular)
    turned = _swapped(b, value, len(shape))  # x a = right is aᵀ xᵀ = rightᵀ
    made = _triangular(b, a, turned, (*shape[:-2], shape[-1], shape[-2]), x.dtype, lower=not upper, transposed=True,
                       unit=unitriangular)  # fmt: skip
    return _swapped(b, made, len(shape))


@translates("triangular_solve")
def triangular_solve(b, right, x, upper=True, transpose=False, unitriangular=False):
    _refuse_narrow(x)
    shape = tuple(b.out[0].shape)
    a = _expanded(b, x.value, b.out[1].shape)
    value = _expanded(b, right.value, shape)
    return _triangular(b, a, value, shape, x.dtype, lower=not upper, transposed=transpose, unit=unitriangular), a


def _solved_by_cholesky(b, factor, right, shape, dtype, upper):
    """x of L Lᵀ x = right, or of Uᵀ U x = right."""
    first = _triangular(b, factor, right, shape, dtype, lower=not upper, transposed=upper)
    return _triangular(b, factor, first, shape, dtype, lower=not upper, transposed=not upper)


@translates("cholesky_solve")
def cholesky_solve(b, right, factor, upper=False):
    _refuse_narrow(right)
    shape, n = tuple(b.out.shape), factor.shape[-1]
    value = _expanded(b, factor.value, [*shape[:-2], n, n])
    return _solved_by_cholesky(b, value, _expanded(b, right.value, shape), shape, right.dtype, upper)


@translates("cholesky_inverse")
def cholesky_inverse(b, factor, upper=False):
    _refuse_narrow(factor)
    eye = b.graph.Cast(_eye(b, factor.shape[-1], factor.shape[-1], torch.uint8), to=DTYPES[factor.dtype])
    eye = _expanded(b, eye, factor.shape)
    return _solved_by_cholesky(b, factor.value, eye, factor.shape, factor.dtype, upper)


@_linear("linalg_ldl_factor_ex")
def ldl_factor(b, x, *, hermitian=False, check_errors=False):
    _refuse_narrow(x)
    batch, n, _ = _extents(x)
    outputs = [(x.dtype, (*batch, n, n)), (torch.int32, (*batch, n)), (torch.int32, batch)]
    made = _called(b, "ldl_factor", [_value(x)], outputs, len(batch), hermitian=hermitian)
    if check_errors:
        _check_info(b, made[2], "torch.linalg.ldl_factor_ex")
    return made


@_linear("linalg_ldl_solve")
def ldl_solve(b, factors, pivots, right, *, hermitian=False):
    shape, n = tuple(b.out.shape), factors.shape[-1]
    batch = shape[:-2]
    inputs = [_expanded(b, _value(factors), [*batch, n, n]), b.graph.Expand(pivots.value, b.dims([*batch, n])),
              _expanded(b, _value(right), shape)]  # fmt: skip
    return _called(b, "ldl_solve", inputs, [(factors.dtype, shape)], len(batch), hermitian=hermitian)[0]


# --- QR


@_linear("geqrf")
def geqrf(b, x):
    _refuse_narrow(x)
    return _called(b, "geqrf", [_value(x)], list(map(_like, b.out)), x.rank - 2)


@_linear("linalg_qr")
def qr(b, x, mode="reduced"):
    _refuse_narrow(x)
    outputs = list(map(_like, b.out))
    if mode == "r":
        return _nothing(b, 0), *_called(b, "qr", [_value(x)], outputs[1:], x.rank - 2, mode=mode)
    return _called(b, "qr", [_value(x)], outputs, x.rank - 2, mode=mode)


@_linear("linalg_householder_product")
def householder_product(b, x, taus):
    _refuse_narrow(x)
    return _called(b, "householder_product", [_value(x), _value(taus)], [_like(b.out)], x.rank - 2)[0]


@_linear("ormqr")
def multiply_by_q(b, x, taus, right, left=True, transpose=False):
    _refuse_narrow(x)
    inputs = [_value(x), _value(taus), _value(right)]
    return _called(b, "multiply_by_q", inputs, [_like(b.out)], x.rank - 2, left=left, transposed=transpose)[0]


# --- eigenvalues and singular values


def _eigh(b, x, lower):
    """Eigenvalues, vectors."""
    _refuse_narrow(x)
    batch, n, _ = _extents(x)
    width = PARTS.get(x.dtype, x.dtype)
    vectors, values = _called(b, "eigh", [_value(x)], [(x.dtype, (*batch, n, n)), (width, (*batch, n))], len(batch), lower=lower)
    _fails_where(b, _is_nan(b, values), "linalg.eigh: The algorithm failed to converge.")
    return values, vectors


@_linear("_linalg_eigh")
def eigh(b, x, UPLO="L", compute_v=True):
    values, vectors = _eigh(b, x, UPLO in "Ll")
    return values, vectors if compute_v else _nothing(b, 1)


@_linear("linalg_eig")
def eig(b, x):
    _refuse_narrow(x)
    values, vectors = _called(b, "eig", [_value(x)], list(map(_like, b.out)), x.rank - 2, left=False, right=True)
    _fails_where(b, _is_nan(b, values), "linalg.eig: The algorithm failed to converge.")
    return values, vectors


def _svd(b, x, full_matrices=False, compute_uv=True):
    """Singular values; with compute_uv U and Vᴴ, too."""
    _refuse_narrow(x)
    batch, m, n = _extents(x)
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    outputs = [(PARTS.get(x.dtype, x.dtype), (*batch, k))]
    outputs += [(x.dtype, (*batch, m, rows)), (x.dtype, (*batch, columns, n))] * compute_uv
    made = _called(b, "svd", [_value(x)], outputs, len(batch), full_matrices=full_matrices, compute_uv=compute_uv, qr=False)
    _fails_where(b, _is_nan(b, made[0]), "linalg.svd: The algorithm failed to converge.")
    return made


@_linear("_linalg_svd")
def svd(b, x, full_matrices=False, compute_uv=True, *, driver=None):
    del driver  # of CUDA
    values, *bases = _svd(b, x, full_matrices, compute_uv)
    u, vh = bases or (_nothing(b, 0), _nothing(b, 2))
    return u, values, vh


def _scaled_columns(b, value, factors, rank):
    return b.graph.Mul(value, b.graph.Unsqueeze(factors, b.integers([rank - 2])))


@translates("linalg_pinv.atol_rtol_tensor")
def pseudo_inverse(b, x, *, atol=None, rtol=None, hermitian=False):
    """V diag(1 / s) Uᵀ of the singular values that lie above a tolerance; others count as zero."""
    g, rank = b.graph, x.rank
    if 0 in x.shape:
        return b.zeros(b.out.shape, x.dtype)
    if hermitian:
        values, left = _eigh(b, x, True)
        right, sizes = left, g.Abs(values)
    else:
        values, left, right = _svd(b, x)
        right, sizes = _swapped(b, right, rank), values
    largest = g.ReduceMax(sizes, b.integers([-1]), keepdims=1)
    default = b.constant(torch.finfo(x.dtype).eps * max(x.shape[-2:]), x.dtype)
    least = g.Unsqueeze(b.as_type(atol, x.dtype), b.integers([atol.rank])) if atol is not None else b.constant(0, x.dtype)
    if rtol is not None:
        relative = g.Unsqueeze(b.as_type(rtol, x.dtype), b.integers([rtol.rank]))
    elif atol is not None:
        relative = g.Where(g.Greater(least, b.constant(0, x.dtype)), b.constant(0, x.dtype), default)
    else:
        relative = default
    counts = g.Greater(sizes, g.Max(least, g.Mul(relative, largest)))
    inverses = g.Where(counts, g.Reciprocal(values), b.constant(0, x.dtype))
    return g.MatMul(_scaled_columns(b, right, inverses, rank), _swapped(b, left, rank))


@translates("linalg_polar")
def polar(b, x):
    g = b.graph
    values, u, vh = _svd(b, x)
    v = _swapped(b, vh, x.rank)
    return g.MatMul(u, vh), g.MatMul(_scaled_columns(b, v, values, x.rank), vh)


@translates("linalg_matrix_sqrth")
def square_root(b, x):
    values, vectors = _eigh(b, x, True)
    return b.graph.MatMul(_scaled_columns(b, vectors, b.graph.Sqrt(values), x.rank), _swapped(b, vectors, x.rank))


@_linear("linalg_matrix_exp")
def exponential(b, x):
    _refuse_narrow(x)
    return _called(b, "exponential", [_value(x)], [_like(b.out)], x.rank - 2)[0]


# --- errors


_FAILURES = {
    "inv": "The inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite.",
    "eig": "The algorithm failed to converge.",
    "svd": "The algorithm failed to converge.",
    "lstsq": "The least squares problem could not be solved because the input matrix does not have full rank.",
    "lu_factor": "U has a zero on its diagonal, and using it on lu_solve would result in a division by zero.",
    "ldl_factor": "D has a zero on its diagonal, and using it on ldl_solve would result in a division by zero.",
}


def _check_info(b, info, name):
    """Raises, as eager mode does, where LAPACK's info of any matrix is not 0."""
    text = next((text for key, text in _FAILURES.items() if key in name), "LAPACK failed.")
    _fails_where(b, b.graph.Not(b.graph.Equal(info, b.constant(0, torch.int32))), f"{name}: {text}")


@translates("higher_order::with_effects")
def with_effects(b, token, op, *args, **kwargs):
    """Of the operators that have effects, those that check what LAPACK says."""
    if op is not torch.ops.aten._linalg_check_errors.default or token is not TOKEN:
        raise Unsupported(f"{op}, which has an effect")
    info, name = args
    del kwargs
    _check_info(b, info.value, name)
    return [token]


@translates("_linalg_check_errors")
def check_errors(b, info, api_name, *, is_matrix):
    del is_matrix
    _check_info(b, info.value, api_name)
