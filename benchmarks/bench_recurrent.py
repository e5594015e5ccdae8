#!/usr/bin/env python3
"""Recurrent layers and small loops, untuned, against ONNX Runtime and OpenVINO.

usage: bench_recurrent.py [--only TEXT] [--threads N ...] [--time SECONDS] [--out FOLDER]
Makes the models in build/recurrent/ and times each with `fettle bench --against onnxruntime,openvino`, in turn, for each
number of threads. A Loop goes without OpenVINO, which does not take it. Writes OUT/recurrent.json; ends with 1 where a figure
misses its bound.
"""

import numpy
from bench_operators import FLOAT, INT64, floats
from beside_engines import run
from onnx import TensorProto, helper, numpy_helper

BOTH = ["onnxruntime", "openvino"]
STEPS, INPUTS, HIDDEN, VALUES = 100, 128, 256, 64


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants):
    weights = [numpy_helper.from_array(numpy.asarray(content), name) for name, content in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def layer(op, gates, batch, **attributes):
    node = helper.make_node(op, ["x", "W", "R", "B"], ["y", "h"], direction="bidirectional", hidden_size=HIDDEN, **attributes)
    weights = {"W": [gates * HIDDEN, INPUTS], "R": [gates * HIDDEN, HIDDEN], "B": [2 * gates * HIDDEN]}
    return model(
        [node],
        [value("x", [STEPS, batch, INPUTS])],
        [value("y", [STEPS, 2, batch, HIDDEN]), value("h", [2, batch, HIDDEN])],
        {name: floats(2, *shape) * 0.1 for name, shape in weights.items()},
    )


FIVE = {"a": numpy.float32(0.9), "b": numpy.float32(0.05), "low": numpy.float32(-1)}


def five(x):
    """Five elementwise operators on s and x."""
    chain = [("Mul", "s", "a"), ("Add", "v0", x), ("Relu", "v1"), ("Sub", "v2", "b"), ("Max", "v3", "low")]
    return [helper.make_node(op, list(given), ["s1" if i == 4 else f"v{i}"]) for i, (op, *given) in enumerate(chain)]


def loop(iterations):
    body = helper.make_graph(
        five("x"),
        "body",
        [value("i", [], INT64), value("c", [], TensorProto.BOOL), value("s", [VALUES])],
        [value("c", [], TensorProto.BOOL), value("s1", [VALUES])],
    )
    node = helper.make_node("Loop", ["n", "", "s0"], ["y"], body=body)
    inputs = [value("s0", [VALUES]), value("x", [VALUES])]
    return model([node], inputs, [value("y", [VALUES])], {**FIVE, "n": numpy.int64(iterations)})


def scan(iterations):
    nodes = [*five("row"), helper.make_node("Identity", ["s1"], ["out"])]
    body = helper.make_graph(
        nodes, "body", [value("s", [VALUES]), value("row", [VALUES])], [value("s1", [VALUES]), value("out", [VALUES])]
    )
    node = helper.make_node("Scan", ["s0", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
    inputs = [value("s0", [VALUES]), value("x", [iterations, VALUES])]
    return model([node], inputs, [value("y", [VALUES]), value("rows", [iterations, VALUES])], FIVE)


def cases():
    yield "Loop, 1,000 times five operators", loop(1000), 0.05, ["onnxruntime"]
    yield "Scan, 1,000 times five operators", scan(1000), 0.1, BOTH
    for batch in (1, 16):
        yield f"LSTM, batch {batch}", layer("LSTM", 4, batch), 0.8, BOTH
        yield f"GRU, batch {batch}", layer("GRU", 3, batch, linear_before_reset=1), 0.8, BOTH


if __name__ == "__main__":
    run(__doc__, "recurrent", cases())
