"""Functions of Python that models call by name."""

import threading
import unittest

import numpy

import fettle

F32 = "float32"


class HostCalls(unittest.TestCase):
    def setUp(self):
        self.addCleanup(fettle.host_calls.unregister, "tested")

    def model(self, inputs, outputs, **parameters):
        """Of one call: inputs are (dtype, shape)."""
        g = fettle.Graph()
        values = [g.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(inputs)]
        for i, value in enumerate(g.host_call("tested", values, outputs, **parameters)):
            for j, part in enumerate(value if isinstance(value, tuple) else (value,)):
                g.output(f"y{i}{j}", part)
        return fettle.compile(g)

    def test_arrays_and_parameters_arrive(self):
        def function(x, y, scale, names):
            self.assertEqual((x.dtype, x.shape, y.dtype, y.shape), ("float32", (2, 3), "int64", ()))
            self.assertEqual(names, ["a", "b"])
            return x * scale, y + 1

        fettle.host_calls.register("tested", function)
        model = self.model([(F32, [2, 3]), ("int64", [])], [(F32, [2, 3]), ("int64", [])], scale=2.5, names=["a", "b"])
        x = numpy.arange(6, dtype=F32).reshape(2, 3)
        made, count = model(x, numpy.int64(4))
        numpy.testing.assert_array_equal(made, x * 2.5)
        self.assertEqual(count, 5)

    def test_complex_arrays_are_pairs(self):
        fettle.host_calls.register("tested", lambda z: [z * 1j])
        g = fettle.Graph()
        pair = g.input("re", F32, [2]), g.input("im", F32, [2])
        ((re, im),) = g.host_call("tested", [pair], [("complex64", [2])])
        g.output("re2", re)
        g.output("im2", im)
        re, im = fettle.compile(g)(numpy.float32([1, 2]), numpy.float32([3, 4]))
        numpy.testing.assert_array_equal(re, [-3, -4])
        numpy.testing.assert_array_equal(im, [1, 2])

    def test_the_function_is_found_when_the_model_runs(self):
        model = self.model([(F32, [1])], [(F32, [1])])
        with self.assertRaisesRegex(fettle.Error, "E710.*'tested'.*no function of this process has this name"):
            model(numpy.float32([1]))
        fettle.host_calls.register("tested", lambda x: [x + 1])
        self.assertEqual(model(numpy.float32([1])), [2])
        fettle.host_calls.register("tested", lambda x: [x + 2])
        self.assertEqual(model(numpy.float32([1])), [3])

    def test_what_it_raises_is_told(self):
        def function(x):
            raise ValueError("no such day")

        fettle.host_calls.register("tested", function)
        with self.assertRaisesRegex(fettle.Error, "E710.*ValueError: no such day"):
            self.model([(F32, [1])], [(F32, [1])])(numpy.float32([1]))

    def test_results_of_another_number_or_shape_are_refused(self):
        for made in ([], [numpy.zeros(3, F32)]):
            fettle.host_calls.register("tested", lambda x, made=made: made)
            with self.assertRaisesRegex(fettle.Error, "E710"):
                self.model([(F32, [2])], [(F32, [2])])(numpy.zeros(2, F32))

    def test_any_thread_may_call(self):
        fettle.host_calls.register("tested", lambda x: [x * 2])
        model, failed = self.model([(F32, [64])], [(F32, [64])]), []

        def work(seed):
            x = numpy.full(64, seed, F32)
            for _ in range(50):
                if not (model(x) == 2 * x).all():
                    failed.append(seed)

        threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])


if __name__ == "__main__":
    unittest.main()
