"""The ten loops of an SSRSRS tiling, three times: by hand, by sampling, and by MultiLevelTiling("SSRSRS").

Factors [16, 8, 8, 8], [16, 8, 8, 8] and [256, 8]: a product of 8192 x 8192 x 2048.
"""

import fettle
from fettle import sketch, te


def matmul(m, n, l):
    A, B = te.placeholder((m, l), name="A"), te.placeholder((l, n), name="B")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_func("matmul", [A, B], [C])


program = matmul(8192, 8192, 2048)


def in_order(s, i, j, k):
    i0, i1, i2, i3 = i
    j0, j1, j2, j3 = j
    k0, k1 = k
    s.reorder([i0, j0, i1, j1, k0, i2, j2, k1, i3, j3])


# By hand.
hand = fettle.Schedule(program)
i, j, k = hand.get_loops(hand["C"])
in_order(hand, hand.split(i, [16, 8, 8, 8]), hand.split(j, [16, 8, 8, 8]), hand.split(k, [256, 8]))

# The sizes drawn; here they are given, by address, so that the same program comes out.
sizes = {"i": [16, 8, 8, 8], "j": [16, 8, 8, 8], "k": [256, 8]}
drawn = fettle.Schedule(program, decisions=sizes)
i, j, k = drawn.get_loops(drawn["C"])
in_order(drawn,
         drawn.split(i, drawn.sample_perfect_tile(i, n=4, max_innermost=64, name="i")),
         drawn.split(j, drawn.sample_perfect_tile(j, n=4, max_innermost=64, name="j")),
         drawn.split(k, drawn.sample_perfect_tile(k, n=2, max_innermost=64, name="k")))

# By the rule.
rule = fettle.Schedule(program, decisions=sizes)
levels = sketch.MultiLevelTiling("SSRSRS").apply(rule, rule["C"])
assert [len(level) for level in levels] == [2, 2, 1, 2, 1, 2]

print(rule.func.loops())
assert str(hand) == str(drawn) == str(rule)

# Sizes drawn for a smaller one, which is run.
import numpy

small = fettle.Schedule(matmul(64, 32, 48), seed=3)
sketch.MultiLevelTiling("SSRSRS").apply(small, small["C"])
a = numpy.random.default_rng(0).integers(-4, 5, (64, 48)).astype("float32")
b = numpy.random.default_rng(1).integers(-4, 5, (48, 32)).astype("float32")
numpy.testing.assert_array_equal(fettle.build(small)(a, b), a @ b)
