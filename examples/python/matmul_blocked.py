"""A blocked matrix product: 1024 x 1024 x 1024 in tiles of 8 x 8, order yo, xo, k, yi, xi, as lectures print it."""

import numpy

import fettle
from fettle import te

n = 1024
A = te.placeholder((n, n), name="A")
B = te.placeholder((n, n), name="B")
k = te.reduce_axis((0, n), name="k")
C = te.compute((n, n), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")

s = fettle.Schedule(te.create_func("matmul", [A, B], [C]))
y, x, k = s.get_loops(s["C"])
yo, yi = s.split(y, [None, 8])
xo, xi = s.split(x, [None, 8])
s.reorder([yo, xo, k, yi, xi])
print(s.func.loops())
assert [s.loop_name(loop) for loop in s.get_loops(s["C"])] == ["y_0", "x_0", "k", "y_1", "x_1"]
assert [s.extent(loop) for loop in s.get_loops(s["C"])] == [128, 128, 1024, 8, 8]

s.vectorize(xi)
a = numpy.random.default_rng(0).integers(-4, 5, (n, n)).astype("float32")
b = numpy.random.default_rng(1).integers(-4, 5, (n, n)).astype("float32")
numpy.testing.assert_array_equal(fettle.build(s)(a, b), a @ b)
