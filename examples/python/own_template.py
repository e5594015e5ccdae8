"""A template of one's own: a schedule by hand with named knobs, for a product with a bias."""

import numpy

import fettle
from fettle import te


def dense(n, m, k):
    A, B, bias = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B"), te.placeholder((m,), name="bias")
    r = te.reduce_axis(k, "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, m), lambda i, j: C[i, j] + bias[j], name="D")
    return te.create_func("dense", [A, B, bias], [D], constants=[B, bias])


@fettle.template
def dense_tiles(t):
    s = t.schedule
    i, j, k = s.get_loops(s["C"])
    i0, i1 = t.define_split("rows", i, policy="verbose", max_factor=8, tail="balance")
    j0, j1 = t.define_split("columns", j, policy="candidates", candidates=[[-1, 8], [-1, 16], [-1, 32]], tail="mask")
    s.reorder([i0, j0, k, i1, j1])
    s.unroll(i1)
    s.vectorize(j1)
    # The bias is added while the tile is still in cache, or afterwards.
    if t.define_knob("join", [0, 1]):
        s.reverse_compute_at(s["D"], j0)
    t.define_annotate("threads", [i0], policy="try_parallel")
    t.constrain("at most 128 sums at once", lambda v: v["rows"][1] * v["columns"][1] <= 128)


program = dense(21, 40, 17)
space = dense_tiles.space(program)
print(len(space), "configurations,", space.count(), "of them allowed")

rng = numpy.random.default_rng(0)
a, b, c = (rng.integers(-4, 5, shape).astype("float32") for shape in ((21, 17), (17, 40), (40,)))
for index in space.allowed()[::7]:
    kernel = fettle.build(space.apply(index), constants={"B": b, "bias": c})
    numpy.testing.assert_array_equal(kernel(a), a @ b + c)

report = fettle.tune(program, space=dense_tiles, strategy="genetic", trials=8)
print(report, report.decisions)
assert set(report.decisions) <= set(space.knobs) or report.best_trace == report.default_trace
