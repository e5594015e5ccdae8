#!/usr/bin/env python3
"""Runs models of single operators, the ONNX package's node tests, on a device and on the CPU, and compares the two.

usage: check_device_nodes.py [--fettle BUILD/bin/fettle] [--target opencl] [--count N] [--seed S] [--match TEXT] [--jobs J]
A test that the CPU's target refuses is left out. Prints those that differ or fail, then a summary; exit status 1 if there are any.
"""

import argparse
import concurrent.futures
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = 2e-4


def cases():
    return sorted(p for p in (pathlib.Path(onnx.__file__).parent / "backend/test/data/node").iterdir() if (p / "model.onnx").exists())


def inputs_of(case, folder):
    """NAME=FILE.npy of the test's inputs; None where one is no plain tensor."""
    model = onnx.load(case / "model.onnx")
    initialized = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in initialized]
    given = []
    for k, name in enumerate(names):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((case / "test_data_set_0" / f"input_{k}.pb").read_bytes())
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind not in "biuf" or array.dtype.name not in np.sctypeDict:
            return None
        np.save(folder / f"in{k}.npy", array)
        given.append(f"{name}={folder / f'in{k}.npy'}")
    return given


def run(fettle, case, given, target, folder):
    command = [fettle, "run", str(case / "model.onnx"), "--output-dir", str(folder), "--threads", "1"]
    for assignment in given:
        command += ["--input", assignment]
    if target:
        command += ["--target", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return {p.stem: np.load(p) for p in folder.glob("*.npy")}, done.stdout


def differs(a, b):
    if a.keys() != b.keys():
        return "other outputs"
    for name in a:
        x, y = a[name], b[name]
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{name}: {x.dtype}{x.shape} and {y.dtype}{y.shape}"
        if x.dtype.kind in "biu":
            if not np.array_equal(x, y):
                return f"{name} differs"
        elif not np.allclose(x.astype(np.float64), y.astype(np.float64), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return f"{name} is off by {np.nanmax(np.abs(x.astype(np.float64) - y.astype(np.float64))):.3g}"
    return None


def check(fettle, case, target):
    """None: equal; "": left out; else what is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            given = inputs_of(case, folder)
        except Exception:
            given = None
        if given is None:
            return ""
        (folder / "cpu").mkdir()
        (folder / "device").mkdir()
        try:
            expected, _ = run(fettle, case, given, "", folder / "cpu")
            if expected is None:
                return ""
            made, why = run(fettle, case, given, target, folder / "device")
        except subprocess.TimeoutExpired:
            return "takes too long"
        return differs(expected, made) if made is not None else why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fettle", default=str(ROOT / "build/bin/fettle"))
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    chosen = [c for c in cases() if options.match in c.name]
    random.Random(options.seed).shuffle(chosen)
    chosen = chosen[: options.count]
    equal = left_out = wrong = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, result in zip(chosen, pool.map(lambda c: check(options.fettle, c, options.target), chosen)):
            if result is None:
                equal += 1
            elif result == "":
                left_out += 1
            else:
                wrong += 1
                print(f"{case.name}: {result}", flush=True)
    print(f"{equal} equal, {wrong} wrong, {left_out} left out")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
