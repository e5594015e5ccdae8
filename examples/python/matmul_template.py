"""AutoTVM's first template: a product of 512 x 512 matrices whose loops y and x are each cut in two, tile_y and tile_x.

(Chen et al.: Learning to Optimize Tensor Programs, NeurIPS 2018.)
"""

import numpy

import fettle
from fettle import te


def matmul(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")
    return te.create_func("matmul", [A, B], [C])


@fettle.template
def matmul_template(t):
    s = t.schedule
    y, x, k = s.get_loops(s["C"])
    yo, yi = t.define_split("tile_y", y, num_outputs=2)
    xo, xi = t.define_split("tile_x", x, num_outputs=2)
    s.reorder([yo, xo, k, yi, xi])
    s.decompose_reduction(s["C"], k)  # the tile is cleared by a nest of its own


space = matmul_template.space(matmul(512))
assert len(space) == 100  # ten ways each to cut 2^9
config = space[space.index_of({"tile_y": [8, 64], "tile_x": [128, 4]})]
print(config)
print(space.apply(config).func.loops())

program = matmul(32)
space = matmul_template.space(program)
a = numpy.random.default_rng(0).integers(-4, 5, (32, 32)).astype("float32")
b = numpy.random.default_rng(1).integers(-4, 5, (32, 32)).astype("float32")
for index in range(0, len(space), 5):
    numpy.testing.assert_array_equal(fettle.build(space.apply(index))(a, b), a @ b)

# Searched by simulated annealing on boosted trees, measured on this machine.
report = fettle.tune(program, space=matmul_template, strategy="annealing", trials=12)
print(report, report.decisions)
numpy.testing.assert_array_equal(fettle.build(report.schedule())(a, b), a @ b)
