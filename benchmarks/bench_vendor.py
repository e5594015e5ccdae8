#!/usr/bin/env python3
"""Models tuned with oneDNN's kernels among the candidates, beside Fettle's own alone and oneDNN's wherever it has one.

usage: bench_vendor.py [--only NAME ...] [--threads N] [--time TIME] [--rounds N] [--out FOLDER]
Each model of benchmarks/models.json is tuned for TIME with `--vendor onednn`. It is then compiled from these records three
times: with both, with Fettle's kernels alone, and with oneDNN's wherever there is a record of one. The three run in turn in
one process. OUT/vendor.json has the medians of ratios, and how many tasks oneDNN takes; OUT/vendor/NAME.candidates.json
has what `fettle inspect --candidates` says. Ends with 1 where a figure misses its bound.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy

import fettle

ROOT = pathlib.Path(__file__).resolve().parent.parent
FETTLE = ROOT / "build/bin/fettle"
MOST = 1.02  # of the better of both alone


def command(*arguments):
    done = subprocess.run([FETTLE, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"fettle {arguments[0]} ended with {done.returncode}")
    return done.stdout


def is_vendors(record):
    return '"kernel_source"' in record.get("trace", "")


def records_of_one(database, folder, vendors):
    """A database with the vendor's records of the tasks that have right ones, and all others of the rest."""
    lines, made = folder / "one.jsonl", folder / "one.db"
    command("db", "export", database, lines)
    text = lines.read_text().splitlines()
    records = [json.loads(line) for line in text]
    theirs = {r["workload"] for r in records if vendors and is_vendors(r) and not r.get("error")}
    kept = [line for line, r in zip(text, records) if is_vendors(r) == (r.get("workload") in theirs) or "trace" not in r]
    for path in folder.glob("one.db*"):
        path.unlink()
    lines.write_text("\n".join(kept) + "\n")
    command("db", "import", made, lines)
    return made


def inputs_of(model, given):
    made, numbers = [], numpy.random.default_rng(1)
    for name, kind, _ in model.inputs:
        fill = given[name]
        if "int" in str(kind):
            made.append(numbers.integers(0, fill.get("below", 2), fill["shape"]).astype(str(kind)))
        else:
            made.append(numbers.standard_normal(fill["shape"]).astype(numpy.float32))
    return made


def in_turn(contexts, inputs, rounds):
    """Seconds of each round, of each."""
    times = [[] for _ in contexts]
    for _ in range(rounds):
        for context, seconds in zip(contexts, times):
            context(*inputs)
            begin = time.perf_counter()
            context(*inputs)
            seconds.append(time.perf_counter() - begin)
    return times


def bench(entry, options, folder):
    name, path = entry["name"], ROOT / "build/models" / entry["file"]
    inputs = {given["name"]: given for given in entry["inputs"]}
    shapes = [f"--shape={key}={','.join(map(str, given['shape']))}" for key, given in inputs.items()]
    database = folder / f"{name}.{options.threads}.db"
    common = ["--threads", options.threads, *shapes]
    command("tune", path, "--db", database, "--time", options.time, "--vendor", "onednn", *common)
    candidates = json.loads(command("inspect", path, "--candidates", "--db", database, "--json", *common))
    (folder / f"{name}.candidates.json").write_text(json.dumps(candidates, indent=1) + "\n")
    libraries = []
    for what, records, vendor in (
        ("both", database, True),
        ("own", database, False),
        ("onednn", records_of_one(database, folder, True), True),
    ):
        library = folder / f"{name}.{what}.so"
        command("compile", path, "-o", library, "--db", records, *common, *(["--vendor", "onednn"] if vendor else []))
        libraries.append(library)
    models = [fettle.compile(library, threads=options.threads) for library in libraries]
    both, own, onednn = in_turn([m.context() for m in models], inputs_of(models[0], inputs), options.rounds)
    of = json.loads(command("inspect", libraries[0], "--json"))["kernels"]
    theirs = sum(" by oneDNN" in kernel["name"] for kernel in of)
    better = own if statistics.median(own) <= statistics.median(onednn) else onednn
    ratio = statistics.median(b / o for b, o in zip(both, better))
    label = f"{name}, {options.threads} thread{'s' if options.threads > 1 else ''}"
    print(f"{label}: both {statistics.median(both) * 1e3:.3f} ms, Fettle's own {statistics.median(own) * 1e3:.3f} ms, "
          f"oneDNN's where it has one {statistics.median(onednn) * 1e3:.3f} ms; {theirs} of {len(of)} kernels are "
          f"oneDNN's; {ratio:.3f} of the better", flush=True)  # fmt: skip

    def row(what, value, unit, bound="", holds=None):
        return {"what": f"{label}: {what}", "value": value, "unit": unit, "bound": bound, "holds": holds}

    return [
        row("both over the better of both alone", ratio, "x", f"<= {MOST}", ratio <= MOST),
        row("both over Fettle's own", statistics.median(b / o for b, o in zip(both, own)), "x"),
        row("oneDNN's where it has one over Fettle's own", statistics.median(b / o for b, o in zip(onednn, own)), "x"),
        row("kernels that are oneDNN's", 100 * theirs / len(of), "%"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", help="models by their names")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--time", default="3m", help="of tuning each model")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of vendor.json")
    options = parser.parse_args()
    folder = pathlib.Path(options.out) / "vendor"
    folder.mkdir(parents=True, exist_ok=True)
    rows, failed = [], False
    for entry in json.loads((ROOT / "benchmarks/models.json").read_text())["models"]:
        if options.only and entry["name"] not in options.only:
            continue
        try:
            rows += bench(entry, options, folder)
        except RuntimeError as error:
            print(f"{entry['name']}: {error}", flush=True)
            failed = True
    (folder.parent / "vendor.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failed or any(row["holds"] is False for row in rows) else 0)


if __name__ == "__main__":
    main()
