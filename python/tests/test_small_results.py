"""Operators of numbers that cancel, whose small results have all their digits."""

import unittest

import numpy

import fettle


def applied(op, x):
    g = fettle.Graph("g")
    g.output("y", getattr(g, op)(g.input("x", "float32", [len(x)])))
    return fettle.compile(g).run(x=x)["y"]


class SmallResults(unittest.TestCase):
    x = numpy.concatenate([-numpy.logspace(-6, 1.9, 300), numpy.logspace(-6, 1.9, 300)]).astype("float32")

    def test_softplus(self):
        x = self.x.astype("float64")
        expected = numpy.maximum(x, 0) + numpy.log1p(numpy.exp(-abs(x)))
        numpy.testing.assert_allclose(applied("Softplus", self.x), expected, rtol=1e-6)

    def test_mish(self):
        x = self.x.astype("float64")
        expected = x * numpy.tanh(numpy.maximum(x, 0) + numpy.log1p(numpy.exp(-abs(x))))
        numpy.testing.assert_allclose(applied("Mish", self.x), expected, rtol=2e-6)


if __name__ == "__main__":
    unittest.main()
