#!/usr/bin/env python3
"""How far results are from the exact ones, in single and half precision: the figures of docs/numerics.md.

usage: bench_numerics.py [--only TEXT] [--out FOLDER]
Runs operators alone, untuned, on one thread, and compares with double precision. Products and convolutions run by oneDNN, too
(bin/onednn-run, left out where it was not built). Writes OUT/numerics.json; ends with 1 where a figure misses its bound.

An error "of scale" is the largest error of an output element over the largest magnitude of an output element. An ulp is the
distance from the exact value's neighbour in the output's type.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
from bench_operators import FLOAT, HALF, ROOT, fettle, ints, model

ONEDNN = ROOT / "build/bin/onednn-run"
EPSILON = 2.0**-23
# An error bound that F(2x2, 3x3) of up to 512 channels keeps, and F(4x4, 3x3) does not.
TWO_BY_TWO = 4000
MEANS_OF_SCALE = 2e-7
OF_ONEDNN = 2.0

# name: the function in double precision, bound in ulp, largest |x|
FUNCTIONS = {
    "Exp": (numpy.exp, 1, math.inf),
    "Log": (numpy.log, 1, math.inf),
    "Tanh": (numpy.tanh, 2.5, math.inf),
    "Erf": (numpy.vectorize(math.erf, otypes=[float]), 2, math.inf),
    "Sigmoid": (lambda x: 1 / (1 + numpy.exp(-x)), 2.5, math.inf),
    "Sin": (numpy.sin, 1, 1e6),
    "Cos": (numpy.cos, 1, 1e6),
    "Sqrt": (numpy.sqrt, 0.5, math.inf),
}


class Figures:
    """The rows of numerics.json, printed as they come."""

    def __init__(self, only):
        self.rows = []
        self.only = only.lower()

    def wanted(self, what):
        return self.only in what.lower()

    @staticmethod
    def random(what):
        """Draws the same for a figure, whichever others are wanted."""
        return numpy.random.default_rng(list(what.encode()))

    def add(self, what, value, unit, bound=None):
        holds = None if bound is None else bool(value <= bound)
        self.rows.append({"what": what, "value": float(value), "unit": unit,
                          "bound": None if bound is None else f"<= {bound:.4g}", "holds": holds})
        note = "" if bound is None else f"  at most {bound:.4g}" + ("" if holds else "  MISSED")
        print(f"{what:<58} {value:>10.3g} {unit}{note}", flush=True)


def run_fettle(made, inputs, folder, *options):
    """The output of a model of one output, and what `compile` said."""
    onnx.save(made, folder / "model.onnx")
    fettle("compile", folder / "model.onnx", "-o", folder / "model.so", "--untuned", "--threads", 1, "--json", *options)
    given = []
    for i, array in enumerate(inputs):
        numpy.save(folder / f"x{i}.npy", array)
        given += ["--input", f"x{i}={folder}/x{i}.npy"]
    done = fettle("run", folder / "model.so", *given, "--output-dir", folder / "out",
                  "--keep-denormals", "--json")
    return numpy.load(done["outputs"][0]["file"])


def run_onednn(what, x, weights, folder):
    """Its output, or None where it is not there."""
    if not ONEDNN.exists():
        return None
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "w.npy", weights)
    subprocess.run([str(ONEDNN), what, folder / "x.npy", folder / "w.npy", folder / "y.npy"], check=True,
                   stdout=subprocess.DEVNULL)
    return numpy.load(folder / "y.npy")


def of_scale(got, exact):
    return numpy.abs(got - exact).max() / numpy.abs(exact).max()


def ulps(got, exact):
    """The largest distance, in ulp of the type of `got`; what is denormal counts in the smallest ulp of normal numbers."""
    kind = numpy.finfo(got.dtype)
    with numpy.errstate(all="ignore"):
        nearest = exact.astype(got.dtype)
        unit = numpy.spacing(numpy.maximum(numpy.abs(nearest), kind.tiny).astype(got.dtype)).astype(float)
        distance = numpy.abs(got.astype(float) - exact) / unit
        same = (got == nearest) | (numpy.isnan(got) & numpy.isnan(exact))
    distance[same & ~numpy.isfinite(nearest)] = 0
    return numpy.nan_to_num(distance, nan=math.inf).max()


def beside_onednn(figures, what, got, peer, exact):
    """A row for each, and Fettle's bound: some small multiple of oneDNN's error."""
    bound = None
    if peer is not None:
        figures.add(f"{what}, oneDNN", of_scale(peer, exact), "of scale")
        bound = OF_ONEDNN * figures.rows[-1]["value"]
    figures.add(f"{what}, Fettle", of_scale(got, exact), "of scale", bound)


def products(figures, folder):
    for k in (64, 256, 1024, 4096):
        what = f"product 256 x k by k x 256, k = {k}"
        if not figures.wanted(what):
            continue
        random = figures.random(what)
        x, w = (random.standard_normal(shape).astype("f4") for shape in ((256, k), (k, 256)))
        got = run_fettle(model("MatMul", [[256, k]], [w]), [x], folder)
        beside_onednn(figures, what, got, run_onednn("matmul", x, w, folder), x.astype(float) @ w.astype(float))
    what = "product of halves in [0, 1), k = 1024"
    if figures.wanted(what):
        random = figures.random(what)
        x, w = (random.random(shape).astype("f2") for shape in ((256, 1024), (1024, 256)))
        got = run_fettle(model("MatMul", [([256, 1024], HALF)], [w], output=HALF), [x], folder)
        figures.add(what, ulps(got, x.astype(float) @ w.astype(float)), "ulp", 0.51)


def convolution(x, w):
    """3x3, padded by one, in double precision."""
    _, channels, height, width = x.shape
    padded = numpy.pad(x[0].astype(float), ((0, 0), (1, 1), (1, 1)))
    windows = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    columns = numpy.stack(windows, 1).reshape(channels * 9, height * width)
    return (w.reshape(len(w), -1).astype(float) @ columns).reshape(1, len(w), height, width)


def convolutions(figures, folder):
    for channels, size in ((64, 56), (256, 28), (512, 28)):
        what = f"convolution 3x3 of {channels} channels"
        if not figures.wanted(what):
            continue
        random = figures.random(what)
        x = random.standard_normal((1, channels, size, size)).astype("f4")
        w = random.standard_normal((channels, channels, 3, 3)).astype("f4")
        exact, terms = convolution(x, w), convolution(numpy.abs(x), numpy.abs(w))
        made = model("Conv", [list(x.shape)], [w], pads=[1] * 4)
        beside_onednn(figures, f"{what}, as written", run_fettle(made, [x], folder, "--max-error", 0),
                      run_onednn("conv", x, w, folder), exact)
        known = set()
        for limit in (["--max-error", TWO_BY_TWO], []):
            got = run_fettle(made, [x], folder, *limit)
            tasks = fettle("inspect", folder / "model.onnx", "--tasks", "--threads", 1, "--json", *limit)["tasks"]
            bound = max(task["error_bound"] for task in tasks)
            if bound == 0 or bound in known:
                continue
            known.add(bound)
            name = "F(2x2, 3x3)" if bound <= TWO_BY_TWO else "F(4x4, 3x3)"
            figures.add(f"{what}, {name}", of_scale(got, exact), "of scale")
            figures.add(f"{what}, {name}: over the sum of abs(terms)", (abs(got - exact) / terms).max() / EPSILON, "epsilon",
                        bound)


def functions(figures, folder):
    patterns = numpy.arange(0, 2**32, 1021, dtype=numpy.uint64).astype(numpy.uint32)
    every = patterns.view("f4")
    for name, (exact, bound, largest) in FUNCTIONS.items():
        what = f"{name}, f32"
        if not figures.wanted(what):
            continue
        x = every[~(numpy.abs(every) > largest)]
        got = run_fettle(model(name, [list(x.shape)]), [x], folder)
        with numpy.errstate(all="ignore"):
            wanted = exact(x.astype(float))
        # A sigmoid that would be denormal is zero.
        kept = ~((got == 0) & (numpy.abs(wanted) < 1.5e-38))
        figures.add(what, ulps(got[kept], wanted[kept]), "ulp", bound)


def means(figures, folder):
    drawn = {
        "uniform in [0, 1)": lambda random, shape: random.random(shape),
        "normal": lambda random, shape: random.standard_normal(shape),
        "normal around 1,000": lambda random, shape: random.standard_normal(shape) + 1000,
    }
    for height, width, channels in ((160, 160, 32), (480, 640, 3)):
        for layout in ("first", "last"):
            shape = (1, channels, height, width) if layout == "first" else (1, height, width, channels)
            axes = [2, 3] if layout == "first" else [1, 2]
            for kind, draw in drawn.items():
                for dtype in ("f4", "f2"):
                    what = f"mean of {height * width:,}, {kind}, channels {layout}, {'f32' if dtype == 'f4' else 'f16'}"
                    if not figures.wanted(what):
                        continue
                    x = draw(figures.random(what), shape).astype(dtype)
                    onnx_type = FLOAT if dtype == "f4" else HALF
                    made = model("ReduceMean", [(list(shape), onnx_type)], output=onnx_type, axes=axes)
                    got = run_fettle(made, [x], folder)
                    exact = x.astype(float).mean(tuple(axes), keepdims=True)
                    scale = numpy.abs(x.astype(float)).mean()
                    if dtype == "f4":
                        figures.add(what, numpy.abs(got - exact).max() / scale, "of mean abs(x)", MEANS_OF_SCALE)
                    else:
                        unit = numpy.spacing(numpy.abs(exact).astype("f2").min()).astype(float)
                        figures.add(what, ulps(got, exact), "ulp", max(0.501, 0.5 + MEANS_OF_SCALE * scale / unit))


def powers(figures, folder):
    for dtype, onnx_type in (("i4", onnx.TensorProto.INT32), ("i8", onnx.TensorProto.INT64)):
        what = f"Pow of integers, {'i32' if dtype == 'i4' else 'i64'}, 1 to 9 to the power of 0 to 9: wrong results"
        if not figures.wanted(what):
            continue
        base, exponent = (a.ravel() for a in numpy.meshgrid(numpy.arange(1, 10), numpy.arange(0, 10)))
        made = model("Pow", [([len(base)], onnx_type), ([len(base)], onnx_type)], output=onnx_type)
        got = run_fettle(made, [base.astype(dtype), exponent.astype(dtype)], folder)
        figures.add(what, int((got != base.astype("i8") ** exponent).sum()), "", 0)


def not_a_number(figures, folder):
    """How many results are numbers where NaN went in: elements, or rows of what is reduced."""
    flat, image, some = [4, 64], [1, 4, 8, 8], numpy.ones(64, "f4")
    elementwise = {
        "Add": model("Add", [flat], [some]),
        "Relu": model("Relu", [flat]),
        "Clip": model("Clip", [flat], [numpy.array(0, "f4"), numpy.array(6, "f4")]),
        "Max": model("Max", [flat], [some]),
        "Sigmoid": model("Sigmoid", [flat]),
        "MaxPool": model("MaxPool", [image], kernel_shape=[3, 3], pads=[1] * 4),
    }
    by_rows = {
        "Softmax": model("Softmax", [flat]),
        "MatMul": model("MatMul", [flat], [numpy.ones((64, 64), "f4")]),
        "ReduceSum": model("ReduceSum", [flat], [ints(1)]),
        "ReduceMax": model("ReduceMax", [flat], axes=[1]),
    }
    for name, made in {**elementwise, **by_rows}.items():
        what = f"{name}: NaN that became numbers"
        if not figures.wanted(what):
            continue
        x = numpy.ones(image if name == "MaxPool" else flat, "f4")
        x.ravel()[[70, 200]] = math.nan
        got = run_fettle(made, [x], folder)
        if name in by_rows:
            lost = numpy.isnan(x).any(1) & ~numpy.isnan(got).any(1)
        else:
            lost = numpy.isnan(x) & ~numpy.isnan(got)
        figures.add(what, int(lost.sum()), "of 2")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="figures whose name contains this")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of numerics.json")
    options = parser.parse_args()
    figures = Figures(options.only)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        means(figures, folder)
        products(figures, folder)
        convolutions(figures, folder)
        functions(figures, folder)
        powers(figures, folder)
        not_a_number(figures, folder)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "numerics.json").write_text(json.dumps(figures.rows, indent=1) + "\n")
    sys.exit(1 if any(row["holds"] is False for row in figures.rows) else 0)


if __name__ == "__main__":
    main()
