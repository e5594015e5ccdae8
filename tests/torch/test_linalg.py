"""Linear algebra by LAPACK, as host calls of one compiled model: results, errors and gradients of eager mode."""

import unittest

import torch

from fettle_torch import close, compiled, statistics

STRICT = {"strict": True}


def spd(*shape):
    """Symmetric, and with eigenvalues above 1."""
    x = torch.randn(shape)
    return x @ x.mT + torch.eye(shape[-1])


class LinearAlgebra(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        statistics.reset()

    def same(self, function, *args):
        with torch.no_grad():
            close(self, compiled(function, options=STRICT)(*args), function(*args))
        self.assertEqual(statistics.refused, {})

    def test_systems_of_equations(self):
        a, b = torch.randn(2, 4, 4) + 4 * torch.eye(4), torch.randn(2, 4, 3)
        wide = torch.randn(3, 4)
        self.same(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.solve(a.mT, b), torch.linalg.inv(a[0])), a, b)
        self.same(lambda a, w: torch.linalg.solve(a, w, left=False), a, wide)
        self.same(lambda a, w: torch.linalg.solve(a[0], w[0]), a, wide)
        self.same(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), a, b)
        self.same(lambda a, w: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), w.expand(2, 3, 4), left=False, adjoint=True), a, wide)

    def test_triangles(self):
        a, b = torch.randn(2, 4, 4) + 4 * torch.eye(4), torch.randn(4, 4)
        for upper in (True, False):
            for left in (True, False):
                for unit in (True, False):
                    self.same(lambda a, b, u=upper, l=left, n=unit: torch.linalg.solve_triangular(
                        a, b, upper=u, left=l, unitriangular=n), a, b)  # fmt: skip

    def test_a_triangle_with_a_zero_gives_infinity(self):
        a = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
        self.same(lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), a, torch.ones(2, 1))

    def test_factors_multiply_to_the_matrix(self):
        a = torch.randn(3, 5, 4)

        def function(a):
            (p, l, u), (q, r) = torch.linalg.lu(a), torch.linalg.qr(a)
            whole, _ = torch.linalg.qr(a, mode="complete")
            left, s, right = torch.linalg.svd(a, full_matrices=False)
            return p @ l @ u, q @ r, whole.mT @ whole, (left * s.unsqueeze(-2)) @ right

        with torch.no_grad():
            lu, qr, eye, svd = compiled(function, options=STRICT)(a)
        close(self, (lu, qr, svd), (a, a, a))
        close(self, eye, torch.eye(5).expand(3, 5, 5))

    def test_eigenvectors(self):
        a = spd(2, 4, 4)

        def function(a, c):
            w, v = torch.linalg.eigh(a)
            values, vectors = torch.linalg.eig(c)
            return a @ v - v * w.unsqueeze(-2), torch.view_as_real(c.to(values.dtype) @ vectors - vectors * values.unsqueeze(-2))

        with torch.no_grad():
            for left in compiled(function, options=STRICT)(a, torch.randn(4, 4)):
                self.assertLess(left.abs().max(), 1e-4)

    def test_complex_matrices(self):
        a = torch.randn(3, 3, dtype=torch.complex64) + 3 * torch.eye(3)
        self.same(lambda a: torch.view_as_real(torch.linalg.solve(a, a.mH)), a)
        self.same(lambda a: (torch.linalg.svdvals(a), torch.linalg.eigvalsh(a @ a.mH)), a)

    def test_no_matrices_and_no_rows(self):
        self.same(lambda a: (torch.linalg.inv(a), torch.linalg.det(a)), torch.randn(0, 3, 3))
        self.same(lambda a: (torch.linalg.inv(a), torch.linalg.det(a)), torch.randn(2, 0, 0))

    def test_determinants(self):
        a = torch.randn(6, 5, 5)
        self.same(lambda a: (torch.linalg.det(a), *torch.linalg.slogdet(a), torch.linalg.det(a.mT)), a)

    def test_what_lapack_cannot_do_raises_as_in_eager_mode(self):
        singular, negative = torch.ones(3, 3), -torch.eye(3)
        for function, name in ((torch.linalg.inv, "linalg.inv"), (lambda a: torch.linalg.solve(a, a), "linalg.solve"),
                               (torch.linalg.cholesky, "linalg.cholesky")):  # fmt: skip
            given = negative if name == "linalg.cholesky" else singular
            with self.subTest(name), torch.no_grad():
                with self.assertRaisesRegex(torch.linalg.LinAlgError, name):
                    function(given)
                with self.assertRaisesRegex(torch.linalg.LinAlgError, name):
                    compiled(function, options=STRICT)(given)

    def test_gradients(self):
        for function in (lambda a: torch.linalg.solve(a, a.sum(0)).sum(), lambda a: torch.linalg.slogdet(a)[1].sum(),
                         lambda a: torch.linalg.cholesky(a).sum(), lambda a: torch.linalg.inv(a.mT).sum(),
                         lambda a: torch.linalg.det(a), lambda a: torch.linalg.svdvals(a).sum()):  # fmt: skip
            torch._dynamo.reset()
            given = spd(4, 4)
            one, other = (given.clone().requires_grad_() for _ in range(2))
            compiled(function, options=STRICT)(one).backward()
            function(other).backward()
            close(self, one.grad, other.grad)


if __name__ == "__main__":
    unittest.main()
