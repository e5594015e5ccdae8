"""Functions of comprehensions from Python: by name, with arrays of every size, from files, compiled and tuned as models."""

import pathlib
import tempfile
import unittest

import numpy

import fettle

TEXT = """
def mm(float(M,K) A, float(K,N) B) -> (C) {
    C(m, n) +=! A(m, k) * B(k, n)
}
def both(float(N) x) -> (more, less) {
    more(i) = x(i) + 1
    less(i) = x(i) - 1
}
"""


class Comprehensions(unittest.TestCase):
    def test_functions_by_name(self):
        f = fettle.comprehension(TEXT, cache=False)
        self.assertEqual(list(f), ["mm", "both"])
        for m, k, n in (2, 3, 4), (1, 5, 1):  # one model
            a, b = numpy.ones((m, k), numpy.float32), numpy.ones((k, n), numpy.float32)
            numpy.testing.assert_array_equal(f.mm(a, b), a @ b)
        more, less = f(numpy.float32([1, 2]))  # the last one
        self.assertEqual((more.tolist(), less.tolist()), ([2, 3], [0, 1]))
        with self.assertRaisesRegex(AttributeError, "no function conv; there are: mm, both"):
            f.conv  # noqa: B018

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "f.tc"
            path.write_text(TEXT)
            for given in path, str(path):
                self.assertEqual(list(fettle.comprehension(given)), ["mm", "both"])
            with self.assertWarnsRegex(RuntimeWarning, "the functions mm, both: both is taken"):
                model = fettle.compile(path, cache=False)
            self.assertEqual([name for name, *_ in model.outputs], ["more", "less"])
            model = fettle.compile(path, function="mm", cache=False)
            self.assertEqual([name for name, *_ in model.outputs], ["C"])
            with self.assertRaisesRegex(fettle.Error, "E709.*there are: mm, both"):
                fettle.compile(path, function="conv")
            with self.assertRaisesRegex(fettle.Error, "E709.*given as a path"):
                fettle.compile(fettle.comprehension(path), function="mm")

    def test_is_a_model(self):
        f = fettle.comprehension(TEXT)
        model = fettle.compile(f.mm, shapes={"A": [4, 3], "B": [3, 2]}, cache=False)
        self.assertEqual(model.outputs, [("C", "float32", (4, 2))])

    def test_numbers_and_names(self):
        f = fettle.comprehension(
            "def f(float alpha, int32(N) n, float(N) x) -> (y) { y(i) = alpha * x(i) + n(i) }", cache=False
        )
        x = numpy.float32([1, 2])
        for given in f(0.5, [1, 2], x), f(x=[1, 2.0], alpha=0.5, n=[1, 2]), f(numpy.float32(0.5), [True, 2.0], x=x):
            self.assertEqual((given.dtype, given.tolist()), (numpy.float32, [1.5, 3.0]))
        for numbers in [1, 2.5], [1, 2**40], [1, float("nan")]:
            with self.assertRaisesRegex(fettle.Error, "E705.*'n' is int32, which does not have"):
                f(1, numbers, x)
        with self.assertRaisesRegex(fettle.Error, "E705.*'alpha' is float32"):
            f(1e300, [1, 2], x)
        with self.assertRaisesRegex(fettle.Error, "E704.*no parameter 'beta'; it has alpha, n, x"):
            f(1.0, [1, 2], beta=x)
        with self.assertRaisesRegex(fettle.Error, "E704.*'alpha' of f is given twice"):
            f(1.0, [1, 2], x, alpha=2.0)
        with self.assertRaisesRegex(fettle.Error, "E704.*is not given n, x"):
            f(alpha=1.0)

    def test_mistakes(self):
        with self.assertRaisesRegex(fettle.Error, "E612.*1:35: there is no tensor and no function z"):
            fettle.comprehension("def f(float(N) x) -> (y) { y(i) = z(i) }")
        with self.assertRaisesRegex(fettle.Error, "E611"):
            fettle.comprehension("def f(")
        f = fettle.comprehension(TEXT, cache=False)
        with self.assertRaises(fettle.Error):  # K of A is not that of B
            f.mm(numpy.ones((2, 3), numpy.float32), numpy.ones((4, 2), numpy.float32))


if __name__ == "__main__":
    unittest.main()
