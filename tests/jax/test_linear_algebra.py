"""JAX's linear algebra on Fettle beside JAX's CPU client."""

import unittest

from both import check, np, on  # noqa: I001: it says which platforms there are

from jax import lax, numpy as jnp

RANDOM = np.random.default_rng(0)


def matrices(*shape, dtype=np.float32):
    array = RANDOM.standard_normal(shape)
    return (array + (1j * RANDOM.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0)).astype(dtype)


class LinearAlgebra(unittest.TestCase):
    def test_solve(self):
        for dtype in (np.float32, np.complex64):
            check(jnp.linalg.solve, matrices(2, 5, 5, dtype=dtype), matrices(2, 5, 3, dtype=dtype))
        check(lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a)), matrices(4, 4))

    def test_lu(self):
        check(lax.linalg.lu, matrices(3, 5, 4))

    def test_qr(self):
        for shape in ((6, 4), (4, 6), (2, 5, 5)):
            for dtype in (np.float32, np.complex64):
                check(jnp.linalg.qr, matrices(*shape, dtype=dtype))

    def test_cholesky(self):
        a = matrices(4, 4)
        check(jnp.linalg.cholesky, a @ a.T + 4 * np.eye(4, dtype=np.float32))

    def test_empty_batches(self):
        check(jnp.linalg.solve, matrices(0, 3, 3), matrices(0, 3, 1))

    def test_what_is_not_there_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "eigh"):
            on("fettle", jnp.linalg.eigh, matrices(4, 4))


if __name__ == "__main__":
    unittest.main()
