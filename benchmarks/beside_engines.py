"""Models of a benchmark, untuned, each timed in turn with other engines by `fettle bench`, and held to bounds."""

import argparse
import json
import pathlib
import sys

import onnx
from bench_operators import ROOT, fettle


def options_of(usage, name, **numbers):
    """numbers: further options and their defaults."""
    parser = argparse.ArgumentParser(description=usage.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--time", type=float, default=2, help="seconds for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help=f"folder of {name}.json")
    parser.add_argument("--target", default="", help="a processor to compile for, as fettle bench has it")
    for option, default in numbers.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    return parser.parse_args()


def plural(n, what):
    return f"{n} {what}{'s' * (n > 1)}"


def timed(benchmark, called, made, threads, seconds, peers, target=""):
    """Fettle's median over that of the better engine, None where one fails. Makes build/BENCHMARK/CALLED.onnx and prints a
    line."""
    folder = ROOT / "build" / benchmark
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (called.replace(" ", "_").replace(",", "").replace("/", "-") + ".onnx")
    onnx.save(made, path)
    try:
        for_target = ["--target", target] if target else []
        against = ["--against", ",".join(peers), "--json"]
        figures = fettle("bench", path, "--threads", threads, "--time", seconds, *against, *for_target)
    except RuntimeError as error:
        print(f"{called:<34} {error}", flush=True)
        return None
    times = {peer: of_peer["median"] for peer, of_peer in figures["against"].items()}
    own = figures["latency_ms"]["median"]
    ratio = own / min(times.values())
    others = "  ".join(f"{peer} {time * 1e3:>9.1f} us" for peer, time in times.items())
    print(f"{called:<34} {threads}  {own * 1e3:>9.1f} us  {others}  {ratio:>7.4f}", end="", flush=True)
    return ratio


def report(benchmark, folder, rows, failed=False):
    """Writes FOLDER/BENCHMARK.json; ends with 1 where a figure misses its bound."""
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{benchmark}.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failed or not all(row.get("holds", True) for row in rows) else 0)


def run(usage, name, cases):
    """cases: what a model is called, the model, what of the better engine's time it may take, and the engines. Makes the
    models in build/NAME/, prints a line each, writes OUT/NAME.json, and ends with 1 where a figure misses its bound."""
    options = options_of(usage, name)
    rows, failed = [], False
    for called, made, most, peers in cases:
        if options.only.lower() not in called.lower():
            continue
        for threads in options.threads:
            ratio = timed(name, called, made, threads, options.time, peers, options.target)
            if ratio is None:
                failed = True
                continue
            what = f"{called}, {plural(threads, 'thread')}: over the better engine"
            rows.append({"what": what, "value": ratio, "unit": "x", "bound": f"<= {most}", "holds": ratio <= most})
            print("" if ratio <= most else "  MISSED", flush=True)
    report(name, options.out, rows, failed)
