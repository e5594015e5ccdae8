"""Models and their contexts."""

import os
import tempfile
import threading
import unittest

import numpy
import onnx
from onnx import TensorProto, helper

import fettle


def relu_file(folder):
    """y = relu(x), twice = y + y, of [2, 3]."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Add", ["y", "y"], ["twice"])]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "relu", [value("x")], [value("y"), value("twice")])
    path = os.path.join(folder, "relu.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = fettle.Model(relu_file(cls.folder.name), threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def refused(self, code, text, call, *args, **kwargs):
        with self.assertRaises(fettle.Error) as raised:
            call(*args, **kwargs)
        self.assertEqual(raised.exception.code, code)
        self.assertIn(text, str(raised.exception))

    def test_describes_itself(self):
        self.assertEqual(self.model.inputs, [("x", "float32", (2, 3))])
        self.assertEqual([name for name, *_ in self.model.outputs], ["y", "twice"])

    def test_arrays_may_lie_anyhow(self):
        x = numpy.arange(-3, 3, dtype=numpy.float32).reshape(2, 3)
        right = numpy.maximum(x, 0)
        wide = numpy.zeros((4, 6), numpy.float32)
        wide[::2, ::2] = x
        unaligned = numpy.frombuffer(b"-" + x.tobytes(), numpy.float32, offset=1).reshape(2, 3)
        for given in x, numpy.asfortranarray(x), wide[::2, ::2], x[::-1][::-1], unaligned, x.astype(">f4"), x.tolist():
            if isinstance(given, list):
                given = numpy.array(given, numpy.float32)
            outputs = self.model.run(x=given)
            numpy.testing.assert_array_equal(outputs["y"], right)
            numpy.testing.assert_array_equal(outputs["twice"], 2 * right)
            outputs["y"][0, 0] = 5  # it is the caller's
        numpy.testing.assert_array_equal(self.model.run(x=numpy.flip(x))["y"], numpy.flip(x).clip(0))

    def test_refuses_what_does_not_fit(self):
        context = self.model.context()
        for run in self.model.run, context.run, context.begin:
            self.refused("E704", "input 'x' f32[2, 3] is missing", run)
            self.refused("E705", "input 'x' is f32[3, 2], expected f32[2, 3]: axis 0 is 3, not 2", run,
                         x=numpy.zeros((3, 2), numpy.float32))
            self.refused("E705", "input 'x' is f64[2, 3], expected f32[2, 3]", run, x=numpy.zeros((2, 3)))

    def test_threads_run_it_at_once(self):
        wrong = []

        def work(number):
            context = self.model.context()
            for i in range(50):
                x = numpy.full((2, 3), number * 100 + i, numpy.float32)
                for run in self.model.run, context.run:
                    if not (run(x=x)["twice"] == 2 * x).all():
                        wrong.append((number, i))

        threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_calls_are_begun_and_awaited(self):
        context = self.model.context()
        self.refused("E710", "no call was begun", context.wait)
        for i in range(3):
            context.begin(x=numpy.full((2, 3), i, numpy.float32))
            self.refused("E710", "is being used", context.run, x=numpy.zeros((2, 3), numpy.float32))
            self.assertEqual(context.wait()["twice"][1, 2], 2 * i)
        context.cancel()  # nothing is under way
        self.assertEqual(context.run(x=numpy.ones((2, 3), numpy.float32))["y"][0, 0], 1)

    def test_states_are_asked_for_by_name(self):
        context = self.model.context()
        self.refused("E705", "the model has no state 'cache'; it has none", context.state, "cache")
        self.refused("E705", "the model has no state 'cache'", context.set_state, "cache", numpy.zeros(1))
        context.reset_states()

    def test_types_of_less_than_a_byte(self):
        import ml_dtypes
        values = numpy.float32([-9, -1, -0.3, 2.5, 7, 300])
        types = {22: "int4", 25: "uint2", 17: "float8_e4m3fn", 19: "float8_e5m2", 23: "float4_e2m1fn"}
        for number, name in types.items():
            narrow = numpy.dtype(getattr(ml_dtypes, name))
            nodes = [helper.make_node("Cast", ["x"], ["y"], to=number), helper.make_node("Cast", ["n"], ["z"], to=1)]
            graph = helper.make_graph(
                nodes, "casts",
                [helper.make_tensor_value_info("x", 1, [6]), helper.make_tensor_value_info("n", number, [6])],
                [helper.make_tensor_value_info("y", number, [6]), helper.make_tensor_value_info("z", 1, [6])])
            path = os.path.join(self.folder.name, name + ".onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]), path)
            given = (numpy.arange(6) - 3 if name[0] == "i" else numpy.arange(6) % 4).astype(narrow)
            results = fettle.Model(path, threads=1).run(x=values, n=given)
            self.assertEqual(results["y"].dtype, narrow)
            if name[:5] == "float":
                limit = float(ml_dtypes.finfo(narrow).max)
                want = numpy.clip(values, -limit, limit).astype(narrow)
            else:
                want = values.astype(numpy.int32).astype(narrow)
            self.assertEqual(results["y"].tolist(), want.tolist(), name)
            self.assertEqual(results["z"].tolist(), given.astype(numpy.float32).tolist(), name)


if __name__ == "__main__":
    unittest.main()
