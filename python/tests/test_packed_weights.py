"""Products with weights of few bits beside ONNX Runtime: variants drawn from seeds. FETTLE_MODELS says how many."""

import os
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fettle

MODELS = int(os.environ.get("FETTLE_MODELS", "12"))
KINDS = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128), TensorProto.UINT8: (0, 256)}


class Variant:
    """A product with everything drawn: open or known rows, columns and steps that are no whole vectors and blocks."""

    def __init__(self, seed):
        self.draw = numpy.random.default_rng(seed)
        self.steps, self.columns = (int(n) for n in self.draw.integers(8, 200, 2))
        self.block = int(self.draw.choice([16, 32, 64]))
        self.blocks = -(-self.steps // self.block)
        self.rows = int(self.draw.choice([1, 1, 2, 5, 17]))
        self.type, self.constants = numpy.float32, []

    def flip(self, share=0.5):
        return self.draw.random() < share

    def constant(self, name, content):
        self.constants.append(content if isinstance(content, TensorProto) else numpy_helper.from_array(content, name))
        return name

    def scales(self, *shape):
        return self.constant("scales", self.draw.uniform(0.01, 0.1, shape).astype(self.type))

    def numbers(self, name, kind, *shape):
        return self.constant(name, helper.make_tensor(name, kind, shape, self.draw.integers(*KINDS[kind], shape).ravel().tolist()))

    def packed(self):
        """MatMulNBits, then perhaps Relu."""
        bits = int(self.draw.choice([2, 4, 8]))
        weights = self.draw.integers(0, 256, (self.columns, self.blocks, self.block * bits // 8), dtype=numpy.uint8)
        inputs = ["x", self.constant("weights", weights), self.scales(self.columns * self.blocks), "", "", ""]
        if self.flip():
            zeros = self.draw.integers(0, 256, self.columns * -(-self.blocks * bits // 8), dtype=numpy.uint8)
            inputs[3] = self.constant("zeros", zeros)
        if self.flip(0.3):
            inputs[5] = self.constant("bias", self.draw.standard_normal(self.columns).astype(numpy.float32))
        return [
            helper.make_node("MatMulNBits", inputs, ["sum"], domain="com.microsoft", K=self.steps, N=self.columns, bits=bits,
                             block_size=self.block),
            helper.make_node("Relu" if self.flip() else "Identity", ["sum"], ["y"])]  # fmt: skip

    def dequantized(self):
        """MatMul behind DequantizeLinear in blocks."""
        kind, turned = list(KINDS)[int(self.draw.integers(4))], self.flip(0.4)
        self.type = numpy.float16 if self.flip(0.3) else numpy.float32
        shape, blocks = [self.steps, self.columns], [self.blocks, self.columns]
        if turned:
            shape, blocks = shape[::-1], blocks[::-1]
        inputs = [self.numbers("weights", kind, *shape), self.scales(*blocks)]
        if self.flip():
            inputs.append(self.numbers("zeros", kind, *blocks))
        nodes = [helper.make_node("DequantizeLinear", inputs, ["w"], axis=1 if turned else 0, block_size=self.block)]
        if turned:
            nodes.append(helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]))
        return [*nodes, helper.make_node("MatMul", ["x", "turned" if turned else "w"], ["y"])]

    def model(self, nodes):
        kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(self.type))
        rows = "rows" if self.flip(0.4) else self.rows
        given = helper.make_tensor_value_info("x", kind, [rows, self.steps])
        graph = helper.make_graph(nodes, "g", [given], [helper.make_tensor_value_info("y", kind, None)], self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class PackedWeights(unittest.TestCase):
    def compare(self, make):
        for seed in range(MODELS):
            variant = Variant(seed)
            model = variant.model(make(variant))
            # Optimised, ONNX Runtime rounds activations to bytes behind DequantizeLinear.
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            x = variant.draw.standard_normal((variant.rows, variant.steps)).astype(variant.type)
            wanted = session.run(None, {"x": x})[0].astype(numpy.float64)
            made = fettle.compile(model, cache=False, threads=1 + seed % 2)(x)
            allowed = 5e-3 if variant.type == numpy.float16 else 2e-5
            with self.subTest(seed=seed):
                self.assertEqual(made.shape, wanted.shape)
                self.assertLessEqual(numpy.abs(made - wanted).max(), allowed * numpy.abs(wanted).max())

    def test_of_packed_bytes(self):
        self.compare(Variant.packed)

    def test_behind_dequantize_linear(self):
        self.compare(Variant.dequantized)


if __name__ == "__main__":
    unittest.main()
