#!/usr/bin/env python3
"""Programs of JAX on Fettle beside XLA's CPU client, untuned, in one process.

usage: bench_jax.py [--only TEXT] [--threads N] [--time SECONDS] [--out FOLDER]
Times of a call, taken in turn, and of compiling. Both have as many threads as the process may use, or N. Writes OUT/jax.json;
ends with 1 where a figure misses its bound.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cases(jax, np):
    """Name, function, arguments, most of XLA's time."""
    from jax import lax, numpy as jnp

    random = np.random.default_rng(0)

    def floats(*shape):
        return random.standard_normal(shape).astype(np.float32)

    yield "dispatch: x + 1, 8 elements", lambda x: x + 1, (floats(8),), 1
    yield "dispatch: 4 arguments, 3 results", lambda a, b, c, d: (a + b, c * d, a - d), tuple(floats(8) for _ in range(4)), 1
    yield "matmul, 512", lambda a, b: a @ b, (floats(512, 512), floats(512, 512)), 1

    def mlp(x, *weights):
        for w in weights[:-1]:
            x = jax.nn.gelu(x @ w)
        return x @ weights[-1]

    weights = (floats(256, 1024) / 16, floats(1024, 1024) / 32, floats(1024, 10) / 32)
    yield "MLP, batch 32", mlp, (floats(32, 256), *weights), 1

    def loss(weights, x):
        return jnp.mean(jnp.square(mlp(x, *weights)))

    yield "MLP, batch 32, training step", lambda w, x: jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x)), (
        weights, floats(32, 256)), 1  # fmt: skip

    def conv(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    image, kernel = floats(1, 56, 56, 64), floats(3, 3, 64, 64)
    yield "convolution, 56x56x64, 3x3", conv, (image, kernel), 1
    yield "its gradient by the weights", jax.grad(lambda w, x: jnp.sum(jnp.square(conv(x, w)))), (kernel, image), 1
    yield "softmax, 128x1024", lambda x: jax.nn.softmax(x), (floats(128, 1024),), 1
    yield "scan, 100 steps of 8x64", lambda c, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), c, None, 100)[0], (
        floats(8, 64), floats(64, 64) / 8), 1  # fmt: skip
    yield "random normal, 65536", lambda seed: jax.random.normal(jax.random.key(seed), (65536,)), (np.int32(0),), 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--time", type=float, default=1, help="seconds for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of jax.json")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "fettle,cpu"
    if options.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import jax
    import numpy as np

    rows = []

    def row(what, value, unit, most):
        rows.append({"what": what, "value": value, "unit": unit, "bound": f"<= {most}", "holds": value <= most})
        return "" if rows[-1]["holds"] else "  MISSED"

    print(f"{'':<36} {'XLA':>10} {'fettle':>10} µs, compiling: {'XLA':>8} {'fettle':>8} ms")
    for name, function, arguments, most in cases(jax, np):
        if options.only.lower() not in name.lower():
            continue
        calls, compile_s = {}, {}
        for platform in ("cpu", "fettle"):
            device = jax.devices(platform)[0]
            with jax.default_device(device):
                given = jax.device_put(arguments, device)
                call = jax.jit(function)
                start = time.perf_counter()
                jax.block_until_ready(call(*given))
                compile_s[platform] = time.perf_counter() - start
            calls[platform] = (call, given)
        times = {platform: [] for platform in calls}
        end = time.perf_counter() + options.time * len(calls)
        while time.perf_counter() < end or len(times["cpu"]) < 5:
            for platform, (call, given) in calls.items():
                repeats = max(1, min(1000, int(1e-3 / (times[platform][-1] if times[platform] else 1e-3))))
                start = time.perf_counter()
                for _ in range(repeats):
                    result = call(*given)
                jax.block_until_ready(result)
                times[platform].append((time.perf_counter() - start) / repeats)
        xla, mine = (statistics.median(times[platform]) for platform in ("cpu", "fettle"))
        missed = row(f"{name}: over XLA", mine / xla, "x", most)
        print(f"{name:<36} {xla * 1e6:>10.1f} {mine * 1e6:>10.1f}                {compile_s['cpu'] * 1e3:>8.0f} "
              f"{compile_s['fettle'] * 1e3:>8.0f}{missed}", flush=True)  # fmt: skip
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "jax.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
