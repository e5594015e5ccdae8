#!/usr/bin/env python3
"""Quantised models, untuned, against ONNX Runtime and OpenVINO, and products of bytes against the peak of the machine.

usage: bench_quantised.py [--only TEXT] [--threads N ...] [--time SECONDS] [--out FOLDER]
Quantises models by ONNX Runtime's quantize_static (QDQ, u8 activations, i8 weights by channel) into build/quantised/, once.
Times each with `fettle bench --against onnxruntime,openvino`, in turn, for each number of threads, and products of matrices
alone. What a loop of vpdpbusd on registers reaches stands beside them. Writes OUT/quantised.json; ends with 1 where a figure
misses its bound.
"""

import pathlib
import subprocess
import tempfile

import numpy
import onnx
from bench_operators import ROOT
from beside_engines import run
from onnx import TensorProto, helper, numpy_helper

BOTH = ["onnxruntime", "openvino"]
FOLDER = ROOT / "build/quantised"
RANDOM = numpy.random.default_rng(0)

PEAK = r"""
#include <immintrin.h>
#include <stdio.h>
#include <time.h>
int main(void) {
  double best = 0;
  for (int round = 0; round < 40; ++round) {
    __m512i s[16], a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(2);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) s[i] = _mm512_setzero_si512();
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (int n = 0; n < 400000; ++n) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) s[i] = _mm512_dpbusd_epi32(s[i], a, b);
      __asm__ volatile("" : "+v"(s[0]), "+v"(s[1]), "+v"(s[2]), "+v"(s[3]), "+v"(s[4]), "+v"(s[5]), "+v"(s[6]), "+v"(s[7]));
      __asm__ volatile("" : "+v"(s[8]), "+v"(s[9]), "+v"(s[10]), "+v"(s[11]), "+v"(s[12]), "+v"(s[13]), "+v"(s[14]), "+v"(s[15]));
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    double gops = 400000.0 * 16 * 128 / ((t1.tv_sec - t0.tv_sec) * 1e9 + (t1.tv_nsec - t0.tv_nsec));
    if (gops > best) best = gops;
  }
  printf("%f\n", best);
}
"""


def peak_gops():
    """One core's, or None where it has no vpdpbusd on 512 bits."""
    if "avx512_vnni" not in pathlib.Path("/proc/cpuinfo").read_text():
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "peak.c"), pathlib.Path(folder, "peak")
        source.write_text(PEAK)
        subprocess.run(["cc", "-O2", "-mavx512f", "-mavx512vnni", source, "-o", program], check=True)
        return float(subprocess.run([program], capture_output=True, text=True, check=True).stdout)


def product(n):
    weights = numpy_helper.from_array(RANDOM.integers(-127, 127, (n, n), dtype=numpy.int8), "b")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [n, n])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [n, n])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Samples:
    """Two of random content."""

    def __init__(self, model):
        self.left = [{i.name: self.content(i.type.tensor_type) for i in model.graph.input} for _ in range(2)]

    @staticmethod
    def content(kind):
        shape = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type == TensorProto.FLOAT:
            return RANDOM.standard_normal(shape, "float32")
        return RANDOM.integers(0, 2, shape, dtype=helper.tensor_dtype_to_np_dtype(kind.elem_type))

    def get_next(self):
        return self.left.pop() if self.left else None


def quantised(name, sizes=None):
    """The model of build/models with its open sizes fixed, quantised."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.made.onnx"
    if not path.exists():
        model = onnx.load(ROOT / f"build/models/{name}.onnx")
        for given in model.graph.input:
            for dim in given.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_value = (sizes or {}).get(dim.dim_param, 1)
        with tempfile.TemporaryDirectory() as folder:
            fixed, prepared = (str(pathlib.Path(folder, file)) for file in ("fixed.onnx", "prepared.onnx"))
            onnx.save(model, fixed)
            quant_pre_process(fixed, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                str(path),
                Samples(model),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
            )
    return onnx.load(path)


def cases():
    yield "ResNet-50", quantised("resnet50"), 0.8, BOTH
    yield "ViT-B/16", quantised("vit_b16"), 0.8, BOTH
    yield "BERT-base, 128 tokens", quantised("bert_base", {"batch": 1, "sequence": 128}), 0.8, BOTH
    yield "MobileNetV2", quantised("mobilenet_v2"), 0.8, BOTH
    for n in (512, 1024):
        yield f"product of {n} x {n}", product(n), 1.0, ["onnxruntime"]


if __name__ == "__main__":
    peak = peak_gops()
    if peak:
        times = ", ".join(f"{n} x {n} x {n}: {2 * n**3 / peak / 1e3:.1f} us" for n in (512, 1024))
        print(f"vpdpbusd on registers, one thread: {peak:.0f} GOP/s ({times})", flush=True)
    run(__doc__, "quantised", cases())
