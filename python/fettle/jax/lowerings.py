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


def register_lowerings():
    """Tells JAX what these primitives become on platform fettle."""
    from jax._src.interpreters import mlir
    from jax._src.lax import ann

    mlir.register_lowering(ann.approx_top_k_p, mlir.lower_fun(_approx_top_k, multiple_results=True), platform="fettle")
