"""What Python adds: the call of a small model beside the same in C++, importing the package, compiling and the cache.

usage: bench_python.py [--model FILE.onnx]     writes build/bench/python.json
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

import fettle

ROOT = pathlib.Path(__file__).parents[1]


def add(n_inputs, size):
    g = fettle.Graph()
    inputs = [g.input(f"x{i}", "float32", [size]) for i in range(n_inputs)]
    for i, x in enumerate(inputs):
        g.output(f"y{i}", x + 1)
    return fettle.compile(g, threads=1, cache=False), [numpy.ones(16, "float32") for _ in inputs]


def per_call_us(function, calls=500, rounds=100):
    """The least of many short rounds: whoever else wants the CPU is not counted."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return min(times)


def calls():
    for what, model, arrays in ("one input", *add(1, 16)), ("one input, open size", *add(1, "N")), ("four inputs", *add(4, 16)):
        out = tuple(numpy.empty(16, "float32") for _ in arrays)
        named = {f"x{i}": array for i, array in enumerate(arrays)}
        context = model.context()
        native = min(model._base._time(tuple(arrays), 5000) * 1e6 for _ in range(100))
        ways = {
            "model(x)": lambda: model(*arrays),
            "model(x, out=y)": lambda: model(*arrays, out=out),
            "context(x)": lambda: context(*arrays),
            "model.run(x=x)": lambda: model.run(**named),
        }
        for way, function in ways.items():
            yield {"model": what, "call": way, "us": per_call_us(function), "native_us": native}


def seconds_of(script, *arguments, environment=None, runs=5):
    """What a fresh process prints, the least of some."""
    run = lambda: subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True,
                                 env={**os.environ, **(environment or {})}).stdout  # fmt: skip
    return min(float(run()) for _ in range(runs))


IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
COMPILE = "import fettle, sys, time; t = time.perf_counter(); fettle.compile(sys.argv[1], cache={}); print(time.perf_counter() - t)"
SESSION = """import fettle.onnxruntime, sys, time
t = time.perf_counter(); fettle.onnxruntime.InferenceSession(sys.argv[1]); print(time.perf_counter() - t)"""


def starts(path):
    yield {"what": "import numpy", "ms": seconds_of(IMPORT.format("numpy")) * 1e3}
    yield {"what": "import fettle", "ms": seconds_of(IMPORT.format("fettle")) * 1e3}
    if not path.exists():
        return
    with tempfile.TemporaryDirectory() as cache:
        yield {"what": f"compile {path.name}", "ms": seconds_of(COMPILE.format(False), str(path)) * 1e3}
        kept = {"FETTLE_CACHE": cache}
        seconds_of(COMPILE.format(True), str(path), environment=kept)
        yield {"what": f"compile {path.name}, kept", "ms": seconds_of(COMPILE.format(True), str(path), environment=kept) * 1e3}
        yield {"what": f"session of {path.name}, kept", "ms": seconds_of(SESSION, str(path), environment=kept) * 1e3}

    def first_session():
        with tempfile.TemporaryDirectory() as cache:
            return seconds_of(SESSION, str(path), environment={"FETTLE_CACHE": cache}, runs=1)

    yield {"what": f"session of {path.name}", "ms": min(first_session() for _ in range(5)) * 1e3}


MOST_ADDED = {"one input": 3, "one input, open size": 3}  # us
MOST_MS = {"import fettle": 150, "compile resnet50.onnx": 1000, "compile resnet50.onnx, kept": 50,
           "session of resnet50.onnx": 1000, "session of resnet50.onnx, kept": 50}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "build/models/resnet50.onnx")
    options = parser.parse_args()
    rows = []

    def note(what, value, unit, most):
        rows.append({"what": what, "value": value, "unit": unit, "bound": f"<= {most}" if most else "",
                     "holds": most is None or value <= most})  # fmt: skip
        return "" if rows[-1]["holds"] else "  MISSED"

    print(f"{'model':<22} {'call':<18} {'us':>8} {'C++ us':>8} {'added':>8}")
    for row in calls():
        added = row["us"] - row["native_us"]
        missed = note(f"{row['model']}, {row['call']}: beyond C++", added, "us", MOST_ADDED.get(row["model"]))
        print(f"{row['model']:<22} {row['call']:<18} {row['us']:8.2f} {row['native_us']:8.2f} {added:8.2f}{missed}")
    print()
    for row in starts(options.model):
        missed = note(row["what"], row["ms"], "ms", MOST_MS.get(row["what"]))
        print(f"{row['what']:<40} {row['ms']:8.1f} ms{missed}")
    out = ROOT / "build/bench/python.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"\nwritten to {out.relative_to(ROOT)}")
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
