"""The new target is named where an unknown one is asked for; schedules and code are made for it."""

import numpy

import fettle
from fettle import te

try:
    fettle.Target("abacus")
    raise AssertionError("there is no abacus")
except fettle.Error as error:
    assert "x86-64-pocket" in str(error), error

target = fettle.Target("x86-64-pocket")
assert target.vector_bits == 256 and target.cache_bytes[0] == 4096, target
A, B = te.placeholder((32, 16), name="A"), te.placeholder((16, 24), name="B")
k = te.reduce_axis(16, "k")
C = te.compute((32, 24), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
schedule = fettle.default_schedule(te.create_func("matmul", [A, B], [C]), target)
assert "vectorize" in str(schedule.trace), schedule
if fettle.Target("host").has_feature("avx2"):
    a, b = numpy.ones((32, 16), "float32"), numpy.arange(16 * 24, dtype="float32").reshape(16, 24)
    numpy.testing.assert_array_equal(fettle.build(schedule, target)(a, b), a @ b)
