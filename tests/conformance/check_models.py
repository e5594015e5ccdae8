#!/usr/bin/env python3
"""Models that wheels on PyPI carry, each compiled once and run at several sizes beside ONNX Runtime.

usage: check_models.py [--only TEXT] [--processes N] [--out FOLDER] [--write]

The reference is ONNX Runtime without its optimisations: some of these compute quantised operators otherwise. How near
results can be, it says itself: it runs copies of the model in which each float of the parameters and inputs is off by
its rounding error, and in a quantised model by NOISE_OF_STEPS, so that some values near the middle become the
neighbouring step. What follows from that is what rounding explains. A result is wrong where it is further away than MANY times that and OF_SCALE of the largest value, or
has another type or shape; whole numbers, where they differ although those copies agree.

Writes OUT/models_checked.json, and with --write the table of docs/conformance.md. Ends with 1 where a result is wrong."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts"), str(ROOT / "tests/support")]

import fettle
from apart import run_apart
from benchmark_tables import replace_table

PAGE = ROOT / "docs/conformance.md"
TABLE = pathlib.Path(__file__).with_name("models.json")
OF_SCALE, MANY, COPIES = 1e-4, 4, 8
NOISE, NOISE_OF_STEPS = 2.0**-23, 2.0**-14
SMALL = 8  # elements: of factors of extents, say, which must be as they are


def given(inputs, sizes, seed):
    rng = numpy.random.default_rng(seed)
    feed = {}
    for spec in inputs:
        shape = [sizes.get(d, d) for d in spec["shape"]]
        fill = spec["fill"]
        if fill in ("image", "sound"):
            feed[spec["name"]] = (rng.standard_normal(shape) * (0.3 if fill == "image" else 0.1)).astype(numpy.float32)
        elif fill == "ids":
            feed[spec["name"]] = rng.integers(0, spec["below"], shape)
        elif fill == "ones":
            feed[spec["name"]] = numpy.ones(shape, numpy.int64)
        elif fill == "zeros":
            feed[spec["name"]] = numpy.zeros(shape, numpy.float32)
        else:
            feed[spec["name"]] = numpy.full(shape, spec["value"], fill)
    return feed


def with_noise(array, noise, rng):
    if array.dtype not in (numpy.float32, numpy.float64):
        return array
    return numpy.asarray(array * (1 + noise * rng.uniform(-1, 1, array.shape))).astype(array.dtype)


def noise_of(model):
    quantised = any("Quantize" in node.op_type or "QLinear" in node.op_type for node in model.graph.node)
    return NOISE_OF_STEPS if quantised else NOISE


def copy_with_noise(model, seed):
    rng, noise = numpy.random.default_rng(seed), noise_of(model)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)

    def change(tensor):
        if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
            values = numpy_helper.to_array(tensor)
            if values.size > SMALL:
                tensor.CopyFrom(numpy_helper.from_array(with_noise(values, noise, rng), tensor.name))

    def visit(graph):
        for tensor in graph.initializer:
            change(tensor)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)
                elif attribute.type == onnx.AttributeProto.TENSOR and node.op_type == "Constant":
                    change(attribute.t)

    visit(copy.graph)
    return copy


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def apart(a, b):
    """Over the largest magnitude in b; infinite where types or shapes differ."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return numpy.inf
    if not b.size:
        return 0.0
    x, y = a.astype(numpy.float64), b.astype(numpy.float64)
    gap = numpy.where((x == y) | (numpy.isnan(x) & numpy.isnan(y)), 0, numpy.abs(x - y))
    gap = numpy.where(numpy.isnan(gap), numpy.inf, gap)
    return float(gap.max() / max(1e-9, numpy.abs(y[numpy.isfinite(y)]).max(initial=0)))


def check(entry, tell):
    """JSON: what of the results is furthest from where it may be."""
    del tell
    path = str(ROOT / "build/models" / entry["file"])
    try:
        compiled = fettle.compile(path)
    except fettle.Error as error:
        return json.dumps({"refused": str(error).replace(f"{ROOT}/", "")})
    model = onnx.load(path)
    reference = session(path)
    names = [output.name for output in reference.get_outputs()]
    feeds = [given(entry["inputs"], sizes, seed) for seed, sizes in enumerate(entry["sizes"])]
    wanted = [reference.run(None, feed) for feed in feeds]
    explained = numpy.zeros((len(feeds), len(names)))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(COPIES):
            other = os.path.join(folder, "copy.onnx")
            onnx.save(copy_with_noise(model, seed), other)
            rng = numpy.random.default_rng(seed)
            copy = session(other)
            for i, feed in enumerate(feeds):
                results = copy.run(None, {k: with_noise(v, noise_of(model), rng) for k, v in feed.items()})
                explained[i] = numpy.maximum(explained[i], [apart(r, w) for r, w in zip(results, wanted[i])])
    worst = {"runs": len(feeds), "outputs": len(names), "apart": 0.0, "explained": 0.0, "wrong": []}
    for i, feed in enumerate(feeds):
        made = compiled.run(**feed)
        for j, name in enumerate(names):
            off, by_rounding = apart(made[name], wanted[i][j]), float(explained[i][j])
            most = MANY * by_rounding + (OF_SCALE if wanted[i][j].dtype.kind == "f" else 0)
            if off > most:
                worst["wrong"].append(f"{name} with {entry['sizes'][i]}: {off:.3g} apart, {by_rounding:.3g} explained")
            worst["apart"] = max(worst["apart"], off)
            worst["explained"] = max(worst["explained"], by_rounding)
    return json.dumps(worst)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of models_checked.json")
    parser.add_argument("--write", action="store_true", help="write the table of docs/conformance.md")
    options = parser.parse_args()
    subprocess.run([sys.executable, ROOT / "scripts/fetch_models.py", TABLE], check=True)
    entries = {e["name"]: e for e in json.loads(TABLE.read_text())["models"] if options.only in e["name"]}
    results = {}
    for name, verdict, _, how in run_apart(list(entries), lambda name, tell: check(entries[name], tell), options.processes):
        results[name] = {"refused": f"{how} {verdict}"} if how else json.loads(verdict)
        print(f"{name}: {results[name]}", flush=True)
    figures, rows, bad = [], [], 0
    for name in entries:
        result = results[name]
        wrong = result.get("wrong", [])
        bad += bool(wrong or "refused" in result)
        entry = entries[name]
        figures.append({"what": f"{name}: wrong results", "value": len(wrong) or int("refused" in result), "unit": "",
                        "bound": "<= 0", "holds": not wrong and "refused" not in result})
        cells = [result["refused"]] + ["-"] * 3 if "refused" in result else [
            str(len(wrong)), str(result["runs"]), f"{result['apart']:.1e}", f"{result['explained']:.1e}"]
        rows.append(f"| `{entry['source']['member']}` of {entry['source']['wheel']} | " + " | ".join(cells) + " |")
    if options.write:
        PAGE.write_text(replace_table(PAGE.read_text(), "models", rows))
    if not options.only:
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / "models_checked.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{len(entries)} models, {bad} of them wrong or refused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
