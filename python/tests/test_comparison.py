"""Two tunings, or two compiled models, task by task."""

import os
import tempfile
import unittest

import numpy

import fettle


def product(columns):
    g = fettle.Graph("product")
    x = g.input("x", "float32", [32, 32])
    w = numpy.ones((32, columns), "float32")
    g.output("y", g.Relu(x @ g.constant(w)))
    g.output("z", g.Softmax(x, axis=1))
    return g


class Comparison(unittest.TestCase):
    def test_compiled_models(self):
        one, other = fettle.compile(product(32)), fettle.compile(product(64))
        compared = fettle.compare(one, other)
        self.assertGreater(compared.before_s, 0)
        self.assertGreater(compared.after_s, 0)
        for task in compared.tasks:
            self.assertGreater(task.before_s, 0)
            self.assertIn(task.label, str(compared))
        self.assertEqual((compared.only_before, compared.only_after), (0, 0))
        self.assertEqual(len(compared.tasks), 2)
        changes = [abs(task.saved_s) for task in compared.tasks]
        self.assertEqual(changes, sorted(changes, reverse=True))

    def test_records_of_tunings(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            for trials in (2, 4):
                fettle.tune(product(32), trials=trials, database=path).result(progress=False)
            compared = fettle.compare(path, path, run_before=1)
            self.assertGreater(len(compared.tasks), 0)
            self.assertTrue(any(task.after_s > 0 for task in compared.tasks))
            with self.assertRaisesRegex(fettle.Error, "E709"):
                fettle.compare(path, path, run_before=9)
            with self.assertRaisesRegex(fettle.Error, "E709"):
                fettle.compare(path, fettle.compile(product(32)))
            with self.assertRaisesRegex(fettle.Error, "E501"):
                fettle.compare(os.path.join(folder, "none.db"), path)


if __name__ == "__main__":
    unittest.main()
