#!/usr/bin/env python3
"""Attention, alone and in encoders, untuned, against ONNX Runtime and OpenVINO.

usage: bench_attention.py [--only TEXT] [--threads N ...] [--time SECONDS] [--out FOLDER]
Makes the models in build/attention/, spelled out as exporters write them (product, scale, softmax, product), and times each
with `fettle bench --against onnxruntime,openvino`, in turn, for each number of threads. Writes OUT/attention.json; ends with
1 where a figure misses its bound.
"""

import math

import numpy
from bench_operators import FLOAT, floats
from beside_engines import run
from onnx import helper, numpy_helper

BOTH = ["onnxruntime", "openvino"]


class Maker:
    """Nodes, constants and inputs, as they come."""

    def __init__(self):
        self.nodes, self.constants, self.inputs = [], [], []

    def input(self, *shape):
        self.inputs.append(helper.make_tensor_value_info(f"x{len(self.inputs)}", FLOAT, shape))
        return self.inputs[-1].name

    def constant(self, content):
        self.constants.append(numpy_helper.from_array(numpy.asarray(content), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def __call__(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def model(self, result, *shape):
        outputs = [helper.make_tensor_value_info(result, FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attend(m, query, key, value, width, mask=None):
    """query, value: [batch, heads, rows, width]; key: [batch, heads, width, rows]"""
    scores = m("Mul", m("MatMul", query, key), m.constant(numpy.float32(1 / math.sqrt(width))))
    if mask:
        scores = m("Add", scores, mask)
    return m("MatMul", m("Softmax", scores, axis=-1), value)


def heads_alone(heads, tokens, width, groups=None, causal=False):
    """groups: heads of keys and values, each for as many queries' heads, spelled out by an Expand."""
    m, shape = Maker(), [1, heads, tokens, width]
    query, key, value = m.input(*shape), m.input(1, groups or heads, tokens, width), m.input(1, groups or heads, tokens, width)
    if groups:

        def repeated(x):
            apart = m("Unsqueeze", x, m.constant(numpy.array([2])))
            spread = m("Expand", apart, m.constant(numpy.array([1, groups, heads // groups, tokens, width])))
            return m("Reshape", spread, m.constant(numpy.array(shape)))

        key, value = repeated(key), repeated(value)
    hidden = numpy.triu(numpy.full((tokens, tokens), numpy.finfo(numpy.float32).min), 1)
    mask = m.constant(hidden) if causal else None
    return m.model(attend(m, query, m("Transpose", key, perm=[0, 1, 3, 2]), value, width, mask), *shape)


def encoder(batch, tokens, width, heads, layers):
    """Layers of a transformer: attention, two dense layers with Gelu's erf, norms before each."""
    m = Maker()
    x = m.input(batch, tokens, width)

    def dense(x, n_in, n_out):
        return m("Add", m("MatMul", x, m.constant(floats(n_in, n_out) / math.sqrt(n_in))), m.constant(floats(n_out)))

    def split(x, *perm):
        shaped = m("Reshape", x, m.constant(numpy.array([batch, tokens, heads, width // heads])))
        return m("Transpose", shaped, perm=perm)

    for _ in range(layers):
        y = m("LayerNormalization", x, m.constant(floats(width)), m.constant(floats(width)))
        query, value = split(dense(y, width, width), 0, 2, 1, 3), split(dense(y, width, width), 0, 2, 1, 3)
        y = attend(m, query, split(dense(y, width, width), 0, 2, 3, 1), value, width // heads)
        y = m("Reshape", m("Transpose", y, perm=[0, 2, 1, 3]), m.constant(numpy.array([batch, tokens, width])))
        x = m("Add", x, dense(y, width, width))
        y = dense(m("LayerNormalization", x, m.constant(floats(width)), m.constant(floats(width))), width, 4 * width)
        half, one = m.constant(numpy.float32(0.5)), m.constant(numpy.float32(1))
        error = m("Erf", m("Div", y, m.constant(numpy.float32(math.sqrt(2)))))
        x = m("Add", x, dense(m("Mul", m("Mul", y, m("Add", error, one)), half), 4 * width, width))
    return m.model(x, batch, tokens, width)


def cases():
    yield "12 heads of 512x64", heads_alone(12, 512, 64), 0.85, BOTH
    yield "6 heads of 1500x64", heads_alone(6, 1500, 64), 0.85, BOTH
    yield "32 heads on 8 of 2048x128, causal", heads_alone(32, 2048, 128, groups=8, causal=True), 0.85, BOTH
    yield "BERT-base's layers, 4x384 tokens", encoder(4, 384, 768, 12, layers=2), 0.95, BOTH
    yield "encoder of 1500 tokens", encoder(1, 1500, 384, 6, layers=2), 0.95, BOTH


if __name__ == "__main__":
    run(__doc__, "attention", cases())
