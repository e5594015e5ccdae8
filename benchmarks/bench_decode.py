#!/usr/bin/env python3
"""Weights of 4 bits, one row at a time: products that are cold, and a decoder of 0.5 B weights' shape.

usage: bench_decode.py [--only TEXT] [--threads N ...] [--time SECONDS] [--out FOLDER]
Makes the models in build/decode/, with seeded weights, and times each untuned with `fettle bench --against onnxruntime`, in turn,
for each number of threads. Products go through more than 1 GiB of matrices in a call, so that each is read from memory.
benchmarks/decode/read_streams.c reads as many bytes before and after. Writes OUT/decode.json; ends with 1 where a figure misses
its bound.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import onnx
from bench_operators import FLOAT, INT64, ROOT, fettle
from beside_engines import options_of
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
COLD_BYTES = 1 << 30
LAYERS, HIDDEN, HEADS, GROUPS, WIDTH, FEED, WORDS, PAST = 24, 896, 14, 2, 64, 4864, 151936, 256
SHARE = 0.85  # of the speed of a read
FASTER = 1.2  # than ONNX Runtime
BESIDE_WEIGHTS = 64 << 20  # bytes


class Maker:
    """A model in the making; what constants take is counted."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.constants = [], [], [], []
        self.weight_bytes = 0

    def input(self, name, shape, kind=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name, shape):
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, shape))

    def constant(self, name, content):
        content = numpy.ascontiguousarray(content)
        self.weight_bytes += content.nbytes
        self.constants.append(numpy_helper.from_array(content, name))
        return name

    def node(self, op, inputs, outputs=None, domain="", **attributes):
        outputs = outputs or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0], domain=domain, **attributes))
        return outputs[0]

    def packed(self, name, columns, steps):
        """Bytes and scales of so many columns; products with them keep the size of what they multiply."""
        weights = self.random.integers(0, 256, (columns, steps // BLOCK, BLOCK // 2), dtype=numpy.uint8)
        scales = self.random.uniform(0.5, 1.5, (columns, steps // BLOCK)).astype(numpy.float32) / (4.6 * steps**0.5)
        return self.constant(name + ".w", weights), self.constant(name + ".s", scales)

    def product(self, name, x, columns, steps):
        return self.node("MatMulNBits", [x, *self.packed(name, columns, steps)], domain="com.microsoft", K=steps, N=columns, bits=4,
                         block_size=BLOCK)  # fmt: skip

    def norm(self, name, x):
        gains = self.constant(name, self.random.uniform(0.8, 1.2, HIDDEN).astype(numpy.float32))
        return self.node("SimplifiedLayerNormalization", [x, gains], axis=-1, epsilon=1e-6)

    def save(self, path):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        pathlib.Path(str(path) + ".data").unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=1 << 16)


def products(steps, columns):
    """Σ of x times matrices of more than 1 GiB together."""
    made = Maker(1)
    x, total, count = made.input("x", [1, steps]), None, 0
    while made.weight_bytes < COLD_BYTES:
        y = made.product(f"m{count}", x, columns, steps)
        total = made.node("Add", [total, y]) if total else y
        count += 1
    made.output(total, [1, columns])
    return made, count


def decoder():
    """One step: a word, and the keys and values of those before."""
    made = Maker(2)
    word = made.input("word", [1, 1], INT64)
    x = made.node("GatherBlockQuantized", [
        made.constant("words.w", made.random.integers(0, 256, (WORDS, HIDDEN // 2), dtype=numpy.uint8)), word,
        made.constant("words.s", made.random.uniform(0.1, 0.3, (WORDS, HIDDEN // BLOCK)).astype(numpy.float32))],
        domain="com.microsoft", bits=4, block_size=BLOCK, gather_axis=0, quantize_axis=1)  # fmt: skip
    angles = numpy.arange(PAST + 1)[:, None] / 1e6 ** (numpy.arange(WIDTH // 2) * 2 / WIDTH)
    turns = [made.constant("cos", numpy.cos(angles).astype("float32")), made.constant("sin", numpy.sin(angles).astype("float32"))]
    length, total = made.constant("length", numpy.array([PAST], "int32")), made.constant("total", numpy.array(PAST + 1, "int32"))
    cache = 0
    for i in range(LAYERS):
        h = made.norm(f"{i}.before", x)
        q, k, v = (made.product(f"{i}.{name}", h, n * WIDTH, HIDDEN) for name, n in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)))
        past = [made.input(f"past.{i}.{name}", [1, GROUPS, PAST, WIDTH]) for name in ("key", "value")]
        present = [f"present.{i}.{name}" for name in ("key", "value")]
        a = made.node("GroupQueryAttention", [q, k, v, *past, length, total, *turns], [f"attention.{i}", *present],
                      domain="com.microsoft", num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)  # fmt: skip
        for name in present:
            made.output(name, [1, GROUPS, PAST + 1, WIDTH])
            cache += GROUPS * (2 * PAST + 1) * WIDTH * 4
        x = made.node("Add", [x, made.product(f"{i}.o", a, HIDDEN, HIDDEN)])
        h = made.norm(f"{i}.between", x)
        gate, up = (made.product(f"{i}.{name}", h, FEED, HIDDEN) for name in ("gate", "up"))
        swish = made.node("Mul", [gate, made.node("Sigmoid", [gate])])
        x = made.node("Add", [x, made.product(f"{i}.down", made.node("Mul", [swish, up]), HIDDEN, FEED)])
    made.output(made.product("next", made.norm("last", x), WORDS, HIDDEN), [1, 1, WORDS])
    return made, cache


def reader(folder):
    """Seconds that reading so many bytes takes."""
    program = folder / "read_streams"
    source = ROOT / "benchmarks/decode/read_streams.c"
    subprocess.run([shutil.which("cc"), "-O3", "-march=native", "-pthread", source, "-o", program], check=True)
    return lambda count, threads: float(subprocess.run([program, str(count), str(threads), "3"], check=True, capture_output=True, text=True).stdout)


def peak_bytes(path, made, folder):
    """Of memory, of a program in C that runs the compiled model once. Files of weights count."""
    library = folder / (path.stem + ".so")
    fettle("compile", path, "-o", library, "--threads", 1, "--json")
    program = folder / "run_model"
    header = library.with_suffix(".h")
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(header, pathlib.Path(scratch) / "model.h")
        subprocess.run(["cc", "-I", scratch, ROOT / "examples/c/run_model.c", library, f"-Wl,-rpath,{folder}", "-o", program], check=True)
        arguments = [str(program)]
        for given in made.inputs:
            shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
            kind = helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
            arguments.append(f"{scratch}/{given.name}")
            numpy.zeros(shape, kind).tofile(arguments[-1])
        # What a process had before it became another one counts as its own, and this one has the model.
        watch = ("import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
                 "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")  # fmt: skip
        child = subprocess.run([sys.executable, "-c", watch, *arguments], check=True, capture_output=True, text=True)
    return int(child.stdout) * 1024


class Report:
    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, bound=None, holds=True):
        self.rows.append({"what": what, "value": value, "unit": unit, "bound": bound or "", "holds": bool(holds)})
        print(f"{what:<66} {value:>10.3f} {unit:<9} {bound or '':<12}{'' if holds else ' MISSED'}", flush=True)


def timed(path, threads, seconds):
    """Seconds of a call, of Fettle and of ONNX Runtime."""
    made = fettle("bench", path, "--threads", threads, "--time", seconds, "--against", "onnxruntime", "--json")
    return made["latency_ms"]["median"] / 1e3, made["against"]["onnxruntime"]["median"] / 1e3


def main():
    options = options_of(__doc__, "decode")
    folder = ROOT / "build/decode"
    folder.mkdir(parents=True, exist_ok=True)
    report, read_seconds = Report(), reader(folder)
    for steps, columns in ((4096, 4096), (4096, 11008)):
        called = f"product of a row by {steps} x {columns}, 4 bits, cold"
        if options.only.lower() not in called:
            continue
        path = folder / f"products_{steps}_{columns}.onnx"
        made, count = products(steps, columns)
        made.save(path)
        for threads in options.threads:
            before = read_seconds(made.weight_bytes, threads)
            own, other = timed(path, threads, options.time)
            read = min(before, read_seconds(made.weight_bytes, threads))
            which = f"{called}, {threads} thread{'s' if threads > 1 else ''}"
            report.add(f"{which}: of a read's speed", read / own, "x", f">= {SHARE}", read / own >= SHARE)
            report.add(f"{which}: ONNX Runtime", read / other, "x")
            report.add(f"{which}: a product", own / count * 1e3, "ms")
    called = "decoder of 0.5 b weights' shape, 4 bits"
    if options.only.lower() in called:
        path = folder / "decoder.onnx"
        made, cache = decoder()
        made.save(path)
        for threads in options.threads:
            own, other = timed(path, threads, options.time)
            which = f"{called}, {threads} thread{'s' if threads > 1 else ''}"
            report.add(f"{which}: words a second, over ONNX Runtime", other / own, "x", f">= {FASTER}", other / own >= FASTER)
            report.add(f"{which}: words a second", 1 / own, "1/s")
        beside = peak_bytes(path, made, folder) - made.weight_bytes - cache
        report.add(f"{called}: memory beside weights and cache", beside / 2**20, "MiB", f"<= {BESIDE_WEIGHTS >> 20}",
                   beside <= BESIDE_WEIGHTS)  # fmt: skip
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "decode.json").write_text(json.dumps(report.rows, indent=1) + "\n")
    sys.exit(0 if all(row["holds"] for row in report.rows) else 1)


if __name__ == "__main__":
    main()
