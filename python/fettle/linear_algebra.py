"""Linear algebra that compiled models leave to SciPy's LAPACK, as host calls: `linalg.eigh` is `eigh` below.

Each function takes matrices, and a call has any leading dims. Those that return no `info` of LAPACK give NaN for all of
a matrix where LAPACK finds no result.
"""

import functools
import math

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .host_calls import register

__all__ = ["FUNCTIONS", "register_functions"]


def _batched(function):
    """`function` of matrices as one of arrays with `batch` leading dims."""

    @functools.wraps(function)
    def run(*operands, batch, **parameters):
        shape = operands[0].shape[:batch]
        count = math.prod(shape)
        if count == 0:
            return None
        flat = [operand.reshape(count, *operand.shape[batch:]) for operand in operands]
        rows = [function(*matrices, **parameters) for matrices in zip(*flat, strict=True)]
        return [np.stack(column).reshape((*shape, *column[0].shape)) for column in zip(*rows, strict=True)]

    return run


def _lapack(name, *arrays):
    """The routine for these arrays' type."""
    return lapack.get_lapack_funcs(name, arrays)


def _nan(array):
    return np.full_like(array, complex(np.nan, np.nan) if array.dtype.kind == "c" else np.nan)


def _or_nan(info, *arrays):
    return arrays if info == 0 else tuple(map(_nan, arrays))


def eigh(a, *, lower):
    if a.size == 0:
        return a, np.empty(a.shape[:1], a.real.dtype)
    prefix = "he" if a.dtype.kind == "c" else "sy"
    w, v, info = _lapack(f"{prefix}evd", a)(a, lower=lower)
    return _or_nan(info, v, w)


def eig(a, *, left, right):
    complex_dtype = np.result_type(a.dtype, np.complex64)
    try:
        if a.size == 0:
            w, vl, vr = np.empty(a.shape[:1]), a, a
        else:
            w, vl, vr = scipy.linalg.eig(a, left=True, right=True)
    except (scipy.linalg.LinAlgError, ValueError):
        w, vl, vr = (_nan(np.empty(shape, complex_dtype)) for shape in (a.shape[:1], a.shape, a.shape))
    return [array.astype(complex_dtype) for array in (w, *([vl] if left else []), *([vr] if right else []))]


def svd(a, *, full_matrices, compute_uv, qr):
    m, n = a.shape
    real = a.real.dtype
    if m == 0 or n == 0:
        s, u, vt = np.empty(0, real), np.eye(m, m if full_matrices else 0, dtype=a.dtype), np.eye(n, dtype=a.dtype)
        vt = vt if full_matrices else vt[:0]
    else:
        u, s, vt, info = _lapack("gesvd" if qr else "gesdd", a)(a, compute_uv=compute_uv, full_matrices=full_matrices)
        s, u, vt = _or_nan(info, s, u, vt)
    return (s, u, vt) if compute_uv else (s,)


def lu(a):
    m, n = a.shape
    if m == 0 or n == 0:
        return a, np.empty(0, np.int32), np.arange(m, dtype=np.int32)
    factors, pivots, info = _lapack("getrf", a)(a)
    order = np.arange(m, dtype=np.int32)
    for i, pivot in enumerate(pivots):
        order[[i, pivot]] = order[[pivot, i]]
    return factors if info >= 0 else _nan(factors), pivots.astype(np.int32), order


def geqrf(a):
    if a.size == 0:
        return a, np.zeros(min(a.shape), a.dtype)
    factors, taus, _, _ = _lapack("geqrf", a)(a)
    return factors, taus


def geqp3(a, pivots):
    if a.size == 0:
        return a, np.arange(1, a.shape[1] + 1, dtype=np.int32), np.zeros(min(a.shape), a.dtype)
    if pivots.any():
        raise NotImplementedError("geqp3 with columns that come first")
    factors, pivots, taus, _, _ = _lapack("geqp3", a)(a)
    return factors, pivots.astype(np.int32), taus


def householder_product(a, taus):
    if a.size == 0:
        return (a,)
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    m, n = a.shape
    q, _, _ = _lapack(name, a)(a, taus)
    return (q,)


def schur(a, *, vectors):
    try:
        form, basis = (a, a) if a.size == 0 else scipy.linalg.schur(a, output="complex" if a.dtype.kind == "c" else "real")
    except (scipy.linalg.LinAlgError, ValueError):
        form = basis = _nan(a)
    return (form, basis) if vectors else (form,)


def hessenberg(a):
    n = a.shape[0]
    if n < 2:
        return a, np.zeros(max(n - 1, 0), a.dtype)
    factors, taus, info = _lapack("gehrd", a)(a)
    return _or_nan(info, factors, taus)


def tridiagonal(a, *, lower):
    if a.shape[0] == 1:
        return a, a[0].real, np.zeros(0, a.real.dtype), np.zeros(0, a.dtype)
    name = "hetrd" if a.dtype.kind == "c" else "sytrd"
    factors, d, e, taus, info = _lapack(name, a)(a, lower=lower)
    return _or_nan(info, factors, d, e, taus)


def tridiagonal_solve(dl, d, du, b):
    if b.size == 0:
        return (b,)
    if d.size == 1:
        return (b / d,)
    *_, x, info = _lapack("gtsv", d, b)(dl[1:], d, du[:-1], b)
    return _or_nan(info, x)


def _info(value):
    return np.int32(value)


def lu_factor(a):
    """Factors, pivots counted from 1, info."""
    m, n = a.shape
    if m == 0 or n == 0:
        return a, np.empty(0, np.int32), _info(0)
    factors, pivots, info = _lapack("getrf", a)(a)
    return factors, pivots.astype(np.int32) + np.int32(1), _info(info)


def row_order(pivots, *, rows):
    """Which row of the matrix is row i of the product of its factors; pivots count from 1."""
    order = np.arange(rows, dtype=np.int64)
    for i, pivot in enumerate(pivots - 1):
        order[[i, pivot]] = order[[pivot, i]]
    return (order,)


def lu_solve(factors, pivots, b, *, transposed):
    """x of a x = b, or of aᴴ x = b."""
    if b.size == 0:
        return (b,)
    trans = (2 if factors.dtype.kind == "c" else 1) if transposed else 0
    x, _ = _lapack("getrs", factors, b)(factors, pivots - 1, b, trans=trans)
    return (x,)


def cholesky(a, *, lower):
    """The factor, info."""
    if a.size == 0:
        return a, _info(0)
    factor, info = _lapack("potrf", a)(a, lower=lower, clean=True)
    return factor, _info(info)


def solve_triangular(a, b, *, lower, transposed, unit):
    """x of a x = b, or of aᵀ x = b."""
    if b.size == 0:
        return (b,)
    x, info = _lapack("trtrs", a, b)(a, b, lower=lower, trans=int(transposed), unitdiag=unit)
    if info > 0:  # LAPACK stops at a zero of the diagonal
        with np.errstate(all="ignore"):
            x = _substituted(a.T if transposed else a, b, lower != transposed)
    return (x,)


def _substituted(a, b, lower):
    """By rows, where a division by zero gives what it gives."""
    x = np.array(b)
    order = range(len(a)) if lower else reversed(range(len(a)))
    for i in order:
        known = slice(0, i) if lower else slice(i + 1, None)
        x[i] = (x[i] - a[i, known] @ x[known]) / a[i, i]
    return x


def ldl_factor(a, *, hermitian):
    """Factors, pivots as LAPACK has them, info."""
    if a.size == 0:
        return a, np.empty(0, np.int32), _info(0)
    name = "hetrf" if hermitian and a.dtype.kind == "c" else "sytrf"
    factors, pivots, info = _lapack(name, a)(a, lower=True)
    return np.tril(factors), pivots.astype(np.int32), _info(info)


def ldl_solve(factors, pivots, b, *, hermitian):
    if b.size == 0:
        return (b,)
    name = "hetrs" if hermitian and factors.dtype.kind == "c" else "sytrs"
    x, _ = _lapack(name, factors, b)(factors, pivots, b, lower=True)
    return (x,)


def qr(a, *, mode):
    """q and r of mode "reduced" or "complete"; r alone of mode "r"."""
    m, n = a.shape
    rows = m if mode == "complete" else min(m, n)
    factors, taus = geqrf(a)
    r = np.triu(factors)[:rows]
    if mode == "r":
        return (r,)
    if a.size == 0:
        return np.eye(m, rows, dtype=a.dtype), r
    wide = np.zeros((m, rows), a.dtype)
    wide[:, : min(rows, n)] = factors[:, :rows]
    return *householder_product(wide, taus), r


def multiply_by_q(a, taus, c, *, left, transposed):
    """q c, qᴴ c, c q or c qᴴ, of the q that `geqrf` gives the factors of."""
    if c.size == 0 or taus.size == 0:
        return (c,)
    is_complex = a.dtype.kind == "c"
    routine = _lapack("unmqr" if is_complex else "ormqr", a, c)
    arguments = ("L" if left else "R", ("C" if is_complex else "T") if transposed else "N", a[:, : len(taus)], taus, c)
    _, work, _ = routine(*arguments, lwork=-1)
    product, _, _ = routine(*arguments, lwork=int(work[0].real))
    return (product,)


def exponential(a):
    """In double precision, rounded once."""
    wide = a.astype(np.result_type(a.dtype, np.float64))
    return (scipy.linalg.expm(wide).astype(a.dtype) if a.size else a,)


# What a host call names "linalg." and the function's name.
FUNCTIONS = (eigh, eig, svd, lu, geqrf, geqp3, householder_product, schur, hessenberg, tridiagonal, tridiagonal_solve,
             lu_factor, row_order, lu_solve, cholesky, solve_triangular, ldl_factor, ldl_solve, qr, multiply_by_q, exponential)  # fmt: skip


@functools.cache
def register_functions():
    """Once."""
    for function in FUNCTIONS:
        register(f"linalg.{function.__name__}", _batched(function))
