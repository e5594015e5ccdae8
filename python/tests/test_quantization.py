"""fettle.quantize beside ONNX Runtime's quantiser: who is nearer to the model of floats, and whether both run the file."""

import os
import pathlib
import tempfile
import unittest

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import fettle

RNG = numpy.random.default_rng(7)


def constant(name, *shape, scale=0.2):
    return onnx.numpy_helper.from_array((RNG.standard_normal(shape) * scale).astype("float32"), name)


def model_of(nodes, inputs, outputs, constants, opset=17):
    def value(name, shape):
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    graph = onnx.helper.make_graph(nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def residual_network():
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Conv", ["p1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "p1"], ["s2"]),
        node("Relu", ["s2"], ["r2"]),
        node("Conv", ["r2", "w3"], ["c3"], pads=[1, 1, 1, 1], group=16),
        node("Clip", ["c3", "low", "high"], ["r3"]),
        node("ConvTranspose", ["r3", "w4", "b4"], ["c4"], strides=[2, 2]),
        node("Concat", ["c4", "x"], ["joined"], axis=1),
        node("Conv", ["joined", "w5", "b5"], ["c5"]),
        node("GlobalAveragePool", ["c5"], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", "w6", "b6"], ["y"], transB=1),
    ]
    constants = [constant("w1", 16, 3, 3, 3), constant("b1", 16), constant("w2", 16, 16, 3, 3, scale=0.1), constant("b2", 16),
                 constant("w3", 16, 1, 3, 3), constant("w4", 16, 8, 2, 2), constant("b4", 8), constant("w5", 24, 11, 1, 1),
                 constant("b5", 24), constant("w6", 10, 24), constant("b6", 10),
                 onnx.numpy_helper.from_array(numpy.float32(0), "low"),
                 onnx.numpy_helper.from_array(numpy.float32(6), "high")]  # fmt: skip
    return model_of(nodes, [("x", [2, 3, 16, 16])], [("y", [2, 10])], constants)


def attention():
    node = onnx.helper.make_node
    nodes, constants = [], []
    for name in "qkv":
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            node("Add", [f"{name}0", f"b{name}"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "heads"], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [name], perm=perm),
        ]
        constants += [constant(f"w{name}", 32, 32), constant(f"b{name}", 32)]
    nodes += [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Softmax", ["scores"], ["weights"]),
        node("MatMul", ["weights", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "flat"], ["rows"]),
        node("MatMul", ["rows", "wo"], ["out"]),
        node("Add", ["out", "x"], ["y"]),
    ]
    constants += [constant("wo", 32, 32), onnx.numpy_helper.from_array(numpy.int64([0, 0, 4, 8]), "heads"),
                  onnx.numpy_helper.from_array(numpy.int64([0, 0, 32]), "flat")]  # fmt: skip
    return model_of(nodes, [("x", [2, 12, 32])], [("y", [2, 12, 32])], constants)


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.left = list(samples)

    def get_next(self):
        return self.left.pop(0) if self.left else None


def by_onnxruntime(model, samples, **options):
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "float.onnx"), os.path.join(folder, "int8.onnx")
        onnx.save(model, source)
        quantize_static(source, made, Reader(samples), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8, **options)  # fmt: skip
        return pathlib.Path(made).read_bytes()


def run_by_onnxruntime(data, x, optimized=True):
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def error(made, exact):
    return float(numpy.sqrt(((made - exact) ** 2).sum() / (exact**2).sum()))


class Quantization(unittest.TestCase):
    def judge(self, model, shape, **options):
        samples = [{"x": RNG.standard_normal(shape, "float32")} for _ in range(6)]
        per_channel = options.get("per_channel", True)
        data = fettle.quantize(model, samples, threads=1, **options)
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
        theirs = by_onnxruntime(model, samples, per_channel=per_channel)
        ours = fettle.compile(data, cache=False, threads=1)
        errors, their_errors = [], []
        for sample in samples + [{"x": RNG.standard_normal(shape, "float32")} for _ in range(6)]:
            exact = run_by_onnxruntime(model.SerializeToString(), sample["x"])
            made = run_by_onnxruntime(data, sample["x"], optimized=False)
            # Where a number lies between two steps, rounding of floats decides.
            self.assertLess(error(ours(sample["x"]), made), 0.01)
            self.assertLess(error(run_by_onnxruntime(data, sample["x"]), exact), 0.2)
            errors.append(error(made, exact))
            their_errors.append(error(run_by_onnxruntime(theirs, sample["x"], optimized=False), exact))
        self.assertLessEqual(numpy.mean(errors), 1.1 * numpy.mean(their_errors))
        self.assertLess(numpy.mean(errors), 0.1)
        return data

    def test_convolutions(self):
        data = self.judge(residual_network(), (2, 3, 16, 16))
        stored = {t.name: t.data_type for t in onnx.load_from_string(data).graph.initializer}
        self.assertNotIn("b1", stored)
        self.assertTrue(all(stored[f"b{i}_quantized"] == onnx.TensorProto.INT32 for i in (1, 2, 4, 5, 6)))

    def test_one_scale_for_each_tensor(self):
        self.judge(residual_network(), (2, 3, 16, 16), per_channel=False)

    def test_attention(self):
        data = self.judge(attention(), (2, 12, 32))
        ops = [node.op_type for node in onnx.load_from_string(data).graph.node]
        self.assertEqual(ops.count("QuantizeLinear"), ops.count("DequantizeLinear") - 4)  # four weights

    def test_writes_external_data(self):
        model = residual_network()
        with tempfile.TemporaryDirectory() as folder:
            source, made = os.path.join(folder, "float.onnx"), os.path.join(folder, "made", "int8.onnx")
            os.mkdir(os.path.dirname(made))
            onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
            x = RNG.standard_normal((2, 3, 16, 16), "float32")
            self.assertIsNone(fettle.quantize(source, [x], out=made, exclude=["ConvTranspose"], threads=1))
            self.assertEqual(sorted(os.listdir(os.path.dirname(made))), ["int8.onnx", "int8.onnx.data"])
            data = fettle.quantize(source, [x], exclude=["ConvTranspose"], threads=1)  # with all its weights inside
            numpy.testing.assert_array_equal(run_by_onnxruntime(data, x, False), run_by_onnxruntime(made, x, False))
            os.remove(os.path.join(folder, "weights.bin"))
            self.assertLess(error(fettle.compile(made, cache=False)(x), run_by_onnxruntime(made, x, False)), 0.01)

    def test_bodies_stay_float(self):
        node = onnx.helper.make_node
        out = [onnx.helper.make_tensor_value_info("inside", onnx.TensorProto.FLOAT, [2, 8])]
        body = onnx.helper.make_graph([node("MatMul", ["h", "w"], ["inside"])], "body", [], out)
        other = onnx.helper.make_graph([node("Identity", ["h"], ["inside"])], "other", [], out)
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("ReduceSum", ["x"], ["sum"], keepdims=0),
                 node("Greater", ["sum", "zero"], ["is_positive"]),
                 node("If", ["is_positive"], ["c"], name="choice", then_branch=body, else_branch=other),
                 node("MatMul", ["h", "w"], ["d"]), node("Add", ["c", "d"], ["y"])]  # fmt: skip
        model = model_of(nodes, [("x", [2, 8])], [("y", [2, 8])], [constant("w", 8, 8), constant("zero")])
        report = {}
        x = RNG.standard_normal((2, 8), "float32")
        data = fettle.quantize(model, [x], report=report, threads=1)
        self.assertEqual(report["left"], [("If", "choice", "its bodies stay float")])
        self.assertEqual(report["products"], 2)
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
        self.assertLess(error(fettle.compile(data, cache=False)(x), run_by_onnxruntime(data, x, False)), 0.01)

    def test_misuse(self):
        x = RNG.standard_normal((2, 12, 32), "float32")
        with self.assertRaisesRegex(fettle.Error, "E709"):
            fettle.quantize(attention(), [])
        with self.assertRaisesRegex(fettle.Error, "E705"):
            fettle.quantize(attention(), [x.astype("float64")])
        with self.assertRaises(ValueError):
            fettle.quantize(attention(), [x], method="guess")


if __name__ == "__main__":
    unittest.main()
