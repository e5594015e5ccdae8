#!/usr/bin/env python3
"""ONNX's own tests of backends, run by ONNX's own runner on compiled code.

usage: conformance.py [--only REGEX] [--sample N --seed S] [--processes N] [--out FOLDER] [--write]

Each test runs in a process of its own. It passed; was refused, with a code and the reason; is wrong; or crashed. Writes
OUT/conformance.json, and with --write the tables of docs/conformance.md. Ends with 1 where a test is wrong or crashed, or
one that docs/conformance.md does not list is refused."""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import unittest

import numpy
import onnx.backend.test.runner

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts"), str(ROOT / "tests/support")]

import fettle
from apart import run_apart
from benchmark_tables import replace_table
from exact import distance, in_double, wide
from fettle.onnx_backend import Backend

PAGE = ROOT / "docs/conformance.md"
LIMIT_S = 300
OF_SCALE = 2.0**-23  # of the largest value: what rounding to f32 explains
NEARER = ", nearer"
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
SETS = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
    "OnnxBackendRealModelTest": "real",
}


def draws(graph):
    """Whether something in it draws at random; a Dropout does where it is told whether it is trained."""
    for node in graph.node:
        if node.op_type in RANDOM or (node.op_type == "Dropout" and len(node.input) > 2):
            return True
        if any(draws(body) for attribute in node.attribute for body in [attribute.g, *attribute.graphs]):
            return True
    return False


class Judged(Backend):
    """Keeps what was prepared and given last, for the verdict."""

    model, prepared, draws, given, nearer = None, None, False, None, False

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        Judged.model = model
        Judged.draws = draws(model.graph)
        Judged.prepared = super().prepare(model, device, **options)
        return Judged

    @classmethod
    def run(cls, inputs):
        cls.given = inputs
        return cls.prepared.run(inputs)


def same_distribution(made, expected):
    """Two samples of one type, shape and distribution: their means and deviations differ by little of what so many draws explain."""
    if (made.shape, made.dtype) != (expected.shape, expected.dtype):
        return False
    a, b = (x.astype(numpy.float64).ravel() for x in (made, expected))
    count = min(a.size, b.size)
    spread = max(a.std(), b.std(), 1e-3)
    six_sigma = 6 * spread * (2 / max(count, 1)) ** 0.5
    return abs(a.mean() - b.mean()) <= six_sigma and abs(a.std() - b.std()) <= 2 * six_sigma


def nearer_than(made, expected):
    """Whether all results are as near to those in double precision as the expected ones, or as f32 can tell."""
    if len(made) != len(expected) or any(a.dtype != b.dtype for a, b in zip(made, expected)):
        return False
    names = [value.name for value in Judged.model.graph.input]
    try:
        exact = in_double(Judged.model).run(None, dict(zip(names, map(wide, Judged.given))))
    except Exception:  # noqa: BLE001  (the evaluator lacks something)
        return False
    return all(distance(a, x) <= max(distance(b, x), OF_SCALE) < numpy.inf for a, b, x in zip(made, expected, exact))


class Runner(onnx.backend.test.runner.Runner):
    """Where results are judged otherwise: those drawn at random, and those that are nearer to the exact ones than what a
    test expects. Elements of sequences come here one by one; the runner takes them for lists of their rows."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        if isinstance(outputs, numpy.ndarray):
            ref_outputs, outputs = [ref_outputs], [outputs]
        for expected, made in zip(ref_outputs, outputs):
            assert (expected is None) == (made is None), f"{type(made)}, where {type(expected)} is expected"
            assert not isinstance(made, list) or len(made) == len(expected), f"{len(made)} elements, not {len(expected)}"
        ref_outputs, outputs = ([x for x in values if x is not None] for values in (ref_outputs, outputs))
        try:
            super().assert_similar_outputs(ref_outputs, outputs, rtol, atol, model_dir)
        except AssertionError:
            if Judged.draws and all(map(same_distribution, outputs, ref_outputs)):
                return
            if not nearer_than(outputs, ref_outputs):
                raise
            Judged.nearer = True


def tests_of(runner):
    """(set, name) → the test."""
    tests = {}
    for case, methods in runner.test_cases.items():
        for name in dir(methods):
            if name.startswith("test_") and name.endswith("_cpu"):
                tests[SETS[case], name.removesuffix("_cpu")] = methods(name)
    return tests


def judge(test, tell):
    del tell
    result = unittest.TestResult()
    failure = {}

    def add(kind):
        def method(case, error):
            failure["kind"], failure["error"] = kind, error[1]

        return method

    result.addError, result.addFailure = add("error"), add("wrong")
    result.addSkip = lambda case, reason: failure.update(kind="skipped", error=reason)
    test.run(result)
    if not failure:
        return f"passed: {Judged.prepared.compiled_for}{NEARER if Judged.nearer else ''}"
    error = failure["error"]
    if isinstance(error, fettle.Error):
        place = "" if error.place.endswith("model.onnx") else error.place  # a file that is gone
        when = "" if Judged.prepared is None else " (when it is called)"
        return f"refused: {error.code} {': '.join(p for p in (place, error.message) if p)}{when}"
    text = " ".join(str(error).split())[:300]
    return f"wrong: {text if failure['kind'] == 'wrong' else type(error).__name__ + ': ' + text}"


def run(tests, processes):
    """(set, name) → (kind, what is said of it)"""
    verdicts = {}
    for key, verdict, _, how in run_apart(tests, lambda key, tell: judge(tests[key], tell), processes, LIMIT_S):
        kind, _, what = verdict.partition(": ")
        if how:
            kind, what = "crashed", f"{how} {verdict}"
        verdicts[key] = (kind, what)
        if kind not in ("passed", "refused"):
            print(f"{'/'.join(key)}: {kind}: {what}", flush=True)
    return dict(sorted(verdicts.items()))


def counts_of(verdicts):
    """set → kind → how many"""
    counts = {name: collections.Counter() for name in SETS.values()}
    for (group, _), (kind, _) in verdicts.items():
        counts[group][kind] += 1
    return {group: kinds for group, kinds in counts.items() if kinds}


def figures_of(counts):
    figures = []
    for group, kinds in counts.items():
        figures.append({"what": f"{group}: passed", "value": kinds["passed"], "unit": f"of {kinds.total()}",
                        "bound": None, "holds": None})
        figures.append({"what": f"{group}: refused", "value": kinds["refused"], "unit": f"of {kinds.total()}",
                        "bound": None, "holds": None})
        for kind in ("wrong", "crashed"):
            figures.append({"what": f"{group}: {kind}", "value": kinds[kind], "unit": f"of {kinds.total()}",
                            "bound": "<= 0", "holds": kinds[kind] == 0})
    return figures


def listed_refusals():
    """Of docs/conformance.md."""
    table = PAGE.read_text().partition("<!-- table: refused -->")[2].partition("<!-- end -->")[0]
    return set(re.findall(r"^\| (\S+) `(\S+)` \|", table, re.MULTILINE))


def write_page(verdicts, counts):
    compiled = collections.defaultdict(collections.Counter)
    for (group, _), (kind, what) in verdicts.items():
        if kind == "passed":
            compiled[group][what.removesuffix(NEARER)] += 1
    kinds = ("passed", "refused", "wrong", "crashed")
    ways = ("all sizes", "shapes", "values")
    text = PAGE.read_text()
    text = replace_table(text, "sets", [
        f"| {group} | {of.total()} | " + " | ".join(str(of[kind]) for kind in kinds) + " |" for group, of in counts.items()])
    text = replace_table(text, "compiled for", [
        f"| {group} | " + " | ".join(str(of[way]) for way in ways) + " |" for group, of in compiled.items()])
    text = replace_table(text, "nearer", [
        f"| {group} `{name}` |" for (group, name), (kind, what) in verdicts.items() if kind == "passed" and NEARER in what])
    refused = [(key, what) for key, (kind, what) in verdicts.items() if kind == "refused"]
    text = replace_table(text, "refused", [
        f"| {group} `{name}` | " + what.replace("|", "\\|") + " |" for (group, name), what in refused])
    PAGE.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="tests whose name matches")
    parser.add_argument("--sample", type=int, help="so many of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of conformance.json")
    parser.add_argument("--write", action="store_true", help="write the tables of docs/conformance.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["ONNX_HOME"] = home  # the runner writes inputs there
        tests = tests_of(Runner(Judged, "conformance"))
        keys = sorted(key for key in tests if re.search(options.only, key[1]))
        if options.sample is not None and options.sample < len(keys):
            keys = sorted(random.Random(options.seed).sample(keys, options.sample))
        verdicts = run({key: tests[key] for key in keys}, options.processes)
    counts = counts_of(verdicts)
    for group, kinds in counts.items():
        print(f"{group}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    bad = sum(kinds.total() - kinds["passed"] - kinds["refused"] for kinds in counts.values())
    if options.write:
        write_page(verdicts, counts)
    else:
        known = listed_refusals()
        for key, (kind, what) in verdicts.items():
            if kind == "refused" and key not in known:
                bad += 1
                print(f"{'/'.join(key)}: refused, and docs/conformance.md does not list it: {what}")
    if options.sample is None:
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / "conformance.json").write_text(json.dumps(figures_of(counts), indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
