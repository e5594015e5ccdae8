"""An operator of one's own: swish, x * sigmoid(x). What each element is suffices; a schedule is found for it."""

import numpy

import fettle
from fettle import te


def swish(X, name="swish"):
    return te.compute(X.shape, lambda i, j: X[i, j] * te.sigmoid(X[i, j]), name=name)


X = te.placeholder((37, 129), name="X")
program = te.create_func("swish", [X], [swish(X)])
schedule = fettle.default_schedule(program)
print(schedule.show())

x = numpy.random.default_rng(0).standard_normal((37, 129)).astype("float32")
expected = x / (1 + numpy.exp(-x))
numpy.testing.assert_allclose(fettle.build(schedule)(x), expected, rtol=1e-5, atol=1e-6)

# It joins what it follows like any other.
W = te.placeholder((129, 20), name="W")
k = te.reduce_axis(129, "k")
H = te.compute((37, 20), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="H")
layer = te.create_func("layer", [X, W], [swish(H)], constants=[W])
w = numpy.random.default_rng(1).standard_normal((129, 20)).astype("float32")
h = x @ w
kernel = fettle.build(fettle.default_schedule(layer), constants={"W": w})
numpy.testing.assert_allclose(kernel(x), h / (1 + numpy.exp(-h)), rtol=1e-4, atol=1e-4)
