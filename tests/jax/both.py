"""Functions of JAX on Fettle and on JAX's own CPU client, in one process."""

import os

os.environ["JAX_PLATFORMS"] = "fettle,cpu"

import jax
import numpy as np

# Where rounding may differ: of the largest element, and of each.
TOLERANCE = {"float64": 1e-12, "complex128": 1e-12, "float32": 1e-5, "complex64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


def on(platform, function, *arguments):
    """The function's results as numpy arrays, jitted on a platform."""
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        results = jax.jit(function)(*jax.device_put(arguments, device))
    leaves = jax.tree.leaves(results)
    assert all(leaf.devices() == {device} for leaf in leaves), (platform, [leaf.devices() for leaf in leaves])
    return jax.tree.map(np.asarray, results)


def assert_same(actual, expected):
    """Integers as they are, floats within what rounding may do."""
    actual, structure = jax.tree.flatten(actual)
    expected, other = jax.tree.flatten(expected)
    assert structure == other, (structure, other)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape, b.dtype, b.shape)
        tolerance = TOLERANCE.get(a.dtype.name)
        if tolerance is None or a.size == 0:
            np.testing.assert_array_equal(a, b)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            a, b = a.astype(wide), b.astype(wide)
            finite = np.abs(b[np.isfinite(b)])
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * (finite.max() if finite.size else 0))


def check(function, *arguments):
    assert_same(on("fettle", function, *arguments), on("cpu", function, *arguments))
