"""JAX's linear algebra: what it leaves to LAPACK on a CPU becomes host calls (`fettle.linear_algebra`)."""

from fettle.linear_algebra import register_functions

from .host_calls import host_call

__all__ = ["register_lowerings"]

_PRIMITIVES = ("eigh", "eig", "svd", "lu", "geqrf", "geqp3", "householder_product", "schur", "hessenberg", "tridiagonal",
               "tridiagonal_solve")  # fmt: skip


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
    register_functions()
    for name in _PRIMITIVES:
        rule = _lowering(name, parameters.get(name, lambda context, **_: {}))
        mlir.register_lowering(getattr(linalg, f"{name}_p"), rule, platform="fettle")
