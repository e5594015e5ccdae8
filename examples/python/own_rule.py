"""A sketch rule of one's own: where a product is long and thin, the reduction's outer part runs outside of the tiles."""

import numpy

import fettle
from fettle import sketch, te


class OuterProduct(fettle.SketchRule):
    name = "outer_product"

    def applies(self, state):
        return not state.is_input and state.has_data_reuse()

    def apply(self, state):
        s = state.schedule()
        s.set_address_prefix(f"outer_product/{state.node}")
        i, j, k = s.get_loops(s[state.node])
        ko, ki = s.split(k, s.sample_perfect_tile(k, n=2, max_innermost=16, name="k"))
        jo, ji = s.split(j, s.sample_perfect_tile(j, n=2, max_innermost=64, name="j"))
        s.reorder([ko, i, jo, ki, ji])
        return [state.next(s)]


A, B = te.placeholder((24, 96), name="A"), te.placeholder((96, 32), name="B")
k = te.reduce_axis(96, "k")
C = te.compute((24, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
program = te.create_func("matmul", [A, B], [C])

rules = [OuterProduct(), *sketch.rules()]
found = sketch.derive(program, rules=rules)
own = [s for s in found if "outer_product" in s.derivation]
assert own and len(found) > len(own)  # it stands beside the built-in ones
print(own[0])

a = numpy.random.default_rng(0).integers(-4, 5, (24, 96)).astype("float32")
b = numpy.random.default_rng(1).integers(-4, 5, (96, 32)).astype("float32")
for seed in range(4):
    numpy.testing.assert_array_equal(fettle.build(own[0].instantiate(seed))(a, b), a @ b)

report = fettle.tune(program, space=fettle.Sketches(rules=rules), trials=8)
print(report)
