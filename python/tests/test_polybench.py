"""The thirty programs of PolyBench as comprehensions (tests/polybench), beside loops over arrays."""

import pathlib
import unittest

import numpy

import fettle

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "polybench"
ALPHA, BETA = 1.5, 1.25


def numbers(*shape, seed=0):
    return numpy.random.default_rng(seed + 7 * len(shape) + sum(shape)).uniform(0.5, 1.5, shape)


def matrix(n, seed=0):
    """Well-conditioned, symmetric and positive definite."""
    a = numbers(n, n, seed=seed)
    return a @ a.T / n + n * numpy.eye(n)


def gemm():
    c, a, b = numbers(8, 9), numbers(8, 10), numbers(10, 9)
    return (ALPHA, BETA, c, a, b), BETA * c + ALPHA * a @ b


def two_mm():
    a, b, c, d = numbers(8, 10), numbers(10, 9), numbers(9, 11), numbers(8, 11)
    return (ALPHA, BETA, a, b, c, d), BETA * d + ALPHA * a @ b @ c


def three_mm():
    a, b, c, d = numbers(8, 10), numbers(10, 9), numbers(9, 12), numbers(12, 11)
    return (a, b, c, d), (a @ b) @ (c @ d)


def atax():
    a, x = numbers(9, 11), numbers(11)
    return (a, x), a.T @ (a @ x)


def bicg():
    a, p, r = numbers(9, 11), numbers(11), numbers(9)
    return (a, p, r), (a.T @ r, a @ p)


def mvt():
    x1, x2, y1, y2, a = numbers(9), numbers(9, seed=1), numbers(9, seed=2), numbers(9, seed=3), numbers(9, 9)
    return (x1, x2, y1, y2, a), (x1 + a @ y1, x2 + a.T @ y2)


def gemver():
    a = numbers(9, 9)
    u1, v1, u2, v2, x, y, z, w = (numbers(9, seed=k) for k in range(8))
    made = a + numpy.outer(u1, v1) + numpy.outer(u2, v2)
    x_out = x + BETA * made.T @ y + z
    return (ALPHA, BETA, a, u1, v1, u2, v2, x, y, z, w), (made, x_out, w + ALPHA * made @ x_out)


def gesummv():
    a, b, x = numbers(9, 9), numbers(9, 9, seed=1), numbers(9)
    return (ALPHA, BETA, a, b, x), ALPHA * a @ x + BETA * b @ x


def symm():
    a, b, c = numbers(8, 8), numbers(8, 9), numbers(8, 9, seed=1)
    lower = numpy.tril(a, -1)
    full = lower + lower.T + numpy.diag(numpy.diag(a))
    return (ALPHA, BETA, a, b, c), BETA * c + ALPHA * full @ b


def syrk():
    a, c = numbers(8, 9), numbers(8, 8)
    return (ALPHA, BETA, a, c), numpy.tril(BETA * c + ALPHA * a @ a.T) + numpy.triu(c, 1)


def syr2k():
    a, b, c = numbers(8, 9), numbers(8, 9, seed=1), numbers(8, 8)
    return (ALPHA, BETA, a, b, c), numpy.tril(BETA * c + ALPHA * (a @ b.T + b @ a.T)) + numpy.triu(c, 1)


def trmm():
    a, b = numbers(8, 8), numbers(8, 9)
    return (ALPHA, a, b), ALPHA * (numpy.tril(a, -1) + numpy.eye(8)).T @ b


def doitgen():
    a, c4 = numbers(5, 6, 7), numbers(7, 7)
    return (a, c4), a @ c4


def correlation():
    d = numbers(12, 7)
    x = (d - d.mean(0)) / (numpy.sqrt(12) * numpy.where(d.std(0) <= 0.1, 1, d.std(0)))
    made = x.T @ x
    numpy.fill_diagonal(made, 1)
    return (d,), made


def covariance():
    d = numbers(12, 7)
    return (d,), numpy.cov(d.T)


def cholesky():
    a = matrix(9)
    return (a,), numpy.tril(numpy.linalg.cholesky(a)) + numpy.triu(a, 1)


def durbin():
    r = numbers(9) * 0.1
    y, z = numpy.zeros(9), numpy.zeros(9)
    y[0], beta, alpha = -r[0], 1.0, -r[0]
    for k in range(1, 9):
        beta = (1 - alpha * alpha) * beta
        alpha = -(r[k] + sum(r[k - i - 1] * y[i] for i in range(k))) / beta
        z[:k] = y[:k] + alpha * y[:k][::-1]
        y[:k], y[k] = z[:k], alpha
    return (r,), y


def gramschmidt():
    a, r, q = numbers(10, 6) + numpy.eye(10, 6) * 5, numpy.zeros((6, 6)), numpy.zeros((10, 6))
    given = a.copy(), r.copy(), q.copy()
    for k in range(6):
        r[k, k] = numpy.sqrt((a[:, k] ** 2).sum())
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, 6):
            r[k, j] = q[:, k] @ a[:, j]
            a[:, j] -= q[:, k] * r[k, j]
    return given, (a, r, q)


def factored(a):
    a = a.copy()
    for i in range(len(a)):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, len(a)):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


def lu():
    a = matrix(9)
    return (a,), factored(a)


def ludcmp():
    a, b = matrix(9), numbers(9)
    made = factored(a)
    y = numpy.linalg.solve(numpy.tril(made, -1) + numpy.eye(9), b)
    return (a, b, numpy.zeros(9), numpy.zeros(9)), (made, numpy.linalg.solve(a, b), y)


def trisolv():
    a, b = numpy.tril(matrix(9)), numbers(9)
    return (a, b, numpy.zeros(9)), numpy.linalg.solve(a, b)


def deriche():
    image, (a1, a2, a3, a4, a5, a6, a7, a8), (b1, b2) = numbers(7, 9), numbers(8) * 0.3, numpy.float64([0.4, -0.2])

    def passed(x, c, d):  # along axis 1: forwards, and backwards
        n = x.shape[1]
        p, q = numpy.zeros_like(x), numpy.zeros_like(x)
        for j in range(n):
            p[:, j] = c[0] * x[:, j]
            if j > 0:
                p[:, j] += c[1] * x[:, j - 1] + b1 * p[:, j - 1]
            if j > 1:
                p[:, j] += b2 * p[:, j - 2]
        for j in range(n - 2, -1, -1):
            q[:, j] = d[0] * x[:, j + 1] + b1 * q[:, j + 1]
            if j < n - 2:
                q[:, j] += d[1] * x[:, j + 2] + b2 * q[:, j + 2]
        return p + q

    made = passed(passed(image, (a1, a2), (a3, a4)).T, (a5, a6), (a7, a8)).T
    return (image, a1, a2, a3, a4, a5, a6, a7, a8, b1, b2), made


def floyd_warshall():
    p = numpy.random.default_rng(3).integers(1, 60, (9, 9), numpy.int32)
    made = p.copy()
    for k in range(9):
        made = numpy.minimum(made, made[:, k : k + 1] + made[k : k + 1, :])
    return (p,), made


def nussinov():
    n = 10
    s, t = numpy.random.default_rng(4).integers(0, 4, n, numpy.int32), numpy.zeros((n, n), numpy.int32)
    given = t.copy()
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            t[i, j] = max(t[i, j], t[i, j - 1], t[i + 1, j])
            t[i, j] = max(t[i, j], t[i + 1, j - 1] + (i < j - 1 and s[i] + s[j] == 3))
            for k in range(i + 1, j):
                t[i, j] = max(t[i, j], t[i, k] + t[k + 1, j])
    return (s, given), t


def adi():
    n, steps = 8, 3
    u = numbers(n, n)
    v, p, q = (numpy.zeros((n, n)) for _ in range(3))
    dx, dt = 1 / n, 1 / steps
    mul1, mul2 = 2 * dt / dx**2, dt / dx**2
    a, d = -mul1 / 2, -mul2 / 2
    b, e = 1 + mul1, 1 + mul2
    c, f = a, d
    given = u.copy(), v.copy(), p.copy(), q.copy(), numpy.zeros(steps, numpy.uint8), a, b, c, d, e, f
    for _ in range(steps):
        for i in range(1, n - 1):
            v[0, i], p[i, 0], q[i, 0] = 1, 0, 1
            for j in range(1, n - 1):
                below = a * p[i, j - 1] + b
                p[i, j] = -c / below
                q[i, j] = (-d * u[j, i - 1] + (1 + 2 * d) * u[j, i] - f * u[j, i + 1] - a * q[i, j - 1]) / below
            v[n - 1, i] = 1
            for j in range(n - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in range(1, n - 1):
            u[i, 0], p[i, 0], q[i, 0] = 1, 0, 1
            for j in range(1, n - 1):
                below = d * p[i, j - 1] + e
                p[i, j] = -f / below
                q[i, j] = (-a * v[i - 1, j] + (1 + 2 * a) * v[i, j] - c * v[i + 1, j] - d * q[i, j - 1]) / below
            u[i, n - 1] = 1
            for j in range(n - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]
    return given, (u, v, p, q)


def fdtd_2d():
    ex, ey, hz, fict = numbers(7, 8), numbers(7, 8, seed=1), numbers(7, 8, seed=2), numbers(4)
    given = ex.copy(), ey.copy(), hz.copy(), fict
    for t in range(4):
        ey[0] = fict[t]
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return given, (ex, ey, hz)


def stencil(rank, step, both=True):
    a = numbers(*[8] * rank)
    b = a.copy()
    given = (a.copy(), b.copy()) if both else (a.copy(),)
    for _ in range(3):
        step(a, b)
        if both:
            step(b, a)
    return (*given, numpy.zeros(3, numpy.uint8)), (a, b) if both else a


def shifted(a, axis, by):
    """The inner elements' neighbours."""
    return a[tuple(slice(1 + (by if d == axis else 0), n - 1 + (by if d == axis else 0)) for d, n in enumerate(a.shape))]


def heat_3d():
    def step(a, b):
        here = shifted(a, 0, 0)
        b[1:-1, 1:-1, 1:-1] = here + 0.125 * sum(
            shifted(a, d, 1) - 2 * here + shifted(a, d, -1) for d in range(3))  # fmt: skip

    return stencil(3, step)


def jacobi_1d():
    def step(a, b):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])

    return stencil(1, step)


def jacobi_2d():
    def step(a, b):
        b[1:-1, 1:-1] = 0.2 * (shifted(a, 0, 0) + sum(shifted(a, d, s) for d in range(2) for s in (-1, 1)))

    return stencil(2, step)


def seidel_2d():
    def step(a, _):
        for i in range(1, 7):
            for j in range(1, 7):
                a[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].sum() / 9

    return stencil(2, step, both=False)


class PolyBench(unittest.TestCase):
    def test_all_are_here(self):
        self.assertEqual(len(list(FOLDER.glob("*.tc"))), 30)

    def test_values(self):
        for path in sorted(FOLDER.glob("*.tc")):
            f = fettle.comprehension(path, cache=False)
            (name,) = f
            with self.subTest(name):
                inputs, wanted = globals()[name]()
                made = f(*inputs)
                wanted, made = (x if isinstance(x, tuple) else (x,) for x in (wanted, made))
                self.assertEqual(len(made), len(wanted))
                for m, w in zip(made, wanted):
                    self.assertEqual(m.dtype, w.dtype)
                    numpy.testing.assert_allclose(m, w, rtol=1e-10, atol=1e-12)

    def test_orders_of_known_sizes(self):
        """Sizes are known, and the default is an order that isl's scheduler finds."""
        for path in (FOLDER / f"{name}.tc" for name in ("cholesky", "fdtd-2d", "heat-3d", "jacobi-2d", "lu", "trmm")):
            f = fettle.comprehension(path, cache=False)
            (name,) = f
            with self.subTest(name):
                inputs, wanted = globals()[name]()
                shapes = {p: list(numpy.shape(x)) for (p, *_), x in zip(f.model.inputs, inputs)}
                model = fettle.compile(getattr(f, name), shapes=shapes, cache=False)
                made = model(*inputs)
                wanted, made = (x if isinstance(x, tuple) else (x,) for x in (wanted, made))
                for m, w in zip(made, wanted):
                    numpy.testing.assert_allclose(m, w, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
