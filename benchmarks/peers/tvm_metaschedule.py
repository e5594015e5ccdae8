#!/usr/bin/env python3
"""TVM's MetaSchedule on the tasks of the search benchmark: the outside anchor.

usage: tvm_metaschedule.py --tasks TASKS.jsonl --out TVM.jsonl [--trials 256] [--threads 2] [--only TEXT] [--budget SECONDS]
  TASKS.jsonl: what `bench-search --list` prints
  TVM.jsonl:   one line a task, {"task", "trials", "measured", "seconds", "best": [[trials, seconds of one call], …]}; measured:
               fewer than trials where its space holds fewer; tasks that are there with as many trials are not run again;
               `bench-search` reads it from build/bench/search/tvm.jsonl
Runs in the environment that `scripts/setup.sh --tvm` makes (build/python-tvm). Each task is tuned in a process of its own, since a
failure of the tuner ends it. What is fair to it: the same shapes, layouts and number of threads; weights are marked as free to be
stored in another layout, as its own pipeline does; times are those of its own runner.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def import_tvm():
    import tvm
    from tvm import te

    try:
        from tvm import tirx as tir  # the loop language's name since 0.25
    except ImportError:
        from tvm import tir
    return tvm, te, tir


def make_function(task):
    """The task as a TVM function, and which of its parameters are constant."""
    _, te, tir = import_tvm()
    n, op = task["numbers"], task["op"]
    f32 = "float32"

    def zero():
        return tir.const(0.0, f32)

    if op == "matmul":
        b, rows, columns, depth = n["batch"], n["m"], n["n"], n["k"]
        k = te.reduce_axis((0, depth), "k")
        if b > 1:
            x, y = te.placeholder((b, rows, depth), f32, "A"), te.placeholder((b, depth, columns), f32, "B")
            z = te.compute((b, rows, columns), lambda h, i, j: te.sum(x[h, i, k] * y[h, k, j], axis=k), "C")
            return te.create_prim_func([x, y, z]), []
        x, y = te.placeholder((rows, depth), f32, "A"), te.placeholder((depth, columns), f32, "B")
        z = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), "C")
        return te.create_prim_func([x, y, z]), [1]
    if op == "conv":
        size, ic, oc, kernel = n["size"], n["ic"], n["oc"], n["kernel"]
        stride, dilation, groups = n["stride"], n["dilation"], n["groups"]
        pad = dilation * (kernel // 2)
        out = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        depthwise = groups == ic == oc
        x = te.placeholder((size, size, ic), f32, "X")
        w = te.placeholder((kernel, kernel, oc) if depthwise else (kernel, kernel, ic // groups, oc), f32, "W")
        bias = te.placeholder((oc,), f32, "bias")
        padded = x
        if pad:
            padded = te.compute(
                (size + 2 * pad, size + 2 * pad, ic),
                lambda h, v, c: tir.if_then_else(
                    tir.all(h >= pad, h < size + pad, v >= pad, v < size + pad), x[h - pad, v - pad, c], zero()
                ),
                "padded",
            )
        kh, kw = te.reduce_axis((0, kernel), "kh"), te.reduce_axis((0, kernel), "kw")
        c = te.reduce_axis((0, ic // groups), "ic")

        def element(h, v, o):
            if depthwise:
                return te.sum(padded[h * stride + kh * dilation, v * stride + kw * dilation, o] * w[kh, kw, o], axis=[kh, kw])
            channel = o // (oc // groups) * (ic // groups) + c if groups > 1 else c
            at = padded[h * stride + kh * dilation, v * stride + kw * dilation, channel]
            return te.sum(at * w[kh, kw, c, o], axis=[kh, kw, c])

        total = te.compute((out, out, oc), element, "O")
        y = te.compute((out, out, oc), lambda h, v, o: tir.max(total[h, v, o] + bias[o], zero()), "Y")
        return te.create_prim_func([x, w, bias, y]), [1]
    if op == "pool":
        size, channels, kernel, stride = n["size"], n["channels"], n["kernel"], n["stride"]
        out = (size - kernel) // stride + 1
        x = te.placeholder((size, size, channels), f32, "X")
        kh, kw = te.reduce_axis((0, kernel), "kh"), te.reduce_axis((0, kernel), "kw")
        y = te.compute(
            (out, out, channels), lambda h, v, c: te.max(x[h * stride + kh, v * stride + kw, c], axis=[kh, kw]), "Y"
        )
        return te.create_prim_func([x, y]), []
    if op == "softmax":
        rows, m = n["rows"], n["n"]
        x = te.placeholder((rows, m), f32, "X")
        k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
        top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), "M")
        e = te.compute((rows, m), lambda i, j: tir.exp(x[i, j] - top[i]), "E")
        s = te.compute((rows,), lambda i: te.sum(e[i, l], axis=l), "S")
        y = te.compute((rows, m), lambda i, j: e[i, j] / s[i], "Y")
        return te.create_prim_func([x, y]), []
    if op == "layer_norm":
        rows, m = n["rows"], n["n"]
        x, g, b = te.placeholder((rows, m), f32, "X"), te.placeholder((m,), f32, "G"), te.placeholder((m,), f32, "B")
        k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
        share = tir.const(1.0 / m, f32)
        mean = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "M")
        var = te.compute(
            (rows,), lambda i: te.sum((x[i, l] - mean[i] * share) * (x[i, l] - mean[i] * share), axis=l), "V"
        )
        y = te.compute(
            (rows, m),
            lambda i, j: (x[i, j] - mean[i] * share) / tir.sqrt(var[i] * share + tir.const(1e-5, f32)) * g[j] + b[j],
            "Y",
        )
        return te.create_prim_func([x, g, b, y]), []
    if op == "attention":
        heads, m, d = n["heads"], n["n"], n["d"]
        q, k, v = (te.placeholder((heads, m, d), f32, name) for name in "QKV")
        c = te.reduce_axis((0, d), "c")
        j1, j2, j3 = (te.reduce_axis((0, m), f"j{i}") for i in (1, 2, 3))
        s = te.compute((heads, m, m), lambda h, i, j: te.sum(q[h, i, c] * k[h, j, c], axis=c), "S")
        top = te.compute((heads, m), lambda h, i: te.max(s[h, i, j1], axis=j1), "M")
        e = te.compute((heads, m, m), lambda h, i, j: tir.exp(s[h, i, j] - top[h, i]), "E")
        t = te.compute((heads, m), lambda h, i: te.sum(e[h, i, j2], axis=j2), "T")
        p = te.compute((heads, m, m), lambda h, i, j: e[h, i, j] / t[h, i], "P")
        y = te.compute((heads, m, d), lambda h, i, x: te.sum(p[h, i, j3] * v[h, j3, x], axis=j3), "Y")
        return te.create_prim_func([q, k, v, y]), []
    if op == "elementwise":
        rows, m = n["rows"], n["n"]
        x, r = te.placeholder((rows, m), f32, "X"), te.placeholder((rows, m), f32, "R")
        s, b = te.placeholder((m,), f32, "S"), te.placeholder((m,), f32, "B")
        added = te.compute((rows, m), lambda i, j: tir.max(x[i, j] * s[j] + b[j], zero()) + r[i, j], "added")
        y = te.compute(
            (rows, m), lambda i, j: added[i, j] / (tir.const(1.0, f32) + tir.exp(zero() - added[i, j])), "Y"
        )
        return te.create_prim_func([x, r, s, b, y]), []
    raise SystemExit(f"no such operator: {op}")


def tune_one(task, trials, threads):
    """Tunes in this process; prints one line of JSON."""
    tvm, _, _ = import_tvm()
    from tvm.s_tir import meta_schedule as ms

    func, constant = make_function(task)
    if constant:
        func = func.with_attr("layout_free_buffers", constant)
    target = tvm.target.Target({"kind": "llvm", "mcpu": host_cpu(), "num-cores": threads})
    marks = sorted({m for m in (16, 64, 256, 1000) if m < trials} | {trials})
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            mod=func.with_attr("global_symbol", "main"), target=target, work_dir=folder, max_trials_global=trials,
            num_trials_per_iter=64, cost_model="xgb", seed=1, builder=ms.builder.LocalBuilder(timeout_sec=60),
            runner=ms.runner.LocalRunner(timeout_sec=60),
        )
        seconds = time.monotonic() - begin
        # The file is in the order of measuring; the records in memory are sorted by time.
        best, result, measured = math.inf, [], 0
        for line in pathlib.Path(folder, "database_tuning_record.json").read_text().splitlines():
            _, (_, run_secs, *_) = json.loads(line)
            measured += 1
            times = [float(x) for x in run_secs or [] if float(x) < 1e9]  # 1e10: it failed
            if times:
                best = min(best, sum(times) / len(times))
            if measured in marks and math.isfinite(best):
                result.append([measured, best])
        if math.isfinite(best) and (not result or result[-1][0] != measured):
            result.append([measured, best])
    print(json.dumps({"task": task["task"], "trials": trials, "measured": measured, "seconds": seconds, "best": result}))


def host_cpu():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    return "skylake-avx512" if "avx512vl" in text else "core-avx2" if "avx2" in text else "x86-64"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", required=False)
    parser.add_argument("--out", default="build/bench/search/tvm.jsonl")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", type=float, default=0)
    parser.add_argument("--one", help="a task as JSON: tune it here")
    options = parser.parse_args()
    if options.one:
        tune_one(json.loads(options.one), options.trials, options.threads)
        return
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    if out.exists():
        for line in out.read_text().splitlines():
            row = json.loads(line)
            known[row["task"]] = max(known.get(row["task"], 0), row["trials"])
    begin = time.monotonic()
    environment = {**os.environ, "TVM_NUM_THREADS": str(options.threads), "OMP_NUM_THREADS": str(options.threads)}
    for line in pathlib.Path(options.tasks).read_text().splitlines():
        task = json.loads(line)
        if task["training"] or options.only not in task["task"] or known.get(task["task"], 0) >= options.trials:
            continue
        if options.budget and time.monotonic() - begin > options.budget:
            break
        command = [sys.executable, __file__, "--one", line, "--trials", str(options.trials), "--threads", str(options.threads)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        rows = [l for l in done.stdout.splitlines() if l.startswith('{"task"')]
        if done.returncode != 0 or not rows:
            print(f"{task['task']}: failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", file=sys.stderr)
            continue
        with out.open("a") as file:
            file.write(rows[-1] + "\n")
        row = json.loads(rows[-1])
        print(f"{task['task']:<34} {row['measured']:>4} trials {row['seconds']:>6.0f} s  best {row['best'][-1][1] * 1e3:.4g} ms")


if __name__ == "__main__":
    main()
