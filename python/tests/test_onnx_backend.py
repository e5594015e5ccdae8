"""fettle.onnx_backend: models and nodes as ONNX's interface of backends gives them."""

import unittest

import numpy
import onnx
from beside_onnxruntime import FLOAT, INT, ints, node, random, value
from onnx import helper, numpy_helper

import fettle
import fettle.onnx_backend as backend


def model(nodes, inputs, outputs, initializers=(), opset=17):
    tensors = [numpy_helper.from_array(array, name) for name, array in initializers]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class Backend(unittest.TestCase):
    def test_a_model_is_compiled_once_for_all_sizes(self):
        made = backend.prepare(model([node("Neg", ["x"], ["y"])], [value("x", FLOAT, ["N", 3])], [value("y", FLOAT, ["N", 3])]))
        for rows in (2, 5):
            x = random(rows, 3)
            numpy.testing.assert_array_equal(made.run([x])["y"], -x)
            self.assertEqual(made.compiled_for, "all sizes")

    def test_results_come_in_the_models_order_and_by_name(self):
        nodes = [node("Neg", ["x"], ["b"]), node("Abs", ["x"], ["a"])]
        made = model(nodes, [value("x", FLOAT, [2])], [value("b", FLOAT, [2]), value("a", FLOAT, [2])])
        results = backend.run_model(made, {"x": numpy.array([-1, 2], numpy.float32)})
        self.assertEqual(results[0].tolist(), [1, -2])
        self.assertEqual(results.a.tolist(), [1, 2])

    def test_what_must_be_known_is_compiled_for_what_is_given(self):
        """The rank of what the softmax takes is the length of an input."""
        nodes = [node("Reshape", ["x", "s"], ["v"]), node("Softmax", ["v"], ["w"]), node("Reshape", ["w", "flat"], ["y"])]
        inputs = [value("x", FLOAT, [12]), value("s", INT, ["R"])]
        made = backend.prepare(model(nodes, inputs, [value("y", FLOAT, [12])], [("flat", ints(-1))]))
        x = numpy.arange(12, dtype=numpy.float32)
        for shape in ([3, 4], [2, -1, 2]):
            rows = numpy.exp(x.reshape(shape))
            numpy.testing.assert_allclose(made.run([x, ints(*shape)]).y, (rows / rows.sum(-1, keepdims=True)).ravel(), rtol=1e-5)
        self.assertIn(made.compiled_for, ("shapes", "values"))

    def test_an_initializer_that_is_an_input_may_be_given(self):
        inputs = [value("x", FLOAT, [2]), value("c", FLOAT, [2])]
        made = backend.prepare(
            model([node("Add", ["x", "c"], ["y"])], inputs, [value("y", FLOAT, [2])], [("c", numpy.ones(2, numpy.float32))])
        )
        x, other = numpy.zeros(2, numpy.float32), numpy.full(2, 7, numpy.float32)
        self.assertEqual(made.run([x]).y.tolist(), [1, 1])
        self.assertEqual(made.run([x, other]).y.tolist(), [7, 7])

    def test_a_node_alone(self):
        x = random(2, 3)
        made = backend.run_node(node("ReduceSum", ["x", "axes"], ["y"], keepdims=0), [x, ints(1)])
        numpy.testing.assert_allclose(made.y, x.sum(1), rtol=1e-6)
        made = backend.run_node(node("Add", ["x", "x"], ["y"]), [x], outputs_info=[(numpy.float32, (2, 3))])
        numpy.testing.assert_array_equal(made.y, x + x)

    def test_other_devices_are_refused(self):
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("CUDA"))
        made = model([node("Neg", ["x"], ["y"])], [value("x", FLOAT, [2])], [value("y", FLOAT, [2])])
        with self.assertRaises(fettle.Error) as raised:
            backend.prepare(made, "CUDA")
        self.assertEqual(raised.exception.code, "E709")

    def test_a_declared_rank_with_names_in_it_is_not_held_against_a_model(self):
        made = model([node("Neg", ["x"], ["y"])], [value("x", FLOAT, ["N", 1, 3])], [value("y", FLOAT, [1, "length"])])
        x = random(4, 1, 3)
        numpy.testing.assert_array_equal(backend.prepare(made).run([x]).y, -x)

    def test_too_many_inputs(self):
        made = backend.prepare(model([node("Neg", ["x"], ["y"])], [value("x", INT, [2])], [value("y", INT, [2])]))
        with self.assertRaises(fettle.Error) as raised:
            made.run([ints(1, 2), ints(3, 4)])
        self.assertEqual(raised.exception.code, "E704")

    def test_an_invalid_model_is_none(self):
        with self.assertRaises(onnx.checker.ValidationError):
            backend.prepare(model([node("Neg", ["missing"], ["y"])], [], [value("y", FLOAT, [2])]))


if __name__ == "__main__":
    unittest.main()
