#!/usr/bin/env python3
"""Writes the ONNX subgraphs that schedules by hand are timed against in other engines: subgraphs.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(folder, name, nodes, inputs, output, constants=()):
    def value(tensor, shape):
        return helper.make_tensor_value_info(tensor, TensorProto.FLOAT, shape)

    graph = helper.make_graph(nodes, name, [value(n, s) for n, s in inputs], [value("O", output)],
                              [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / f"{name}.onnx"))


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    node = helper.make_node
    tokens = [1, 12, 512, 64]
    save(folder, "attention",
         [node("Transpose", ["K"], ["KT"], perm=[0, 1, 3, 2]), node("MatMul", ["Q", "KT"], ["X"]),
          node("Mul", ["X", "scale"], ["Y"]), node("Softmax", ["Y"], ["P"], axis=-1), node("MatMul", ["P", "V"], ["O"])],
         [("Q", tokens), ("K", tokens), ("V", tokens)], tokens, [("scale", np.array(0.125))])
    image = [1, 96, 112, 112]
    save(folder, "depthwise", [node("Conv", ["I", "W"], ["O"], group=96, pads=[1, 1, 1, 1], kernel_shape=[3, 3])],
         [("I", image)], image, [("W", random.standard_normal((96, 1, 3, 3)))])
    rows = [12, 128, 128]
    save(folder, "softmax", [node("Softmax", ["X"], ["O"], axis=-1)], [("X", rows)], rows)
    words = [128, 768]
    save(folder, "layer_norm", [node("LayerNormalization", ["X", "G", "B"], ["O"], axis=-1)], [("X", words)], words,
         [("G", random.standard_normal(768)), ("B", random.standard_normal(768))])


if __name__ == "__main__":
    main()
