"""For tests: the same code on ONNX Runtime and on fettle.onnxruntime, and what both make of it."""

import contextlib
import io
import os
import tempfile
import unittest
import warnings

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fettle.onnxruntime

FLOAT, INT, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
node, value = helper.make_node, helper.make_tensor_value_info
BOTH = (onnxruntime, fettle.onnxruntime)


def model_of(nodes, inputs, outputs, constants=(), opset=17, ir_version=8, **facts):
    """constants: by name."""
    initializers = [numpy_helper.from_array(numpy.array(v), k) for k, v in dict(constants).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers, doc_string="of the graph")
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, **facts)


def affine():
    """y = x + w, z = relu(y); w may be given."""
    return model_of(
        [node("Add", ["x", "w"], ["y"]), node("Relu", ["y"], ["z"])],
        [value("x", FLOAT, ["N", 3]), value("w", FLOAT, [3])],
        [value("y", FLOAT, None), value("z", FLOAT, [None, None])], {"w": numpy.float32([1, -2, 3])},
        producer_name="tests", domain="of.tests", model_version=7, doc_string="of the model",
    )  # fmt: skip


def of(runtime, model, *arguments, options=None, **keywords):
    """A session of a model, its bytes, or a path."""
    options = options or runtime.SessionOptions()
    options.log_severity_level = 4
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return runtime.InferenceSession(source, options, *arguments, **keywords)


def outcome(work):
    """What it returns, or the names of the exception's class and of those that it is one of."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return work()
        except Exception as error:
            return Raised(error)


class Raised:
    def __init__(self, error):
        self.error = error
        self.classes = {kind.__name__ for kind in type(error).__mro__}

    def __repr__(self):
        return f"{type(self.error).__name__}: {self.error}"


class Both(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def saved(self, model, name="model.onnx"):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def same(self, made, wanted, where=None):
        """Arrays of one type, shape and content; lists, dicts, None and texts."""
        self.assertIs(type(made), type(wanted), where)
        if isinstance(wanted, (list, tuple)):
            self.assertEqual(len(made), len(wanted), where)
            for one, other in zip(made, wanted):
                self.same(one, other, where)
        elif isinstance(wanted, numpy.ndarray):
            self.assertEqual((made.dtype, made.shape), (wanted.dtype, wanted.shape), where)
            if wanted.dtype.kind == "f":
                numpy.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
            else:
                self.assertEqual(made.tolist(), wanted.tolist(), where)
        elif isinstance(wanted, dict):
            self.assertEqual(list(made), list(wanted), where)
            self.same([numpy.array(x) for x in made.values()], [numpy.array(x) for x in wanted.values()], where)
        else:
            self.assertEqual(made, wanted, where)

    def alike(self, work, where=None):
        """work(runtime) returns the same with both, or raises an exception that the other's handlers catch."""
        wanted, made = (outcome(lambda: work(runtime)) for runtime in BOTH)
        if isinstance(wanted, Raised):
            self.assertIsInstance(made, Raised, (where, wanted))
            self.assertIn(type(wanted.error).__name__, made.classes, (where, wanted, made))
        else:
            if isinstance(made, Raised):
                raise made.error
            self.same(made, wanted, where)
        return made
