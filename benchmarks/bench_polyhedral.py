#!/usr/bin/env python3
"""The thirty programs of PolyBench at its size LARGE, in double precision, beside C by gcc, clang and clang with Polly.

usage: bench_polyhedral.py [--only NAME ...] [--rounds N] [--out FOLDER]
Fettle compiles tests/polybench/NAME.tc, untuned; the compilers take polyhedral/NAME.c, plain loops, with all sizes known. All
run on one thread, in turn, on the same inputs, and their outputs are compared. Programs of more than 20 s run once. Writes
OUT/polyhedral.json; ends with 1 where outputs differ or a figure misses its bound.
"""

import argparse
import ctypes
import json
import math
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOW_S = 20
ROUND_S = 0.03

COMPILERS = {
    "gcc": ["gcc-12"],
    "clang": ["clang-19"],
    "polly": ["clang-19", "-mllvm", "-polly", "-mllvm", "-polly-vectorizer=stripmine"],
}

# Extents by the names that both texts use.
LARGE = {
    "2mm": {"NI": 800, "NJ": 900, "NK": 1100, "NL": 1200},
    "3mm": {"NI": 800, "NJ": 900, "NK": 1000, "NL": 1100, "NM": 1200},
    "adi": {"N": 1000, "T": 500},
    "atax": {"M": 1900, "N": 2100},
    "bicg": {"M": 1900, "N": 2100},
    "cholesky": {"N": 2000},
    "correlation": {"M": 1200, "N": 1400},
    "covariance": {"M": 1200, "N": 1400},
    "deriche": {"W": 4096, "H": 2160},
    "doitgen": {"Q": 140, "R": 150, "P": 160},
    "durbin": {"N": 2000},
    "fdtd-2d": {"X": 1000, "Y": 1200, "T": 500},
    "floyd-warshall": {"N": 2800},
    "gemm": {"NI": 1000, "NJ": 1100, "NK": 1200},
    "gemver": {"N": 2000},
    "gesummv": {"N": 1300},
    "gramschmidt": {"M": 1000, "N": 1200},
    "heat-3d": {"N": 120, "T": 500},
    "jacobi-1d": {"N": 2000, "T": 500},
    "jacobi-2d": {"N": 1300, "T": 500},
    "lu": {"N": 2000},
    "ludcmp": {"N": 2000},
    "mvt": {"N": 2000},
    "nussinov": {"N": 2500},
    "seidel-2d": {"N": 2000, "T": 500},
    "symm": {"M": 1000, "N": 1200},
    "syr2k": {"M": 1000, "N": 1200},
    "syrk": {"M": 1000, "N": 1200},
    "trisolv": {"N": 2000},
    "trmm": {"M": 1000, "N": 1200},
}


class Signature:
    """Parameters and results of a program, by its comprehension's head."""

    def __init__(self, name):
        self.path = ROOT / "tests/polybench" / f"{name}.tc"
        sizes = LARGE[name]
        head = re.search(r"def \w+\(([^{]*)\)\s*->\s*\(([^{]*)\)", self.path.read_text(encoding="utf-8"))
        self.params = []  # name, numpy's type, shape
        for kind, extents, param in re.findall(r"(\w+)(?:\(([\w,]+)\))? (\w+)", head[1]):
            dtype = {"double": numpy.float64, "int32": numpy.int32, "byte": numpy.uint8}[kind]
            self.params.append((param, dtype, tuple(sizes[e] for e in extents.split(",")) if extents else ()))
        self.results = [r.strip() for r in head[2].split(",")]

    def is_number_of_steps(self, param):
        return param == "steps"


def inputs_of(name, signature):
    """Numbers for which the program does what it is for: no overflow, no division by about zero."""
    random = numpy.random.default_rng(0)
    values = {}
    for param, dtype, shape in signature.params:
        if dtype is numpy.float64:
            values[param] = random.uniform(0.5, 1.5, shape)
        elif dtype is numpy.int32:
            values[param] = random.integers(0, 4 if name == "nussinov" else 1000, shape, numpy.int32)
        else:
            values[param] = numpy.zeros(shape, dtype)
    if name in ("cholesky", "lu", "ludcmp", "trisolv"):
        matrix = values["L" if name == "trisolv" else "A"]
        matrix[:] = (matrix + matrix.T) / 2 + len(matrix) * numpy.eye(len(matrix))
    elif name == "nussinov":
        values["T"][:] = 0
    elif name == "durbin":
        values["r"] *= 1e-4
    elif name == "deriche":
        for param in list(values)[1:]:
            values[param] *= 0.3
        values["b1"], values["b2"] = numpy.float64(0.4), numpy.float64(-0.2)
    elif name == "adi":
        dx, dt = 1 / LARGE[name]["N"], 1 / LARGE[name]["T"]
        a, d = -dt / dx**2, -dt / dx**2 / 2
        for param, value in zip("abcdef", (a, 1 - 2 * a, a, d, 1 - 2 * d, d)):
            values[param] = numpy.float64(value)
    return values


def differ(name, ours, others):
    """Whether results differ by more than another order of sums explains."""
    for one, other in zip(ours, others):
        if name == "gramschmidt":  # More columns than rows: the last ones are differences of about nothing.
            n = min(one.shape) * 9 // 10
            one, other = one[:n, :n], other[:n, :n]
        if not numpy.allclose(one, other, rtol=1e-6, atol=1e-9 * float(numpy.abs(other).max())):
            return True
    return False


class InC:
    """A program by one of the compilers."""

    def __init__(self, name, compiler, folder, signature):
        self.signature, self.sizes = signature, LARGE[name]
        library = folder / f"{name}-{compiler}.so"
        sizes = [f"-D{size}={extent}" for size, extent in LARGE[name].items()]
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", *sizes, "-o", library]
        source = ROOT / "benchmarks/polyhedral" / f"{name}.c"
        subprocess.run([*COMPILERS[compiler], *flags, source, "-lm"], check=True)
        self.function = ctypes.CDLL(str(library)).run

    def prepare(self, values):
        self.arrays, arguments = {}, []
        for param, _, shape in self.signature.params:
            if self.signature.is_number_of_steps(param):
                continue
            if not shape:
                arguments.append(ctypes.c_double(values[param]))
                continue
            self.arrays[param] = values[param].copy()
            arguments.append(ctypes.c_void_p(self.arrays[param].ctypes.data))
        for result, shape in self.fresh.items():
            self.arrays[result] = numpy.full(shape, 0.0)
            arguments.append(ctypes.c_void_p(self.arrays[result].ctypes.data))
        self.arguments = arguments

    def run(self):
        began = time.perf_counter()
        self.function(*self.arguments)
        return time.perf_counter() - began

    def results(self):
        return [self.arrays[r] for r in self.signature.results]


class InFettle:
    def __init__(self, signature):
        import fettle

        (self.function,) = fettle.comprehension(signature.path, cache=False)._functions.values()
        self.signature = signature
        shapes = {param: list(shape) for param, _, shape in signature.params if shape}
        began = time.perf_counter()
        self.model = fettle.compile(self.function, shapes=shapes, threads=1, cache=False)
        self.compile_s = time.perf_counter() - began

    def prepare(self, values):
        # Copies, as the others have: what was copied just now lies in the last cache.
        self.arguments = [values[name].copy() for name, *_ in self.model.inputs]
        self.made = tuple(numpy.full(shape, 0, dtype) for _, dtype, shape in self.model.outputs)

    def run(self):
        began = time.perf_counter()
        self.model(*self.arguments, out=self.made if len(self.made) > 1 else self.made[0])
        return time.perf_counter() - began

    def results(self):
        return list(self.made)


def time_of_round(contestant, values):
    """Seconds of the quickest run, of as many as fit: one short run alone shows what else the machine did."""
    times = []
    while sum(times) < ROUND_S:
        contestant.prepare(values)
        times.append(contestant.run())
    return min(times)


def measure(name, compilers, folder, rounds):
    signature = Signature(name)
    values = inputs_of(name, signature)
    own = InFettle(signature)
    contestants = {"fettle": own}
    given = {param for param, *_ in signature.params}
    shapes = {output: shape for output, _, shape in own.model.outputs}
    for compiler in compilers:
        contestants[compiler] = InC(name, compiler, folder, signature)
        contestants[compiler].fresh = {r: shapes[r] for r in signature.results if r not in given}
    times = {c: [] for c in contestants}
    results = {}
    for _ in range(rounds):
        for key, contestant in contestants.items():
            if times[key] and max(times[key]) > SLOW_S:
                continue
            times[key].append(time_of_round(contestant, values))
            if key not in results:
                results[key] = contestant.results()
    wrong = [c for c in compilers if differ(name, results["fettle"], results[c])]
    return own.compile_s, {c: statistics.median(t) for c, t in times.items()}, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", default=list(LARGE), help="names of programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of polyhedral.json")
    options = parser.parse_args()
    folder = ROOT / "build/polyhedral"
    folder.mkdir(parents=True, exist_ok=True)
    compilers = [c for c, command in COMPILERS.items() if shutil.which(command[0])]
    if missing := [c for c in COMPILERS if c not in compilers]:
        print("not installed: " + ", ".join(missing))
    if not compilers:
        sys.exit("there is no compiler to compare with")
    print(f"{'program':<16}" + "".join(f"{c + ' ms':>12}" for c in ["fettle", *compilers]) + f"{'ratio':>8}{'compile s':>11}")
    rows, ratios, failed = [], [], False

    def bound(what, value, unit, most):
        nonlocal failed
        failed = failed or value > most
        rows.append({"what": what, "value": value, "unit": unit, "bound": f"<= {most}", "holds": value <= most})

    for name in options.only:
        compile_s, times, wrong = measure(name, compilers, folder, options.rounds)
        # One that differs from all the others is wrong itself, and no time to compare with.
        right = [c for c in compilers if c not in wrong] if len(wrong) == 1 and len(compilers) > 2 else compilers
        ratio = times["fettle"] / min(times[c] for c in right)
        ratios.append(ratio)
        bound(f"{name}: over the best compiler", ratio, "x", 1.05)
        rows[-1]["times_s"] = times
        bound(f"{name}: compiled in", compile_s, "s", 2)
        line = "".join(f"{times[c] * 1e3:>12.1f}" for c in ["fettle", *compilers])
        failed = failed or bool(wrong and right == compilers)
        print(f"{name:<16}{line}{ratio:>8.3f}{compile_s:>11.2f}" + (f"  DIFFERS from {', '.join(wrong)}" if wrong else ""),
              flush=True)  # fmt: skip
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
    bound("geometric mean over the best compiler", mean, "x", 0.3)
    print(f"{'geometric mean':<64}{mean:>8.3f}")
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "polyhedral.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
