"""D = relu(A B), 512 x 512 x 512: the sketch that the rules skip, tile with fusion, skip, skip derive, and a sampled program.

(Zheng et al.: Ansor, OSDI 2020, figure 5: generated sketch 1, sampled program 1.)
"""

import numpy

import fettle
from fettle import sketch, te


def matmul_relu(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis(n, "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: te.max_value(C[i, j], 0.0), name="D")
    return te.create_func("matmul_relu", [A, B], [D])


RULES = ["skip", "multi_level_tiling_with_fusion", "skip", "skip"]


def sketch_1(program):
    return [s for s in sketch.derive(program, cores=16) if s.derivation == RULES][-1]


def sampled_program_1(sketch_, sizes):
    s = sketch_.instantiate(decisions=sizes)
    loops = {s.loop_name(loop): loop for block in ("C", "D") for loop in s.get_loops(s[block])}
    s.unroll(loops["k_1"])
    s.unroll(loops["i_3"])
    s.vectorize(loops["j_3"])
    s.vectorize(loops["ax1"])
    s.parallel(s.fuse([loops["i_0"], loops["j_0"], loops["i_1"], loops["j_1"]]))
    return s


one = sketch_1(matmul_relu(512))
print(one)
s = sampled_program_1(one, {"multi_level_tiling/C/i": [4, 2, 16, 4],
                            "multi_level_tiling/C/j": [8, 4, 1, 16],
                            "multi_level_tiling/C/k": [32, 16]})
print(s.func.loops())
outermost = s.func.loops().splitlines()[0]
assert outermost.startswith("parallel") and outermost.endswith("in 256:")  # 4 * 8 * 2 * 4

n = 64
small = sampled_program_1(sketch_1(matmul_relu(n)), {"multi_level_tiling/C/i": [2, 2, 4, 4],
                                                     "multi_level_tiling/C/j": [2, 2, 1, 16],
                                                     "multi_level_tiling/C/k": [4, 16]})
a = numpy.random.default_rng(0).integers(-4, 5, (n, n)).astype("float32")
b = numpy.random.default_rng(1).integers(-4, 5, (n, n)).astype("float32")
numpy.testing.assert_array_equal(fettle.build(small, threads=2)(a, b), numpy.maximum(a @ b, 0))
