"""Primitives that JAX leaves to XLA's own calls, as programs of StableHLO's operators."""

__all__ = ["register_lowerings"]


def _approx_top_k(operand, *, k, reduction_dimension, is_max_k, aggregate_to_topk, **_):
    """The exact result, which is as good as an approximate one can be."""
    from jax import lax, numpy as jnp

    if not aggregate_to_topk:
        raise NotImplementedError("approx_top_k without aggregate_to_topk, on platform fettle")
    x = jnp.moveaxis(operand, reduction_dimension, -1)
    values, indices = lax.top_k(x if is_max_k else -x, k)
    values = values if is_max_k else -values
    return jnp.moveaxis(values, -1, reduction_dimension), jnp.moveaxis(indices, -1, reduction_dimension)


def _geqrf(a):
    """Householder's reflectors, as LAPACK's geqrf has them: R above, the vectors below the diagonal."""
    from jax import lax, numpy as jnp

    m, n = a.shape[-2:]
    rows, columns = jnp.arange(m), jnp.arange(n)

    def reflect(j, state):
        a, taus = state
        column = jnp.take(a, j, axis=1)
        alpha, below = jnp.take(column, j), jnp.where(rows > j, column, 0)
        norm = jnp.sqrt(jnp.sum(jnp.abs(below) ** 2))
        real, is_done = jnp.real(alpha), (norm == 0) & (jnp.imag(alpha) == 0)
        beta = -jnp.copysign(jnp.hypot(jnp.abs(alpha), norm), real)
        safe = jnp.where(is_done, 1, beta)
        tau = jnp.where(is_done, 0, (safe - alpha) / safe).astype(a.dtype)
        below = below / jnp.where(is_done, 1, alpha - safe)
        v = jnp.where(rows == j, 1, below).astype(a.dtype)
        turned = a - jnp.conj(tau) * jnp.outer(v, jnp.conj(v) @ a)
        column = jnp.where(rows == j, jnp.where(is_done, alpha, beta), jnp.where(rows > j, below, column)).astype(a.dtype)
        a = jnp.where(columns > j, turned, jnp.where(columns == j, column[:, None], a))
        return a, jnp.where(jnp.arange(taus.size) == j, tau, taus)

    return lax.fori_loop(0, min(m, n), reflect, (a, jnp.zeros(min(m, n), a.dtype)))


def _householder_product(a, taus):
    """The first columns of the reflectors' product, as LAPACK's orgqr has them."""
    from jax import lax, numpy as jnp

    m, n = a.shape[-2:]
    rows, k = jnp.arange(m), taus.shape[-1]

    def reflect(i, q):
        j = k - 1 - i
        v = jnp.where(rows == j, 1, jnp.where(rows > j, jnp.take(a, j, axis=1), 0)).astype(a.dtype)
        return q - jnp.take(taus, j) * jnp.outer(v, jnp.conj(v) @ q)

    return lax.fori_loop(0, k, reflect, jnp.eye(m, n, dtype=a.dtype))


def _of_matrices(function):
    """The same of arrays with leading dims."""
    import jax

    def run(*operands):
        mapped = function
        for _ in range(operands[0].ndim - 2):
            mapped = jax.vmap(mapped)
        return mapped(*operands)

    return run


def register_lowerings():
    """Tells JAX what these primitives become on platform fettle."""
    from jax._src.interpreters import mlir
    from jax._src.lax import ann, linalg

    for primitive, function in (
        (ann.approx_top_k_p, _approx_top_k),
        (linalg.geqrf_p, _of_matrices(_geqrf)),
        (linalg.householder_product_p, _of_matrices(_householder_product)),
    ):
        rule = mlir.lower_fun(function, multiple_results=primitive.multiple_results)
        mlir.register_lowering(primitive, rule, platform="fettle")
