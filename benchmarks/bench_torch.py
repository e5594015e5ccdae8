#!/usr/bin/env python3
"""Networks by torch.compile: Fettle beside eager mode and Inductor, untuned.

usage: bench_torch.py [--only TEXT] [--threads N] [--time SECONDS] [--out FOLDER]
The networks of tests/torch/networks.py, of one image of 224 x 224 or 128 tokens, and a small MLP, whose calls are mostly torch's.
Times of a call, taken in turn, and of the first call, which compiles; that of AOTAutograd alone, with the same decompositions,
shows what torch itself takes of it. Of both first calls it is the lesser of two, each with an empty cache. Results are compared with eager mode's. Inductor needs a C++ compiler.
Writes OUT/torch.json; ends with 1 where a figure misses its bound.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch._dynamo.utils
from torch._dynamo.backends.common import aot_autograd

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "torch"))

THREADS = torch.get_num_threads()  # fettle_torch sets it to one

import fettle.torch  # noqa: E402
from fettle_torch import flat  # noqa: E402
from networks import NETWORKS, made  # noqa: E402

FIRST_CALL_S = 2.0  # more than AOTAutograd takes
OF_SCALE = 1e-4  # results may be off by
OVER_EAGER, OVER_INDUCTOR = 0.75, 0.85  # geometric means over the networks
AOT = aot_autograd(
    fw_compiler=lambda graph, _: graph,
    inference_compiler=lambda graph, _: graph,
    decompositions=fettle.torch._decompositions(),
)
MLP = "MLP of 256"
BACKENDS = {"aot": AOT, "inductor": "inductor", "fettle": "fettle"}


def cases():
    """Name, model, inputs."""
    torch.manual_seed(0)
    linear = torch.nn.Linear
    yield MLP, torch.nn.Sequential(linear(256, 256), torch.nn.GELU(), linear(256, 10)), (torch.randn(1, 256),)
    for name in NETWORKS:
        yield name, *made(name, full=True)


def apart(mine, expected):
    """The largest difference, of scale."""
    pairs = zip(flat(mine), flat(expected), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs if b.is_floating_point())


def breaks():
    return sum(torch._dynamo.utils.counters["graph_break"].values())


def compiled(model, inputs, backend):
    """The compiled model, seconds of its first call and graph breaks in it; None where the backend fails."""
    torch._dynamo.utils.counters.clear()
    call = torch.compile(model, backend=BACKENDS.get(backend, backend), dynamic=False)
    gc.collect()
    gc.freeze()  # what other backends have left is not searched again and again
    with tempfile.TemporaryDirectory() as empty:
        os.environ["FETTLE_CACHE"] = empty
        start = time.perf_counter()
        try:
            call(*inputs)
        except Exception as error:
            print(f"  {backend}: {str(error).splitlines()[0][:100]}")
            return None, None, None
        return call, time.perf_counter() - start, breaks()


def call_times(calls, inputs, seconds):
    """Medians in seconds, of calls that take turns."""
    times = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            call(*inputs)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--time", type=float, default=2, help="seconds for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of torch.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []

    def row(what, value, unit, most=None):
        rows.append({"what": what, "value": value, "unit": unit})
        if most is not None:
            rows[-1] |= {"bound": f"<= {most}", "holds": bool(value <= most)}
        return "" if rows[-1].get("holds", True) else "  MISSED"

    print(f"{'':<20} {'eager':>8} {'inductor':>8} {'fettle':>8} ms {'over':>5} {'over':>5}   first: {'aot':>5} {'inductor':>8} {'fettle':>6} s")
    ratios = {"eager mode": [], "Inductor": []}
    with torch.no_grad():
        for backend in BACKENDS:  # what is imported once
            compiled(torch.nn.Linear(2, 2), [torch.randn(1, 2)], backend)
        for name, model, inputs in cases():
            if options.only.lower() not in name.lower():
                continue
            model.eval()
            torch._dynamo.reset()
            fettle.torch.statistics.reset()
            _, _, plain_breaks = compiled(model, inputs, "eager")
            before = {backend: compiled(model, inputs, backend)[1] for backend in ("aot", "fettle")}
            torch._dynamo.reset()
            fettle.torch.statistics.reset()
            made = {backend: compiled(model, inputs, backend) for backend in BACKENDS}
            first = {backend: made[backend][1] for backend in BACKENDS}
            for backend, seconds in before.items():
                if first[backend] and seconds:
                    first[backend] = min(first[backend], seconds)
            refused = sum(fettle.torch.statistics.refused.values())
            if made["fettle"][0] is None:
                print(f"{name:<20} fails{row(f'{name}: fails', 1, '', 0)}", flush=True)
                continue
            calls = {"eager": model, **{b: made[b][0] for b in ("inductor", "fettle") if made[b][0] is not None}}
            off = apart(calls["fettle"](*inputs), model(*inputs))
            for call in calls.values():
                call(*inputs)
            times = call_times(calls, inputs, options.time)
            mine = times["fettle"]
            missed = row(f"{name}: off eager mode, of scale", off, "", OF_SCALE)
            missed += row(f"{name}: parts that are left to torch", refused, "", 0)
            missed += row(f"{name}: graph breaks beyond backend eager's", made["fettle"][2] - plain_breaks, "", 0)
            row(f"{name}: over eager mode", mine / times["eager"], "x")
            if "inductor" in times:
                row(f"{name}: over Inductor", mine / times["inductor"], "x")
            missed += row(f"{name}: first call, beyond AOTAutograd's", first["fettle"] - first["aot"], "s", FIRST_CALL_S)
            if name != MLP:
                ratios["eager mode"].append(mine / times["eager"])
                if "inductor" in times:
                    ratios["Inductor"].append(mine / times["inductor"])
            shown = [f"{times[b] * 1e3:>8.3f}" if b in times else f"{'-':>8}" for b in ("eager", "inductor", "fettle")]
            over = [f"{mine / times[b]:>5.2f}" if b in times else f"{'-':>5}" for b in ("eager", "inductor")]
            firsts = [f"{first[b]:>{w}.2f}" if first[b] else f"{'-':>{w}}" for b, w in (("aot", 5), ("inductor", 8), ("fettle", 6))]
            print(f"{name:<20} {' '.join(shown)}    {' '.join(over)}          {' '.join(firsts)}{missed}", flush=True)
    for other, bound in (("eager mode", OVER_EAGER), ("Inductor", OVER_INDUCTOR)):
        if ratios[other]:
            mean = statistics.geometric_mean(ratios[other])
            what = f"{len(ratios[other])} networks: over {other}, geometric mean"
            print(f"{what}: {mean:.3f} (bound {bound}){row(what, mean, 'x', bound)}")
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "torch.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if all(row.get("holds", True) for row in rows) else 1)


if __name__ == "__main__":
    main()
