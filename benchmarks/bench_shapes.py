#!/usr/bin/env python3
"""Random shapes of the operators that networks spend their time in, untuned, against ONNX Runtime and OpenVINO.

usage: bench_shapes.py [--seed N] [--count N] [--only TEXT] [--threads N ...] [--time SECONDS] [--target T] [--out FOLDER]
Draws shapes of products, convolutions, depthwise convolutions and norms, and attention, in equal parts, of about 0.05 to 20 ms
each. Makes the models in build/shapes/ and times each with `fettle bench --against onnxruntime,openvino`, in turn. Writes
OUT/shapes.json: the ratio of each shape over the better engine, the geometric mean of each family, the worst of all. Ends with 1
where a figure misses its bound. Products have another bound where the processor has a tile unit and no target is given.
"""

import math
import pathlib
import random
import statistics

import numpy
from bench_attention import BOTH, Maker, attend
from bench_operators import floats, ints
from beside_engines import options_of, plural, report, timed

WORST = 1.05
FLOP_MS, BYTES_MS = 1.5e8, 1e7  # of one thread, roughly: what an operator's time is guessed by
LEAST_MS, MOST_MS = 0.05, 20


def lasts(flop, floats_moved):
    return LEAST_MS <= max(flop / FLOP_MS, 4 * floats_moved / BYTES_MS) <= MOST_MS


def extent(draw, least, most):
    """As many small ones as large ones; half of them round."""
    value = round(math.exp(draw.uniform(math.log(least), math.log(most))))
    grain = draw.choice([1, 8, 32]) if value > 64 else 1
    return max(least, value // grain * grain)


def product(draw):
    rows, columns, depth = extent(draw, 1, 2048), extent(draw, 16, 4096), extent(draw, 16, 4096)
    if not lasts(2 * rows * columns * depth, rows * depth + depth * columns + rows * columns):
        return None
    m = Maker()
    result = m("MatMul", m.input(rows, depth), m.constant(floats(depth, columns) / math.sqrt(depth)))
    return f"product {rows}x{depth}x{columns}", m.model(result, rows, columns)


def convolution(draw):
    transposed = draw.random() < 0.1
    kernel, stride = draw.choice([1, 1, 3, 3, 3, 5, 7]), 2 if transposed else draw.choice([1, 1, 1, 2])
    groups = 1 if transposed else draw.choice([1, 1, 1, 1, 2, 4, 8])
    dilation = draw.choice([1, 1, 1, 2]) if kernel > 1 and not transposed else 1
    inputs, outputs = (groups * extent(draw, 4, 1024 // groups) for _ in range(2))
    batch, size = draw.choice([1, 1, 1, 2, 4]), extent(draw, 7, 224)
    pad = dilation * (kernel // 2)
    reach = dilation * (kernel - 1) + 1
    made = (size - 1) * stride + kernel - 2 * pad if transposed else (size + 2 * pad - reach) // stride + 1
    pixels = size if transposed else made
    if made < 1 or not lasts(2 * batch * pixels**2 * kernel**2 * inputs * outputs // groups, batch * size**2 * inputs):
        return None
    m = Maker()
    weights = m.constant(floats(*([inputs, outputs] if transposed else [outputs, inputs // groups]), kernel, kernel) / 8)
    attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2, "group": groups}
    result = m("ConvTranspose" if transposed else "Conv", m.input(batch, inputs, size, size), weights, **attributes)
    name = f"{'transposed ' if transposed else ''}convolution {batch}x{inputs}x{size}x{size} to {outputs}, {kernel}x{kernel}"
    for what, value in (("stride", stride), ("groups", groups), ("dilation", dilation)):
        name += f", {what} {value}" if value > 1 else ""
    return name, m.model(result, batch, outputs, made, made)


def depthwise(draw):
    channels, size, batch = extent(draw, 16, 1024), extent(draw, 7, 224), draw.choice([1, 1, 2])
    kernel, stride = draw.choice([3, 3, 5, 7]), draw.choice([1, 1, 2])
    made = (size + 2 * (kernel // 2) - kernel) // stride + 1
    if not lasts(2 * batch * channels * made**2 * kernel**2, batch * channels * (size**2 + made**2)):
        return None
    m = Maker()
    attributes = {"strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": channels}
    result = m("Conv", m.input(batch, channels, size, size), m.constant(floats(channels, 1, kernel, kernel)), **attributes)
    name = f"depthwise {batch}x{channels}x{size}x{size}, {kernel}x{kernel}{f', stride {stride}' * (stride > 1)}"
    return name, m.model(result, batch, channels, made, made)


def norm(draw):
    m, kind = Maker(), draw.choice(["LayerNormalization", "Softmax", "InstanceNormalization", "ReduceMean"])
    if kind == "InstanceNormalization":
        shape = [draw.choice([1, 2]), extent(draw, 4, 512), *[extent(draw, 7, 128)] * 2]
        result = m(kind, m.input(*shape), m.constant(floats(shape[1])), m.constant(floats(shape[1])))
    else:
        shape = [extent(draw, 1, 4096), extent(draw, 16, 4096)]
        scales = [m.constant(floats(shape[1])) for _ in range(2 * (kind == "LayerNormalization"))]
        result = m(kind, m.input(*shape), *scales, **({"axes": [1], "keepdims": 1} if kind == "ReduceMean" else {"axis": -1}))
    if not lasts(8 * math.prod(shape), 2 * math.prod(shape)):
        return None
    made = [shape[0], 1] if kind == "ReduceMean" else shape
    return f"{kind} {'x'.join(map(str, shape))}", m.model(result, *made)


def attention(draw):
    heads, width = extent(draw, 1, 32), draw.choice([32, 40, 48, 64, 64, 64, 80, 96, 128])
    tokens = extent(draw, 16, 1500)
    keys, causal = (extent(draw, 16, 1500), False) if draw.random() < 0.25 else (tokens, draw.random() < 0.4)
    if not lasts(4 * heads * tokens * keys * width, 2 * heads * (tokens + keys) * width):
        return None
    m = Maker()
    query, key, value = m.input(1, heads, tokens, width), m.input(1, heads, width, keys), m.input(1, heads, keys, width)
    hidden = numpy.triu(numpy.full((tokens, keys), numpy.finfo(numpy.float32).min), 1)
    result = attend(m, query, key, value, width, m.constant(hidden) if causal else None)
    name = f"attention {heads}x{tokens}x{width}" + f", {keys} keys" * (keys != tokens) + ", causal" * causal
    return name, m.model(result, 1, heads, tokens, width)


FAMILIES = {  # and what of the better engine's time they may take
    "products": ([product], 0.97),
    "convolutions": ([convolution], 0.85),
    "depthwise and norms": ([depthwise, norm], 0.7),
    "attention": ([attention], 0.85),
}


PRODUCTS_WITH_TILES = 0.6  # where the processor has a tile unit, and kernels may use it


def bound_of(family, target):
    has_tiles = "amx_tile" in pathlib.Path("/proc/cpuinfo").read_text()
    return PRODUCTS_WITH_TILES if family == "products" and has_tiles and not target else FAMILIES[family][1]


def drawn(seed, count):
    """Family, name and model; the same for the same seed, whatever is timed of them."""
    for family, (kinds, _) in FAMILIES.items():
        draw, made = random.Random(f"{seed} {family}"), 0
        while made < count // len(FAMILIES):
            case = kinds[made % len(kinds)](draw)
            if case is not None:
                made += 1
                yield family, *case


def main():
    options = options_of(__doc__, "shapes", seed=1, count=100)
    rows, ratios = [], {}
    print(f"seed {options.seed}")
    for family, name, made in drawn(options.seed, options.count):
        if options.only.lower() not in f"{family}: {name}".lower():
            continue
        for threads in options.threads:
            ratio = timed("shapes", name, made, threads, options.time, BOTH, options.target)
            if ratio is None:
                rows.append({"what": f"{name}, {plural(threads, 'thread')}: fails", "value": 1, "unit": "", "bound": "<= 0", "holds": False})
                continue
            print("" if ratio <= WORST else "  MISSED", flush=True)
            ratios.setdefault((family, threads), []).append(ratio)
            rows.append({"what": f"{name}, {plural(threads, 'thread')}: over the better engine", "value": ratio, "unit": "x"})
    for (family, threads), values in ratios.items():
        for what, value, most in (
            ("geomean", statistics.geometric_mean(values), bound_of(family, options.target)),
            ("worst", max(values), WORST),
        ):
            holds = value <= most
            rows.append({"what": f"{family}, {plural(threads, 'thread')}: {what}", "value": value, "unit": "x",
                         "bound": f"<= {most}", "holds": holds})  # fmt: skip
            print(f"{rows[-1]['what']:<50} {value:>7.3f}{'' if holds else '  MISSED'}")
    report("shapes", options.out, rows)


if __name__ == "__main__":
    main()
