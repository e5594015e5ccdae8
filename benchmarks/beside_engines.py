"""Models of a benchmark, untuned, each timed in turn with other engines by `fettle bench`, and held to bounds."""

import argparse
import json
import pathlib
import sys

import onnx
from bench_operators import ROOT, fettle


def options_of(usage, name):
    parser = argparse.ArgumentParser(description=usage.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--time", type=float, default=2, help="seconds for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help=f"folder of {name}.json")
    return parser.parse_args()


def run(usage, name, cases):
    """cases: what a model is called, the model, what of the better engine's time it may take, and the engines. Makes the
    models in build/NAME/, prints a line each, writes OUT/NAME.json, and ends with 1 where a figure misses its bound."""
    options = options_of(usage, name)
    folder = ROOT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    rows, failed = [], False
    for called, made, most, peers in cases:
        if options.only.lower() not in called.lower():
            continue
        path = folder / (called.replace(" ", "_").replace(",", "").replace("/", "-") + ".onnx")
        onnx.save(made, path)
        for threads in options.threads:
            given = ["--threads", threads, "--time", options.time, "--against", ",".join(peers), "--json"]
            try:
                timed = fettle("bench", path, *given)
            except RuntimeError as error:
                print(f"{called:<34} {error}", flush=True)
                failed = True
                continue
            times = {peer: figures["median"] for peer, figures in timed["against"].items()}
            own = timed["latency_ms"]["median"]
            ratio = own / min(times.values())
            what = f"{called}, {threads} thread{'s' if threads > 1 else ''}: over the better engine"
            rows.append({"what": what, "value": ratio, "unit": "x", "bound": f"<= {most}", "holds": ratio <= most})
            others = "  ".join(f"{peer} {time * 1e3:>9.1f} us" for peer, time in times.items())
            missed = "" if ratio <= most else "  MISSED"
            print(f"{called:<34} {threads}  {own * 1e3:>9.1f} us  {others}  {ratio:>7.4f}{missed}", flush=True)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failed or not all(row["holds"] for row in rows) else 0)
