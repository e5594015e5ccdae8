"""Tensor expressions, programs, schedules and kernels."""

import gc
import threading
import unittest

import numpy

import fettle
from fettle import te


def matmul(n, m, k, name="matmul"):
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_func(name, [A, B], [C])


def integers(*shape):
    return numpy.random.default_rng(0).integers(-4, 5, shape).astype("float32")


class Expressions(unittest.TestCase):
    def refused(self, code, fn, *args, **kwargs):
        with self.assertRaises(fettle.Error) as caught:
            fn(*args, **kwargs)
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def test_operators(self):
        A = te.placeholder((4, 5), name="A")
        i = te.var("i")
        self.assertEqual(repr(2 * A[i, 0] + 1), "2.0 * A[i, 0] + 1.0")
        self.assertEqual(repr(i // 2 + i % 2), "i // 2 + i % 2")
        self.assertEqual(repr((i < 3) & ~(i == 2)), repr((3 > i) & ~(i == 2)))
        self.assertEqual(te.exp(A[0, 0]).dtype, "f32")
        self.assertEqual(te.cast(A[0, 0], "int32").dtype, "i32")
        self.assertEqual(te.placeholder((3,), "float16").dtype, "f16")

    def test_misuse(self):
        A, I = te.placeholder((4, 5), name="A"), te.placeholder((4,), "int32", "I")
        i = te.var("i")
        self.refused("E709", lambda: A[i])
        self.refused("E709", lambda: A[i, A[0, 0]])
        self.refused("E709", lambda: A[0, 0] + I[0])
        self.refused("E709", lambda: I[0] / 2)
        self.refused("E709", lambda: I[0] // 0)
        self.refused("E709", lambda: I[0] + 0.5)
        self.refused("E709", lambda: I[0] + 2**40)
        self.refused("E709", lambda: te.exp(I[0]))
        self.refused("E709", lambda: te.placeholder((0,)))
        self.refused("E709", lambda: te.placeholder((3,), name="no name"))
        self.refused("E709", lambda: te.placeholder((3,), name="for"))
        self.refused("E101", lambda: te.placeholder((3,), "float31"))
        self.refused("E709", lambda: te.reduce_axis((1, 3)))
        self.refused("E709", lambda: te.sum(A[0, 0], axis=[]))
        self.assertRaises(TypeError, lambda: A[0, 0] + "x")
        self.assertRaises(TypeError, lambda: bool(i < 3))
        self.assertRaises(TypeError, lambda: i + 2**70)
        e = A[0, 0]
        with self.assertRaises(fettle.Error):
            for _ in range(100000):
                e = e + 1.5

    def test_programs_that_make_no_sense(self):
        A = te.placeholder((4,), name="A")
        leaked = []
        B = te.compute((4,), lambda i: (leaked.append(i), A[i])[1], name="B")
        wrong = te.compute((4,), lambda i: A[leaked[0]], name="D")
        self.refused("E102", te.create_func, "f", [A], [wrong])
        self.refused("E102", te.create_func, "f", [], [B])
        self.refused("E102", te.create_func, "f", [A], [A])
        self.refused("E102", te.create_func, "f", [A, A], [B])
        self.refused("E102", te.create_func, "f", [A], [])
        self.assertRaises(ZeroDivisionError, te.compute, (4,), lambda i: A[i] * (1 // 0))
        self.assertRaises(TypeError, te.compute, (4,), lambda i, j: A[i])
        self.refused("E101", fettle.parse, "func f(:")
        self.refused("E102", fettle.parse, "func f(A: f32[4] output):\n  for i in 4:\n    A[i] = B[i]")

    def test_text_both_ways(self):
        program = matmul(4, 5, 6)
        again = fettle.parse(str(program))
        self.assertTrue(again.same_as(program))
        self.assertEqual([p["shape"] for p in program.params], [(4, 6), (6, 5), (4, 5)])
        self.assertEqual(program.params[2]["kind"], "output")

    def test_several_outputs(self):
        A = te.placeholder((7,), name="A")
        S, D = te.compute((7,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="both")
        a = integers(7)
        s, d = fettle.build(te.create_func("both", [A], [S, D]))(a)
        numpy.testing.assert_array_equal(s, a + 1)
        numpy.testing.assert_array_equal(d, a * 2)
        i = te.reduce_axis(7, "i")
        index, value = te.compute((1,), lambda _: te.argmax(i + 0, A[i], axis=i), name="best")
        found = fettle.build(te.create_func("best", [A], [index, value]))(a)
        self.assertEqual((found[0][0], found[1][0]), (a.argmax(), a.max()))


    def test_reductions_of_ones_own(self):
        A = te.placeholder((3, 40), name="A")
        k = te.reduce_axis(40, "k")
        # The largest absolute value, and mean and squares in one pass.
        B = te.compute((3,), lambda i: te.reduce(lambda x, y: te.max_value(x, te.abs(y)), A[i, k], 0, k), name="B")
        S, Q = te.compute((3,), lambda i: te.reduce(lambda x, y: (x[0] + y[0], x[1] + y[1]),
                                                    (A[i, k], A[i, k] * A[i, k]), (0, 0), k), name="S")
        kernel = fettle.build(fettle.Schedule(te.create_func("f", [A], [B, S, Q])), target="host")
        a = integers(3, 40)
        b, s, q = kernel(a)
        self.assertTrue(numpy.array_equal(b, abs(a).max(1)))
        self.assertTrue(numpy.array_equal(s, a.sum(1)) and numpy.array_equal(q, (a * a).sum(1)))
        x = A[0, k]
        self.refused("E709", te.reduce, lambda x, y: (x, y), x, 0, k)
        self.refused("E709", te.reduce, lambda x, y: x + y, (x, x), (0, 0), k)
        self.refused("E709", te.reduce, lambda x, y: x + y, x, (0, 0), k)
        self.refused("E709", te.reduce, lambda x, y: te.cast(x, "i32"), x, 0, k)
        self.refused("E709", te.reduce, lambda x, y: x + y, x, 0, [])
        with self.assertRaises(ZeroDivisionError):
            te.reduce(lambda x, y: 1 // 0, x, 0, k)

    def test_scans(self):
        X = te.placeholder((6, 5), name="X")
        S = te.scan(6, (5,), lambda i: X[0, i], lambda s, t, i: s[t - 1, i] + X[t, i], name="S")
        x = integers(6, 5)
        self.assertTrue(numpy.array_equal(fettle.build(te.create_func("f", [X], [S]), target="host")(x), x.cumsum(0)))
        F, G = te.scan(8, (2,), lambda i: (1.0, te.cast(i, "f32")), lambda s, t, i: (s[1][t - 1, i], s[0][t - 1, i] + 1),
                       name="F")
        f, g = fettle.build(te.create_func("g", [], [F, G]), target="host")()
        self.assertEqual((f[2, 1], g[2, 1]), (2.0, 2.0))
        self.refused("E709", te.scan, 6, (5,), lambda i: X[0, i], lambda s, t, i: (s[t - 1, i], X[t, i]))
        self.refused("E709", te.scan, 6, (5,), lambda i: X[0, i], lambda s, t, i: te.cast(s[t - 1, i], "i32"))
        self.refused("E709", te.scan, (6, 6), (5,), lambda i: X[0, i], lambda s, t, i: s[t - 1, i])
        kept = []
        te.scan(6, (5,), lambda i: X[0, i], lambda s, t, i: kept.append(s) or s[t - 1, i])
        self.refused("E102", te.create_func, "h", [X], [te.compute((6, 5), lambda t, i: kept[0][t, i])])


class Schedules(unittest.TestCase):
    def test_every_primitive_is_a_method(self):
        from fettle import _fettle
        names = _fettle.primitives()
        self.assertGreaterEqual(len(names), 59)
        for name in names:
            self.assertTrue(callable(getattr(fettle.Schedule, name)), name)
            self.assertIn(name, getattr(fettle.Schedule, name).__doc__)

    def test_steps(self):
        s = fettle.Schedule(matmul(64, 64, 64))
        i, j, k = s.get_loops(s["C"])
        i0, i1 = s.split(i, factors=[None, 8])
        j0, j1 = s.split(loop=j, factors=[8, 8])
        s.reorder([i0, j0, k, i1, j1])
        s.vectorize(j1)
        self.assertEqual([s.loop_name(loop) for loop in s.get_loops(s["C"])], ["i_0", "j_0", "k", "i_1", "j_1"])
        self.assertEqual(s.extent(i0), 8)
        self.assertEqual(s.iter_kinds(s["C"]), ["spatial", "spatial", "reduce"])
        a, b = integers(64, 64), integers(64, 64)
        numpy.testing.assert_array_equal(fettle.build(s)(a, b), a @ b)
        other = fettle.Schedule(s.original)
        other.replay(s.trace)
        self.assertEqual(str(other), str(s))
        other = fettle.Schedule(s.original)
        other.replay(s.trace_json)
        self.assertEqual(str(other), str(s))

    def test_refusals(self):
        s = fettle.Schedule(matmul(64, 64, 64))
        i, j, k = s.get_loops(s["C"])
        before = str(s), s.trace
        with self.assertRaises(fettle.Error) as caught:
            s.split(i, [3, 5])
        self.assertEqual((caught.exception.code, caught.exception.place), ("E204", "split"))
        self.assertIn("^^^", caught.exception.explanation)
        with self.assertRaises(fettle.Error) as caught:
            s.parallel(k)
        self.assertEqual(caught.exception.code, "E210")
        self.assertEqual((str(s), s.trace), before)
        self.assertRaises(TypeError, s.split, i, [4, 16], "exact", 5)
        self.assertRaises(TypeError, s.split, i, loop=i)
        self.assertRaises(TypeError, s.split, i, object())
        for wrong in ({"loop": i, "faktors": [4, 16]}, {"loop": i, "factors": "four"}, {"loop": s["C"], "factors": [4, 16]}):
            self.assertRaises(fettle.Error, lambda: s.split(**wrong))
        other = fettle.Schedule(s.original)
        with self.assertRaises(fettle.Error) as caught:
            other.split(i, [8, 8])
        self.assertEqual(caught.exception.code, "E225")
        i0, _ = s.split(i, [8, 8])
        with self.assertRaises(fettle.Error) as caught:
            s.vectorize(i)
        self.assertEqual(caught.exception.code, "E206")

    def test_sampling_and_copies(self):
        s = fettle.Schedule(matmul(64, 64, 64), seed=7)
        i = s.get_loops(s["C"])[0]
        a, b = s.sample_perfect_tile(i, n=2, max_innermost=16, name="tile")
        self.assertEqual(s.value(a) * s.value(b), 64)
        self.assertEqual(s.value(a * b), 64)
        self.assertEqual(s.value(2 * a * b), 128)
        self.assertEqual(list(s.decisions["tile"]), [s.value(a), s.value(b)])
        copy = s.copy()
        copy.split(i, [a, b])
        self.assertEqual(len(s.get_loops(s["C"])), 3)
        self.assertEqual(len(copy.get_loops(copy["C"])), 4)
        again = fettle.Schedule(s.original, decisions={"tile": [4, 16]})
        p, q = again.sample_perfect_tile(again.get_loops(again["C"])[0], n=2, max_innermost=16, name="tile")
        self.assertEqual((again.value(p), again.value(q)), (4, 16))
        # Values by their names: what is not a candidate is drawn, as a place in the list is.
        names = ["14x2", "7+2x2"]
        for given, drawn in (("7+2x2", False), ("1x1", True), ([1], True)):
            named = fettle.Schedule(s.original, decisions={"order": given})
            named.sample_categorical(names, [1.0, 0.0], name="order")
            self.assertEqual(named.decisions, {"order": "14x2" if drawn else "7+2x2"})
        number = fettle.Schedule(s.original, decisions={"n": "16"})
        self.assertEqual(number.value(number.sample_categorical([64, 16], [1.0, 0.0], name="n")), 16)
        with self.assertRaises((TypeError, RuntimeError)):
            fettle.Schedule(s.original, decisions={"order": "two words"})
        self.assertNotEqual(s.fork_seed(1), s.fork_seed(2))
        self.assertEqual(s.fork(1).trace, s.trace)

    def test_index_maps_are_functions(self):
        W = te.placeholder((8, 32), name="W")
        B = te.compute((8, 32), lambda i, j: W[i, j] * 2.0, name="B")
        s = fettle.Schedule(te.create_func("f", [W], [B], constants=[W]))
        s.cache_read(s["B"], 0, "global")
        s.transform_layout(s["B"], 0, "read", index_map=lambda i, j: (j // 16, i, j % 16))
        self.assertIn("(i, j) -> (j // 16, i, j % 16)", s.trace)


class Kernels(unittest.TestCase):
    def test_in_place_where_aligned(self):
        kernel = fettle.build(matmul(16, 16, 16))
        a, b = fettle.aligned(integers(16, 16)), fettle.aligned(integers(16, 16))
        out = fettle.empty((16, 16))
        self.assertIs(kernel(a, B=b, out=out), out)
        self.assertEqual(kernel.copied, 0)
        numpy.testing.assert_array_equal(out, a @ b)
        shifted = numpy.zeros(16 * 16 + 1, "float32")[1:].reshape(16, 16)
        shifted[...] = a
        if shifted.ctypes.data % 64:
            numpy.testing.assert_array_equal(kernel(shifted, b), a @ b)
            self.assertEqual(kernel.copied, 1)
        numpy.testing.assert_array_equal(kernel(a.T, b), a.T @ b)

    def test_misuse(self):
        kernel = fettle.build(matmul(16, 8, 4))
        a, b = integers(16, 4), integers(4, 8)
        for wrong, code in (((a,), "E704"), ((a, b, b), "E704"), ((b, a), "E705"), ((a.astype("float64"), b), "E705"),
                            ((a, integers(4, 9)), "E705"), ((None, b), "E705")):
            with self.assertRaises(fettle.Error) as caught:
                kernel(*wrong)
            self.assertEqual(caught.exception.code, code)
        for named in ({"A": a, "X": b}, {"A": a, "C": b}):
            self.assertRaises(fettle.Error, lambda: kernel(**named))
        self.assertRaises(TypeError, lambda: kernel(a, b, out="nothing"))
        frozen = fettle.empty((16, 8))
        frozen.flags.writeable = False
        self.assertRaises(fettle.Error, lambda: kernel(a, b, out=frozen))
        self.assertRaises(fettle.Error, fettle.build, matmul(4, 4, 4), threads=0)
        self.assertRaises(fettle.Error, fettle.build, matmul(4, 4, 4), target="abacus")
        self.assertRaises(TypeError, fettle.build, "program")

    def test_constants_are_prepared_once(self):
        W = te.placeholder((8, 32), name="W")
        X = te.placeholder((8, 32), name="X")
        B = te.compute((8, 32), lambda i, j: W[i, j] * X[i, j], name="B")
        program = te.create_func("f", [W, X], [B], constants=[W])
        w, x = integers(8, 32), integers(8, 32)
        kernel = fettle.build(program, constants={"W": w})
        numpy.testing.assert_array_equal(kernel(x), w * x)
        kernel.set_constants(W=w + 1)
        numpy.testing.assert_array_equal(kernel(x), (w + 1) * x)

    def test_types(self):
        for name in ("float64", "float16", "int8", "int32", "uint8", "int64", "bfloat16"):
            A = te.placeholder((5,), name, "A")
            kernel = fettle.build(te.create_func("twice", [A], [te.compute((5,), lambda i: A[i] + A[i], name="B")]))
            a = fettle.empty(5, name)
            a[...] = [0, 1, 2, 3, 4]
            numpy.testing.assert_array_equal(kernel(a).astype("float32"), [0, 2, 4, 6, 8], name)

    def test_symbolic_sizes(self):
        n = te.var("n")
        A = te.placeholder((n,), name="A")
        program = te.create_func("f", [A], [te.compute((n,), lambda i: A[i] + 1.0, name="B")])
        self.assertEqual(fettle.build(program, ints=[5])(integers(5)).shape, (5,))
        self.assertEqual(fettle.build(program)(integers(128)).shape, (128,))  # of the usual size
        self.assertRaises(fettle.Error, fettle.build, program, ints=[-3])

    def test_threads(self):
        kernel = fettle.build(matmul(32, 32, 32))
        a, b = integers(32, 32), integers(32, 32)
        right = a @ b
        wrong = []

        def work():
            for _ in range(50):
                if not numpy.array_equal(kernel(a, b), right):
                    wrong.append(True)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_programs_belong_to_one_thread(self):
        caught = []

        def work():
            try:
                matmul(4, 4, 4)
            except fettle.Error as error:
                caught.append(error.code)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(caught, ["E709"])

    def test_lifetimes(self):
        s = fettle.Schedule(matmul(8, 8, 8))
        i = s.get_loops(s["C"])[0]
        program = s.func
        kernel = fettle.build(s)
        del s
        gc.collect()
        self.assertIn("block C", str(program))
        self.assertEqual(kernel(integers(8, 8), integers(8, 8)).shape, (8, 8))
        self.assertIn("Loop", repr(i))
        kept = kernel(integers(8, 8), integers(8, 8))
        del kernel
        gc.collect()
        self.assertEqual(kept.sum(), kept.sum())


if __name__ == "__main__":
    unittest.main()
