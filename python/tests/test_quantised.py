"""Products between DequantizeLinear and QuantizeLinear are ones of bytes, and what is said of their results holds."""

import tempfile
import unittest

import numpy
from beside_onnxruntime import node, reference_of, saved, value
from onnx import TensorProto

import fettle

RNG = numpy.random.default_rng(5)
S_IN, S_W, S_OUT = 0.021, 0.0037, 0.05


def bytes_of(kind, *shape):
    limits = numpy.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def between_steps(op, x_kind, w_kind, weights, bias=None, **attrs):
    """Nodes and constants of quantised(relu(op(dequantised(x), dequantised(w)) + bias))."""
    per_channel = weights.shape[0] if op == "Conv" else weights.shape[-1]
    w_scale = RNG.uniform(0.5, 1.5, per_channel).astype("float32") * numpy.float32(S_W)
    constants = {
        "x_scale": numpy.float32(S_IN),
        "x_zero": x_kind(21),
        "w": weights,
        "w_scale": w_scale,
        "w_zero": numpy.full(per_channel, 131 if w_kind == numpy.uint8 else 3, w_kind),
        "y_scale": numpy.float32(S_OUT),
        "y_zero": x_kind(3),
    }
    nodes = [
        node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["dx"]),
        node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["dw"], axis=0 if op == "Conv" else 1),
    ]
    given = ["dx", "dw"]
    if bias is not None:
        constants |= {"b": bias, "b_scale": numpy.float32(S_IN) * w_scale, "b_zero": numpy.zeros(per_channel, "int32")}
        nodes.append(node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["db"], axis=0))
        given.append("db")
    nodes += [
        node(op, given, ["p"], **attrs),
        node("Relu", ["p"], ["r"]),
        node("QuantizeLinear", ["r", "y_scale", "y_zero"], ["y"]),
    ]
    return nodes, constants


class Quantised(unittest.TestCase):
    def check(self, made, x, y_shape, x_type):
        nodes, constants = made
        with tempfile.TemporaryDirectory() as folder:
            inputs, outputs = [value("x", x_type, x.shape)], [value("y", x_type, y_shape)]
            path = saved(folder, nodes, inputs, outputs, constants)
            model = fettle.compile(path)
            steps = model.run(x=x)["y"].astype(int)
            floats = fettle.compile(path, without=["lower_quantized"]).run(x=x)["y"].astype(int)
            theirs = reference_of(path).run(None, {"x": x})[0].astype(int)
        for wanted, least in ((floats, 0.999), (theirs, 0.99)):
            self.assertLessEqual(numpy.abs(steps - wanted).max(), 1)
            self.assertGreaterEqual((steps == wanted).mean(), least)
        self.assertGreater(len(numpy.unique(steps)), 20)

    def test_matrices(self):
        for x_kind, x_type in ((numpy.uint8, TensorProto.UINT8), (numpy.int8, TensorProto.INT8)):
            for w_kind in (numpy.uint8, numpy.int8):
                made = between_steps("MatMul", x_kind, w_kind, bytes_of(w_kind, 96, 70))
                self.check(made, bytes_of(x_kind, 3, 50, 96), (3, 50, 70), x_type)

    def test_images(self):
        for channels in (3, 16):
            weights = bytes_of(numpy.int8, 32, channels, 3, 3)
            bias = RNG.integers(-5000, 5000, 32).astype("int32")
            made = between_steps("Conv", numpy.uint8, numpy.int8, weights, bias, pads=[1, 1, 1, 1], strides=[2, 2])
            self.check(made, bytes_of(numpy.uint8, 2, channels, 28, 30), (2, 32, 14, 15), TensorProto.UINT8)


if __name__ == "__main__":
    unittest.main()
