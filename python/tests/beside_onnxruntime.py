"""For tests: small models, compiled here and opened by ONNX Runtime."""

import os
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fettle

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
value = helper.make_tensor_value_info


def body(name, nodes, inputs, outputs):
    return helper.make_graph(nodes, name, inputs, outputs)


def random(*shape):
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype(numpy.float32)


def ints(*values):
    return numpy.array(values, dtype=numpy.int64)


def saved(folder, nodes, inputs, outputs, constants, opset=17):
    """The model's path."""
    initializers = [numpy_helper.from_array(numpy.array(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    return path


def reference_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compiled_and_reference(folder, nodes, inputs, outputs, constants, shapes=None, opset=17):
    path = saved(folder, nodes, inputs, outputs, constants, opset)
    onnx.checker.check_model(path)
    return fettle.compile(path, shapes=shapes), reference_of(path)


def as_given(data):
    """Arrays; lists, dicts and None as they are."""
    if isinstance(data, list):
        return [as_given(element) for element in data]
    return data if data is None or isinstance(data, dict) else numpy.array(data)


class Beside(unittest.TestCase):
    def assert_same(self, made, want, atol=1e-6):
        """Arrays of one shape, lists of such, dicts, None."""
        if isinstance(want, list):
            self.assertEqual(len(made), len(want))
            for got, wanted in zip(made, want):
                self.assert_same(got, wanted, atol)
        elif isinstance(want, dict):
            self.assertEqual(list(made), list(want))
            numpy.testing.assert_allclose(list(made.values()), list(want.values()), rtol=1e-5, atol=atol)
        elif want is None:
            self.assertIsNone(made)
        else:
            self.assertEqual(made.shape, want.shape)
            numpy.testing.assert_allclose(made, want, rtol=1e-5, atol=atol)

    def check(self, nodes, inputs, outputs, constants, *feeds, opset=17, atol=1e-6):
        with tempfile.TemporaryDirectory() as folder:
            compiled, reference = compiled_and_reference(folder, nodes, inputs, outputs, constants, opset=opset)
            for given in feeds:
                given = {name: as_given(data) for name, data in given.items()}
                expected = reference.run(None, given)
                made = compiled.run(**given)
                for output, want in zip(outputs, expected):
                    self.assert_same(made[output.name], want, atol)
