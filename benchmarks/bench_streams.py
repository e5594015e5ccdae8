#!/usr/bin/env python3
"""As many calls at once as there are cores: runs a second of models tuned for that, tuned for one call, and of ONNX Runtime.

usage: bench_streams.py [--only NAME ...] [--time TIME] [--rounds N] [--window SECONDS] [--out FOLDER]
Each model is tuned for TIME (60s) three times: for N calls at once, for one call on all cores, and for one call on one core. All are
then run by N callers at once, as ONNX Runtime is with N sessions of one thread each. They have their turns in each round, in
an order that rotates. OUT/streams.json has the medians over rounds. Ends with 1 where a figure misses its bound.
"""

import argparse
import pathlib
import statistics
import threading
import time

import onnxruntime
from bench_vendor import ROOT, command, inputs_of
from beside_engines import report

import fettle

N = fettle.Target().threads
LEAST_OTHERS, LEAST_LATENCY = 1.0, 0.97  # of ONNX Runtime's runs a second; of the better one that is tuned for one call
PAGE = {"name": "x", "shape": [1, 3, 48, 320], "fill": "image"}
MODELS = {
    "ppocrv4_rec": ("PP-OCRv4 rec", "ppocrv4_rec.onnx", [PAGE]),
    "mobilenet_v2": ("MobileNetV2", "mobilenet_v2.onnx", [{"name": "input", "shape": [1, 3, 224, 224]}]),
    "bert": (
        "two layers of BERT-base, 128 tokens",
        "bert_base_2_layers.onnx",
        [
            {"name": "input_ids", "shape": [1, 128], "below": 30522},
            {"name": "attention_mask", "shape": [1, 128]},
            {"name": "token_type_ids", "shape": [1, 128]},
        ],
    ),
}
# What each is tuned and compiled for: streams, threads of each.
WAYS = {f"tuned for {N} calls": (N, 1), "tuned for one call, all cores": (1, N), "tuned for one call, one core": (1, 1)}
RUNTIME = "ONNX Runtime"


def fettle_calls(path, shapes, database, way, inputs):
    """N calls on contexts of one model."""
    streams, threads = way
    model = fettle.compile(path, shapes=shapes, database=database, streams=streams, threads=threads)
    contexts = [model.context() for _ in range(N)]
    given = inputs_of(model, inputs)
    return [lambda context=context: context(*given) for context in contexts], model, given


def runtime_calls(path, names, given):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for _ in range(N)]
    feeds = dict(zip(names, given))
    return [lambda session=session: session.run(None, feeds) for session in sessions]


def runs_per_second(calls, seconds):
    """All call at once, each again as soon as it has its results. A caller's rate is that until its last result."""
    rates, gate = [0.0] * len(calls), threading.Barrier(len(calls))

    def work(number, call):
        call()
        gate.wait()
        begin, runs, now = time.perf_counter(), 0, 0.0
        while now < seconds:
            call()
            runs, now = runs + 1, time.perf_counter() - begin
        rates[number] = runs / now

    callers = [threading.Thread(target=work, args=each) for each in enumerate(calls)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return sum(rates)


def bench(name, options, folder):
    called, file, inputs = MODELS[name]
    path = str(ROOT / "build/models" / file)
    shapes = {each["name"]: each["shape"] for each in inputs}
    texts = [f"--shape={key}={','.join(map(str, shape))}" for key, shape in shapes.items()]
    database, contenders, given = folder / f"{name}.db", {}, None
    for what, (streams, threads) in WAYS.items():
        if options.time != "0":
            command("tune", path, "--db", database, "--time", options.time, "--streams", streams, "--threads", threads, *texts)
        calls, model, given = fettle_calls(path, shapes, database, WAYS[what], {each["name"]: each for each in inputs})
        contenders[what] = calls
    contenders[RUNTIME] = runtime_calls(path, [each[0] for each in model.inputs], given)

    rates = {what: [] for what in contenders}
    order = list(contenders)
    for _ in range(options.rounds):
        for what in order:
            rates[what].append(runs_per_second(contenders[what], options.window))
        order.append(order.pop(0))
    rows = [
        {"what": f"{called}: {what}", "value": statistics.median(of_one), "unit": "runs/s", "bound": None, "holds": True}
        for what, of_one in rates.items()
    ]
    first, *latency = list(WAYS)
    best = max(latency, key=lambda what: statistics.median(rates[what]))
    for other, least in ((best, LEAST_LATENCY), (RUNTIME, LEAST_OTHERS)):
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates[first], rates[other]))
        what = f"{called}: {first} over {other}"
        rows.append({"what": what, "value": ratio, "unit": "x", "bound": f">= {least}", "holds": ratio >= least})
    for row in rows:
        print(f"{row['what']:<90} {row['value']:>9.2f} {row['unit']:<7}{row['bound'] or ''}"
              f"{'' if row.get('holds', True) else '  MISSED'}", flush=True)  # fmt: skip
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--time", default="60s", help="of each tuning; 0: with the records that are there")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--window", type=float, default=1, help="seconds of each turn")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of streams.json")
    options = parser.parse_args()
    folder = pathlib.Path(options.out) / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    report("streams", options.out, [row for name in options.only for row in bench(name, options, folder)])


if __name__ == "__main__":
    main()
