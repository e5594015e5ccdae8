"""JAX's linear algebra: what it leaves to LAPACK on a CPU, by SciPy's LAPACK here, too.

Each function takes arrays with any leading dims, as jax.lax.linalg has its primitives. Where LAPACK finds no result, all
of a matrix is NaN.
"""

import functools
import math

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .host_calls import host_call, register

__all__ = ["register_lowerings"]


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
        return [np.stack(column).reshape(*shape, *column[0].shape) for column in zip(*rows, strict=True)]

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


_FUNCTIONS = (eigh, eig, svd, lu, geqrf, geqp3, householder_product, schur, hessenberg, tridiagonal, tridiagonal_solve)


def _whole(subset, n):
    if subset is not None and tuple(subset) != (0, n):
        raise NotImplementedError("a part of the spectrum, on platform fettle")


def _eigh_parameters(context, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    del sort_eigenvalues  # LAPACK always sorts
    _whole(subset_by_index, context.avals_in[0].shape[-1])
    if algorithm is not None and algorithm.name != "QR":
        raise NotImplementedError(f"eigh by {algorithm.name}, on platform fettle")
    return {"lower": bool(lower)}


def _eig_parameters(context, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    return {"left": bool(compute_left_eigenvectors), "right": bool(compute_right_eigenvectors)}


def _svd_parameters(context, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    _whole(subset_by_index, min(context.avals_in[0].shape[-2:]))
    if algorithm is not None and algorithm.name not in ("DEFAULT", "QR", "DIVIDE_AND_CONQUER"):
        raise NotImplementedError(f"svd by {algorithm.name}, on platform fettle")
    return {"full_matrices": bool(full_matrices), "compute_uv": bool(compute_uv),
            "qr": algorithm is not None and algorithm.name == "QR"}  # fmt: skip


def _schur_parameters(context, *, compute_schur_vectors, sort_eig_vals, select_callable):
    del select_callable
    if sort_eig_vals:
        raise NotImplementedError("schur with sorted eigenvalues, on platform fettle")
    return {"vectors": bool(compute_schur_vectors)}


def _tridiagonal_solve_parameters(context, *, perturb_singular):
    if perturb_singular:
        raise NotImplementedError("tridiagonal_solve that perturbs singular matrices, on platform fettle")
    return {}


def _lowering(name, parameters_of):
    rank = 1 if name == "tridiagonal_solve" else 2  # of the first operand, without leading dims

    def rule(context, *operands, **parameters):
        kept = {"batch": len(context.avals_in[0].shape) - rank, **parameters_of(context, **parameters)}
        return host_call(context, f"linalg.{name}", operands, kept)

    return rule


def register_lowerings():
    """Tells JAX what its primitives become on platform fettle."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    parameters = {
        "eigh": _eigh_parameters, "eig": _eig_parameters, "svd": _svd_parameters, "schur": _schur_parameters,
        "tridiagonal": lambda context, *, lower: {"lower": bool(lower)},
        "tridiagonal_solve": _tridiagonal_solve_parameters,
    }  # fmt: skip
    for function in _FUNCTIONS:
        name = function.__name__
        register(f"linalg.{name}", _batched(function))
        rule = _lowering(name, parameters.get(name, lambda context, **_: {}))
        mlir.register_lowering(getattr(linalg, f"{name}_p"), rule, platform="fettle")
