"""Special functions in single precision beside eager mode in double precision, over dense points."""

import operator
import unittest

import torch
from fettle_torch import compiled

_AXIS = torch.cat([torch.linspace(-30, 30, 4001), torch.tensor([0.0, -0.0, 1, -1, 2, -2, 0.5, -3, 1e-3, 1e-7, -1e-7, 1e-30, 3e4, 1e8,
                                                                float("inf"), -float("inf"), float("nan")])])  # fmt: skip
_UNIT = torch.cat([torch.linspace(-1, 1, 2001), torch.tensor([0.9999999, -0.9999999, 1e-8, 1e-20, 2.0, float("nan")])])
_SMOOTH = ("special.erfc", "special.erfcx", "special.log_ndtr", "lgamma", "digamma", "special.i0", "special.i0e", "special.i1", "special.i1e",
           "special.modified_bessel_i0", "special.modified_bessel_k0", "special.modified_bessel_k1",
           "special.scaled_modified_bessel_k0", "special.scaled_modified_bessel_k1", "special.spherical_bessel_j0")  # fmt: skip
# Eager mode itself has errors of 3e-7 of the largest magnitude, also in double precision.
_WAVES = ("special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1", "special.airy_ai")


class Special(unittest.TestCase):
    def check(self, name, x, rtol, atol):
        function = operator.attrgetter(name)(torch)
        torch._dynamo.reset()
        with self.subTest(name), torch.no_grad():
            got = compiled(lambda x: function(x), options={"strict": True}, fullgraph=True)(x)
            torch.testing.assert_close(got, function(x.double()).float(), rtol=rtol, atol=atol, equal_nan=True)

    def test_over_the_axis(self):
        for name in _SMOOTH:
            self.check(name, _AXIS, 3e-7, 1e-12)

    def test_waves(self):
        for name in _WAVES:
            self.check(name, _AXIS[_AXIS.abs() != 1e8], 2e-6, 4e-6)

    def test_inverses(self):
        self.check("erfinv", _UNIT, 3e-7, 0)
        self.check("special.ndtri", _UNIT.abs() ** 3, 3e-7, 1e-12)

    def test_polygamma(self):
        x = _AXIS[(_AXIS - _AXIS.round()).abs() > 1e-3]  # away from poles, where eager mode sees sines that are not zero
        for order in (1, 2, 3, 5):
            with self.subTest(order), torch.no_grad():
                torch._dynamo.reset()
                got = compiled(lambda x: torch.polygamma(order, x), options={"strict": True}, fullgraph=True)(x)
                torch.testing.assert_close(got, torch.polygamma(order, x.double()).float(), rtol=1e-5, atol=1e-30)

    def test_orthogonal_polynomials_of_each_elements_degree(self):
        x, degree = torch.linspace(-3, 3, 61)[:, None], torch.arange(-2, 21)
        for name in ("chebyshev_polynomial_t", "shifted_chebyshev_polynomial_w", "hermite_polynomial_he", "laguerre_polynomial_l",
                     "legendre_polynomial_p"):  # fmt: skip
            function = getattr(torch.special, name)
            torch._dynamo.reset()
            with self.subTest(name), torch.no_grad():
                got = compiled(lambda x, n: function(x, n), options={"strict": True}, fullgraph=True)(x, degree)
                wanted = function(x.double(), degree)
                torch.testing.assert_close(got, wanted.float(), rtol=1e-4, atol=1e-6 * wanted.abs().max().item())

    def test_double_precision_is_left_to_torch(self):
        with self.assertRaisesRegex(Exception, "a special function in double precision"):
            compiled(lambda x: torch.lgamma(x) + 1, options={"strict": True})(torch.rand(3, dtype=torch.float64))


if __name__ == "__main__":
    unittest.main()
