"""Every primitive with arguments that make no sense: refused, never a crash."""

import random
import unittest

import fettle
from fettle import _fettle, te


def programs():
    A, B = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis(16, "k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((16, 16), lambda i, j: te.max_value(C[i, j], 0.0), name="D")
    yield te.create_func("matmul_relu", [A, B], [D])
    X = te.placeholder((16, 20), name="X")
    P = te.pad(X, [1, 1], [1, 1], 0)
    r, q = te.reduce_axis(3, "r"), te.reduce_axis(3, "q")
    Y = te.compute((16, 20), lambda h, w: te.sum(P[h + r, w + q], axis=[r, q]), name="Y")
    yield te.create_func("pool", [X], [te.compute((16, 20), lambda h, w: Y[h, w] * 0.125, name="Z")])


NUMBERS = [0, 1, 2, 3, 4, 8, 16, -1, -5, 2**40, 2**62, -2**63, None]
WORDS = ["global", "register", "read", "write", "guard", "mask", "im2col", "", "winograd", "split_reduction", "shared",
         "(i, j) -> (j, i)", "(i) -> (i)", "threadIdx.x", "C", "spatial", "factors"]
OTHERS = [True, False, 0.5, float("nan"), float("inf"), -1e300, lambda i, j: (j, i // 4, i % 4), lambda i, j: i * 0, object()]


class Misuse(unittest.TestCase):
    def value(self, draw, refs, depth=0):
        kind = draw.random()
        if kind < 0.45:
            return draw.choice(refs)
        if kind < 0.6:
            return draw.choice(NUMBERS)
        if kind < 0.7:
            return draw.choice(WORDS)
        if kind < 0.8 or depth == 2:
            return draw.choice(OTHERS)
        return [self.value(draw, refs, depth + 1) for _ in range(draw.randint(0, 4))]

    def arguments(self, draw, fields, refs):
        given = {}
        for field in fields:
            if field in ("loop", "block", "target"):
                given[field] = draw.choice(refs)
            elif field in ("loops", "blocks"):
                given[field] = [draw.choice(refs) for _ in range(draw.randint(1, 4))]
            elif field in ("factors", "sizes", "numbers", "candidates"):
                given[field] = [draw.choice([None, 1, 2, 4, 8, 3, 16]) for _ in range(draw.randint(1, 3))]
            if draw.random() < 0.1 or (field not in given and draw.random() < 0.5):
                given[field] = self.value(draw, refs)
        return given

    def test_primitives(self):
        draw = random.Random(1)
        primitives = _fettle.primitives()
        known = list(programs())
        done = 0
        for seed in range(250):
            s = fettle.Schedule(draw.choice(known), "x86-64-avx512", seed=seed)
            refs = []
            for name in s.block_names:
                block = s[name]
                refs += [block, *s.get_loops(block)]
            for _ in range(draw.randint(1, 6)):
                name = draw.choice(list(primitives))
                before = s.trace
                try:
                    results = getattr(s, name)(**self.arguments(draw, primitives[name][0], refs))
                except fettle.Error as error:
                    self.assertRegex(error.code, r"^E\d{3}$")
                    self.assertTrue(error.explanation)
                    self.assertEqual(s.trace, before)
                    continue
                except TypeError:
                    self.assertEqual(s.trace, before)
                    continue
                done += 1
                refs += [r for r in (results if isinstance(results, list) else [results]) if r is not None]
            str(s)
        self.assertGreater(done, 50)


if __name__ == "__main__":
    unittest.main()
