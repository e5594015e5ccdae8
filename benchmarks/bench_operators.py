#!/usr/bin/env python3
"""Operators alone, untuned, against ONNX Runtime: shows where the constructed default has a hole.

usage: bench_operators.py [--only TEXT] [--threads N] [--time SECONDS] [--tune SECONDS] [--out FOLDER]
Makes a model of each operator in build/operators/ and times it with `fettle bench --against onnxruntime`, in turn. With --tune
each is tuned before. Writes OUT/operators.json; ends with 1 where a figure misses its bound.
Inputs and outputs lie as the model says, images channels first: what an operator would cost inside of a model, where images lie
channels last, may be less.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
FETTLE = ROOT / "build/bin/fettle"
MOST = 1.3  # of ONNX Runtime's time
MOST_DENORMAL = 1.05  # of the time with ordinary weights
FLOAT, HALF, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
RANDOM = numpy.random.default_rng(1)


def floats(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(numpy.float32)


def ints(*values):
    return numpy.array(values, numpy.int64)


def model(op, inputs, constants=(), output=FLOAT, opset=17, **attributes):
    """One node; inputs: shapes, or (shape, type); constants follow them (None: left out)."""
    names, given, weights = [], [], []
    for i, shape in enumerate(inputs):
        shape, kind = shape if isinstance(shape, tuple) else (shape, FLOAT)
        names.append(f"x{i}")
        given.append(helper.make_tensor_value_info(names[-1], kind, shape))
    for i, value in enumerate(constants):
        names.append("" if value is None else f"c{i}")
        if value is not None:
            weights.append(numpy_helper.from_array(value, names[-1]))
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], op, given, [helper.make_tensor_value_info("y", output, None)], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8 if opset <= 17 else 10
    return onnx.shape_inference.infer_shapes(made)


def cases():
    """name → model."""
    flat, cube, image = [512, 512], [64, 64, 128], [1, 64, 56, 56]
    for op in ("Relu", "Exp", "Tanh", "Sigmoid", "Erf", "Sqrt", "Log", "Softplus", "HardSwish", "Neg", "Floor", "Sin"):
        yield op, model(op, [flat])
    yield "Add of a row", model("Add", [flat, [512]])
    yield "Add of a column", model("Add", [flat, [512, 1]])
    yield "Mul of channels", model("Mul", [image, [1, 64, 1, 1]])
    yield "Mul, outer", model("Mul", [[512, 1], [1, 512]])
    yield "Cast to i32", model("Cast", [flat], output=TensorProto.INT32, to=TensorProto.INT32)
    yield "Cast from u8", model("Cast", [(flat, TensorProto.UINT8)], to=FLOAT)
    for kind, name in ((HALF, "f16"), (TensorProto.UINT8, "u8"), (INT64, "i64")):
        yield f"Transpose, {name}", model("Transpose", [(flat, kind)], output=kind, perm=[1, 0])
    for op in ("Relu", "Exp"):
        yield f"{op}, f16", model(op, [(flat, HALF)], output=HALF)
    yield "ReduceSum, f16", model("ReduceSum", [(flat, HALF)], [ints(1)], output=HALF)
    yield "ReduceMax, f16", model("ReduceMax", [(flat, HALF)], output=HALF, axes=[1])
    yield "Softmax, f16", model("Softmax", [(flat, HALF)], output=HALF, axis=1)
    yield "MatMul, f16", model("MatMul", [([256, 256], HALF), ([256, 256], HALF)], output=HALF)
    yield "Conv 3x3, f16", model("Conv", [([1, 64, 28, 28], HALF)], [floats(64, 64, 3, 3).astype(numpy.float16)], output=HALF,
                                 pads=[1] * 4)
    for name, shape, order in (("matrix", flat, [1, 0]), ("heads", [1, 197, 12, 64], [0, 2, 1, 3]),
                               ("to channels last", image, [0, 2, 3, 1]), ("to channels first", [1, 56, 56, 64], [0, 3, 1, 2]),
                               ("picture", [1, 3, 224, 224], [0, 2, 3, 1]), ("picture back", [1, 224, 224, 3], [0, 3, 1, 2])):
        yield f"Transpose, {name}", model("Transpose", [shape], perm=order)
    for op in ("ReduceMean", "ReduceMax"):
        for axis, name in enumerate(("first", "middle", "last")):
            yield f"{op}, {name}", model(op, [cube], axes=[axis], keepdims=0)
    yield "ReduceSum of everything", model("ReduceSum", [flat], keepdims=0)
    yield "ReduceL2", model("ReduceL2", [flat], axes=[1])
    for axis in (0, 1):
        yield f"ArgMax, {axis}", model("ArgMax", [flat], output=INT64, axis=axis, keepdims=0)
        yield f"Softmax, {axis}", model("Softmax", [flat], axis=axis)
        yield f"CumSum, {axis}", model("CumSum", [flat], [numpy.array(axis, numpy.int64)])
    for tokens, heads in ((512, 12), (1500, 6)):
        yield f"Attention of {heads} x {tokens} x 64", model("Attention", [[1, heads, tokens, 64]] * 3, opset=23)
    queries, keys = [1, 32, 2048, 128], [1, 8, 2048, 128]
    yield "Attention, causal, of 32 heads on 8 groups", model("Attention", [queries, keys, keys], opset=23, is_causal=1)
    yield "Softmax of channels", model("Softmax", [[1, 21, 128, 128]], axis=1)
    yield "LogSoftmax", model("LogSoftmax", [[256, 1000]], axis=1)
    yield "Concat of channels", model("Concat", [image, [1, 32, 56, 56]], axis=1)
    yield "Concat of columns", model("Concat", [[512, 100], [512, 77]], axis=1)
    yield "Slice in steps", model("Slice", [[512, 1024]], [ints(0), ints(1024), ints(1), ints(2)])
    yield "Slice backwards", model("Slice", [flat], [ints(-1), ints(-1000), ints(1), ints(-1)])
    for mode in ("constant", "reflect"):
        yield f"Pad, {mode}", model("Pad", [[1, 32, 56, 56]], [ints(0, 0, 3, 3, 0, 0, 3, 3)], mode=mode)
    rows = helper.make_node("Gather", ["w", "x"], ["y"])
    graph = helper.make_graph([rows], "rows", [helper.make_tensor_value_info("x", INT64, [128])],
                              [helper.make_tensor_value_info("y", FLOAT, [128, 768])],
                              [numpy_helper.from_array(floats(1000, 768), "w")])
    yield "Gather of rows", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    yield "Gather of columns", model("Gather", [flat], [RANDOM.integers(0, 512, 256)], axis=1)
    yield "Tile", model("Tile", [[64, 512]], [ints(4, 2)])
    yield "Expand", model("Expand", [[512, 1]], [ints(512, 512)])
    twice = numpy.array([1, 1, 2, 2], numpy.float32)
    yield "Resize, nearest", model("Resize", [[1, 32, 56, 56]], [None, twice], mode="nearest",
                                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield "Resize, linear", model("Resize", [[1, 32, 56, 56]], [None, twice], mode="linear")
    yield "DepthToSpace", model("DepthToSpace", [image], blocksize=2)
    yield "SpaceToDepth", model("SpaceToDepth", [[1, 16, 112, 112]], blocksize=2)
    yield "GlobalAveragePool", model("GlobalAveragePool", [[1, 256, 28, 28]])
    yield "MaxPool 3x3/2", model("MaxPool", [[1, 64, 112, 112]], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    yield "AveragePool 2x2/2", model("AveragePool", [[1, 64, 112, 112]], kernel_shape=[2, 2], strides=[2, 2])
    yield "MaxPool 3", model("MaxPool", [[1, 64, 4096]], kernel_shape=[3], pads=[1, 1])
    yield "InstanceNormalization", model("InstanceNormalization", [image], [floats(64), floats(64)])
    yield "BatchNormalization", model("BatchNormalization", [image], [floats(64), floats(64), floats(64), abs(floats(64))])
    yield "LayerNormalization", model("LayerNormalization", [[197, 768]], [floats(768), floats(768)])
    yield "LRN", model("LRN", [[1, 64, 28, 28]], size=5)
    yield "MatMul, one row", model("MatMul", [[1, 1024]], [floats(1024, 1024)])
    yield "Gemm, B transposed", model("Gemm", [[16, 768]], [floats(768, 768)], transB=1)
    yield "MatMul of two inputs", model("MatMul", [[256, 256], [256, 256]])
    yield "MatMul, small ones", model("MatMul", [[256, 8, 8], [256, 8, 8]])
    yield "Conv 1", model("Conv", [[1, 64, 1024]], [floats(64, 64, 5)], pads=[2, 2])
    yield "Conv 1x1", model("Conv", [[1, 256, 40, 40]], [floats(255, 256, 1, 1)])
    yield "Conv 3x3", model("Conv", [[1, 64, 28, 28]], [floats(64, 64, 3, 3)], pads=[1] * 4)
    yield "Conv 3x3 to a picture", model("Conv", [image], [floats(3, 64, 3, 3)], pads=[1] * 4)
    yield "Conv 3x3, 4 groups", model("Conv", [[1, 64, 28, 28]], [floats(64, 16, 3, 3)], pads=[1] * 4, group=4)
    yield "Conv 3x3, 32 groups of 4", model("Conv", [[1, 128, 28, 28]], [floats(128, 4, 3, 3)], pads=[1] * 4, group=32)
    yield "Conv 3x3, 10 groups of 12", model("Conv", [[1, 120, 28, 28]], [floats(120, 12, 3, 3)], pads=[1] * 4, group=10)
    yield "Conv 3x3, depthwise", model("Conv", [image], [floats(64, 1, 3, 3)], pads=[1] * 4, group=64)
    yield "Conv 3x3x3", model("Conv", [[1, 16, 8, 28, 28]], [floats(16, 16, 3, 3, 3)], pads=[1] * 6)
    yield "ConvTranspose 2x2/2", model("ConvTranspose", [[1, 64, 28, 28]], [floats(64, 32, 2, 2)], strides=[2, 2])
    yield "OneHot", model("OneHot", [([512], INT64)], [numpy.array(512), numpy.array([0, 1], numpy.float32)])


def denormal_cases():
    """name → a model, and the same with denormal weights."""
    for name, op, shape, weights in (("MatMul", "MatMul", [256, 512], floats(512, 512)),
                                     ("Conv 3x3", "Conv", [1, 64, 28, 28], floats(64, 64, 3, 3)),
                                     ("Mul by a row", "Mul", [512, 512], floats(512))):
        yield name, model(op, [shape], [weights]), model(op, [shape], [weights * numpy.float32(1e-39)])


def time_denormals(name, ordinary, denormal, folder, options):
    """The row of weights that are denormal, over ordinary ones: medians of turns."""
    ratios, path = [], folder / "denormals.onnx"
    for _ in range(5):
        times = []
        for made in (ordinary, denormal):
            onnx.save(made, path)
            timed = fettle("bench", path, "--threads", options.threads, "--time", options.time / 2, "--json")
            times.append(timed["latency_ms"]["median"])
        ratios.append(times[1] / times[0])
    ratio = float(numpy.median(ratios))
    missed = "" if ratio <= MOST_DENORMAL else "  MISSED"
    print(f"{name}, denormal weights over ordinary ones {ratio:>6.2f}{missed}", flush=True)
    return {"what": f"{name}: denormal weights over ordinary ones", "value": ratio, "unit": "x",
            "bound": f"<= {MOST_DENORMAL}", "holds": ratio <= MOST_DENORMAL}


def fettle(*arguments):
    done = subprocess.run([str(FETTLE), *map(str, arguments)], capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    result = json.loads(lines[-1]) if lines else {"error": {"code": "", "message": done.stderr.strip()[-200:]}}
    if "error" in result:
        raise RuntimeError(f"{result['error']['code']} {result['error']['message']}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time", type=float, default=0.5, help="seconds for each")
    parser.add_argument("--tune", type=float, default=0, help="seconds of tuning for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of operators.json")
    options = parser.parse_args()
    folder = ROOT / "build/operators"
    folder.mkdir(parents=True, exist_ok=True)
    rows, failed = [], False
    for name, made in cases():
        if options.only.lower() not in name.lower():
            continue
        path = folder / (name.replace(" ", "_").replace(",", "").replace("/", "_") + ".onnx")
        onnx.save(made, path)
        try:
            known = []
            if options.tune:
                known = ["--db", path.with_suffix(".db")]
                fettle("tune", path, *known, "--time", f"{options.tune}s", "--threads", options.threads, "--json")
            timed = fettle("bench", path, *known, "--threads", options.threads, "--time", options.time,
                           "--against", "onnxruntime", "--json")
        except RuntimeError as error:
            print(f"{name:<26} {error}", flush=True)
            failed = True
            continue
        own, peer = timed["latency_ms"]["median"], timed["against"]["onnxruntime"]["median"]
        ratio = own / peer
        rows.append({"what": f"{name}: over ONNX Runtime", "value": ratio, "unit": "x", "bound": f"<= {MOST}",
                     "holds": ratio <= MOST})
        missed = "" if ratio <= MOST else "  MISSED"
        print(f"{name:<26} {own * 1e3:>9.1f} us  ONNX Runtime {peer * 1e3:>9.1f} us  {ratio:>6.2f}{missed}", flush=True)
    for name, ordinary, denormal in denormal_cases():
        if options.only.lower() in f"{name}, denormal".lower():
            rows.append(time_denormals(name, ordinary, denormal, folder, options))
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "operators.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failed or not all(row["holds"] for row in rows) else 0)


if __name__ == "__main__":
    main()
