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


def normalized(x, scale):
    from jax import lax, numpy as jnp

    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * scale


def transformer(jax, x, layers, heads, is_causal):
    """Layers of (qkv, projection, up, down, two scales), normalised first; x is [batch, length, width]."""
    jnp = jax.numpy
    batch, length, width = x.shape
    mask = jnp.tril(jnp.ones((length, length), bool)) if is_causal else None
    for qkv, projection, up, down, first, second in layers:
        q, k, v = jnp.split(normalized(x, first) @ qkv, 3, axis=-1)
        q, k, v = (t.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) / root(width // heads)
        if is_causal:
            scores = jnp.where(mask, scores, -jnp.inf)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        x = x + mixed @ projection
        x = x + jax.nn.gelu(normalized(x, second) @ up) @ down
    return x


def root(x):
    return float(x) ** 0.5


def transformer_weights(floats, layers, width):
    ones = floats(width) * 0 + 1
    shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    return [(*(floats(*shape) / root(shape[0]) for shape in shapes), ones, ones) for _ in range(layers)]


def resnet_weights(floats):
    """ResNet-50: (kernel, scale, shift) of each convolution, in order; normalisation as it is where nothing is trained."""
    def convolution(k, inputs, outputs):
        return floats(k, k, inputs, outputs) / root(k * k * inputs), floats(outputs) * 0 + 0.5, floats(outputs) * 0.01

    blocks, inputs = [], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for i in range(count):
            kernels = [convolution(1, inputs, width), convolution(3, width, width), convolution(1, width, 4 * width)]
            if i == 0:
                kernels.append(convolution(1, inputs, 4 * width))
            blocks.append(kernels)
            inputs = 4 * width
    return convolution(7, 3, 64), blocks, floats(2048, 1000) / 45


def resnet(jax, weights, x):
    lax, jnp = jax.lax, jax.numpy
    first, blocks, last = weights

    def convolution(x, kernel, stride=1):
        w, scale, shift = kernel
        made = lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return made * scale + shift

    x = jax.nn.relu(convolution(x, first, 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for i, kernels in enumerate(blocks):
        stride = 2 if i in (3, 7, 13) else 1
        inner = jax.nn.relu(convolution(x, kernels[0]))
        inner = convolution(jax.nn.relu(convolution(inner, kernels[1], stride)), kernels[2])
        around = convolution(x, kernels[3], stride) if len(kernels) > 3 else x
        x = jax.nn.relu(inner + around)
    return x.mean((1, 2)) @ last


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
        weights, floats(32, 256)), 0.85  # fmt: skip

    def conv(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    image, kernel = floats(1, 56, 56, 64), floats(3, 3, 64, 64)
    yield "convolution, 56x56x64, 3x3", conv, (image, kernel), 1
    yield "its gradient by the weights", jax.grad(lambda w, x: jnp.sum(jnp.square(conv(x, w)))), (kernel, image), 1
    yield "softmax, 128x1024", lambda x: jax.nn.softmax(x), (floats(128, 1024),), 1
    yield "scan, 100 steps of 8x64", lambda c, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), c, None, 100)[0], (
        floats(8, 64), floats(64, 64) / 8), 1  # fmt: skip
    yield "while_loop, 10,000 steps of 4", lambda x: lax.while_loop(
        lambda s: s[0] < 10_000, lambda s: (s[0] + 1, s[1] * 1.001 - s[1] * s[1] * 0.001), (0, x))[1], (floats(4),), 0.5  # fmt: skip
    yield "scan, 10,000 steps of 8", lambda x, xs: lax.scan(lambda c, v: (c * 0.9 + v, c.sum()), x, xs), (
        floats(8), floats(10_000, 8)), 0.5  # fmt: skip

    def gpt_loss(weights, tokens):
        embedding, positions, layers = weights
        x = embedding[tokens[:, :-1]] + positions
        logits = transformer(jax, x, layers, 4, True) @ embedding.T
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1).mean()

    def adamw(state, tokens):
        weights, m, v, t = state
        gradients = jax.grad(gpt_loss)(weights, tokens)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, gradients)
        t = t + 1
        weights = jax.tree.map(
            lambda w, m, v: w - 1e-3 * (m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8) + 0.1 * w), weights, m, v)
        return weights, m, v, t

    gpt = (floats(65, 128) * 0.1, floats(64, 128) * 0.1, transformer_weights(floats, 4, 128))
    zeros = jax.tree.map(np.zeros_like, gpt)
    yield "nanoGPT, 4 layers of 128, training step", adamw, (
        (gpt, zeros, zeros, np.float32(0)), random.integers(0, 65, (8, 65)).astype(np.int32)), 0.85  # fmt: skip
    yield "BERT, 4 layers of 512, 128 tokens", lambda x, layers: transformer(jax, x, layers, 8, False), (
        floats(1, 128, 512), transformer_weights(floats, 4, 512)), 0.85  # fmt: skip
    yield "ResNet-50, batch 1", lambda w, x: resnet(jax, w, x), (resnet_weights(floats), floats(1, 224, 224, 3)), 0.85
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
