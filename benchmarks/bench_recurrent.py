#!/usr/bin/env python3
"""Recurrent layers and small loops, untuned, against ONNX Runtime and OpenVINO.

usage: bench_recurrent.py [--only TEXT] [--threads N ...] [--time SECONDS] [--out FOLDER]
Makes the models in build/recurrent/ and times each with `fettle bench --against onnxruntime,openvino`, in turn, for each
number of threads. A Loop goes without OpenVINO, which does not take it. Writes OUT/recurrent.json; ends with 1 where a figure
misses its bound.
"""

import argparse
import json
import pathlib
import sys

import numpy
import onnx
from bench_operators import FLOAT, INT64, ROOT, fettle, floats
from onnx import TensorProto, helper, numpy_helper

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
    """Name, model, what of the better engine's time it may take at most."""
    yield "Loop, 1,000 times five operators", loop(1000), 0.05
    yield "Scan, 1,000 times five operators", scan(1000), 0.1
    for batch in (1, 16):
        yield f"LSTM, batch {batch}", layer("LSTM", 4, batch), 0.8
        yield f"GRU, batch {batch}", layer("GRU", 3, batch, linear_before_reset=1), 0.8


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--time", type=float, default=2, help="seconds for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of recurrent.json")
    options = parser.parse_args()
    folder = ROOT / "build/recurrent"
    folder.mkdir(parents=True, exist_ok=True)
    rows, failed = [], False
    for name, made, most in cases():
        if options.only.lower() not in name.lower():
            continue
        path = folder / (name.replace(" ", "_").replace(",", "") + ".onnx")
        onnx.save(made, path)
        peers = "onnxruntime" if name.startswith("Loop") else "onnxruntime,openvino"
        for threads in options.threads:
            given = ["--threads", threads, "--time", options.time, "--against", peers, "--json"]
            try:
                timed = fettle("bench", path, *given)
            except RuntimeError as error:
                print(f"{name:<34} {error}", flush=True)
                failed = True
                continue
            times = {peer: figures["median"] for peer, figures in timed["against"].items()}
            own = timed["latency_ms"]["median"]
            ratio = own / min(times.values())
            what = f"{name}, {threads} thread{'s' if threads > 1 else ''}: over the better engine"
            rows.append({"what": what, "value": ratio, "unit": "x", "bound": f"<= {most}", "holds": ratio <= most})
            others = "  ".join(f"{peer} {time * 1e3:>9.1f} us" for peer, time in times.items())
            missed = "" if ratio <= most else "  MISSED"
            print(f"{name:<34} {threads}  {own * 1e3:>9.1f} us  {others}  {ratio:>7.4f}{missed}", flush=True)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "recurrent.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failed or not all(row["holds"] for row in rows) else 0)


if __name__ == "__main__":
    main()
