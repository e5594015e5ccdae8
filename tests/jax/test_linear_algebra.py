"""JAX's linear algebra on Fettle beside JAX's CPU client: what is not unique is compared by what it makes up."""

import unittest

from both import assert_same, check, jax, np, on  # noqa: I001: it says which platforms there are

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

    def test_eigh(self):
        for dtype in (np.float32, np.complex64):
            a = matrices(2, 5, 5, dtype=dtype)
            a = a + a.conj().swapaxes(-1, -2)
            w, v = on("fettle", jnp.linalg.eigh, a)
            assert_same(w, on("cpu", jnp.linalg.eigh, a)[0])
            np.testing.assert_allclose((v * w[..., None, :]) @ v.conj().swapaxes(-1, -2), a, atol=1e-4)

    def test_svd(self):
        for shape in ((5, 3), (2, 3, 5)):
            a = matrices(*shape)
            for full in (True, False):
                u, s, vt = on("fettle", lambda x, full=full: jnp.linalg.svd(x, full_matrices=full), a)
                k = s.shape[-1]
                np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a, atol=1e-5)
            check(lambda x: jnp.linalg.svd(x, compute_uv=False), a)

    def test_eig(self):
        a = matrices(4, 4)
        w, v = on("fettle", jnp.linalg.eig, a)
        np.testing.assert_allclose(a @ v, v * w, atol=1e-5)

    def test_schur_and_hessenberg(self):
        a = matrices(5, 5)
        t, q = on("fettle", lax.linalg.schur, a)
        np.testing.assert_allclose(q @ t @ q.T, a, atol=1e-5)
        check(lax.linalg.hessenberg, a)

    def test_tridiagonal(self):
        a = matrices(5, 5)
        check(lambda x: lax.linalg.tridiagonal(x, lower=True), a + a.T)
        d = matrices(3, 6)
        check(lax.linalg.tridiagonal_solve, d, d + 4, d, matrices(3, 6, 2))

    def test_gradients(self):
        a = matrices(4, 4)
        check(jax.grad(lambda x: jnp.linalg.eigh(x @ x.T + jnp.eye(4))[0].sum()), a)

    def test_no_result_is_nan(self):
        a = np.full((3, 3), np.nan, np.float32)
        self.assertTrue(np.isnan(on("fettle", lambda x: jnp.linalg.svd(x, compute_uv=False), a)).all())

    def test_empty_batches(self):
        check(jnp.linalg.solve, matrices(0, 3, 3), matrices(0, 3, 1))

    def test_what_is_not_there_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "spectrum"):
            on("fettle", lambda x: lax.linalg.eigh(x, subset_by_index=(0, 2)), matrices(4, 4))


if __name__ == "__main__":
    unittest.main()
