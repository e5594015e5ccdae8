"""A sample of the programs, as files, with what JAX's CPU client gives: for machines without JAX."""

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "stored"
SEED = 20
# Of the largest element: sums are in another order, and functions are others' polynomials.
TOLERANCE = {"float64": 1e-10, "float32": 2e-4, "float16": 5e-3, "bfloat16": 3e-2}


def stored_calls(calls):
    """Arrays by names of (arguments, results) of each call."""
    return {
        f"{what}{i}{f'.{k}' if k else ''}": array
        for k, call in enumerate(calls)
        for what, arrays in zip(("in", "out"), call, strict=True)
        for i, array in enumerate(arrays)
    }


def calls_of(stored):
    """The same, from such arrays."""

    def arrays(what, k):
        suffix = f".{k}" if k else ""
        names = [f"{what}{i}{suffix}" for i in range(len(stored.files))]
        return [stored[name] for name in names if name in stored.files]

    k = 0
    while expected := arrays("out", k):
        yield arrays("in", k), expected
        k += 1


def assert_close(actual, expected):
    """Integers as they are, floats within what rounding may do."""
    assert len(actual) == len(expected), (len(actual), len(expected))
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        a = np.asarray(a)
        assert a.dtype == b.dtype and a.shape == b.shape, (i, a.dtype, a.shape, b.dtype, b.shape)
        tolerance = TOLERANCE.get(b.dtype.name)
        if tolerance is None:
            np.testing.assert_array_equal(a, b, err_msg=f"result {i}")
        elif b.size:
            a, b = a.astype(np.float64), b.astype(np.float64)
            finite = np.abs(b[np.isfinite(b)])
            largest = finite.max() if finite.size else 0
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * largest, err_msg=f"result {i}")
