#!/usr/bin/env python3
"""The 3x3 convolutions of ResNet-50 in f16 on an NVIDIA GPU, untuned, beside cuDNN's.

usage: gpu_convs.py --fettle FETTLE [--json OUT.json] [--folder FOLDER]
Chains of 16 equal convolutions, channels last, batch 1 and 32: one call of a chain is one CUDA graph on both sides. The times are medians of
calls in turn, each with its wait, by convolution. Needs PyTorch for CUDA, ONNX and numpy. Exit status 1: results differ.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from gpu_models import Model

CHAIN = 16
# channels, pixels of a side
CONVOLUTIONS = [(64, 56), (128, 28), (256, 14), (512, 7)]


def weights(channels):
    rng = np.random.default_rng(1)
    scale = (2 / (9 * channels)) ** 0.5
    return [(rng.standard_normal((channels, channels, 3, 3)) * scale).astype(np.float16) for _ in range(CHAIN)]


def make_model(path, batch, channels, size, kernels):
    shape = [batch, channels, size, size]
    nodes, last = [], "x"
    for i in range(CHAIN):
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"y{i}"]))
        last = f"y{i}"
    graph = helper.make_graph(nodes, "convolutions", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT16, shape)],
                              [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(kernels)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def make_peer(x, kernels):
    kernels = [torch.from_numpy(w).cuda().to(memory_format=torch.channels_last) for w in kernels]
    held = x.to(memory_format=torch.channels_last)

    def chain():
        y = held
        for w in kernels:
            y = torch.nn.functional.conv2d(y, w, padding=1).relu_()
        return y

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream), torch.no_grad():
        result = chain()

    def run():
        graph.replay()
        torch.cuda.synchronize()

    return run, result


def in_turns(runs, seconds=0.4):
    times = [[] for _ in runs]
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(times[0]) < 20:
        for run, own in zip(runs, times):
            begin = time.perf_counter()
            run()
            own.append(time.perf_counter() - begin)
    return [statistics.median(own) * 1e6 / CHAIN for own in times]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fettle", required=True)
    parser.add_argument("--json")
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    card, rows, right = torch.cuda.get_device_name(), [], True
    compiles = []
    for batch in (1, 32):
        for channels, size in CONVOLUTIONS:
            stem = pathlib.Path(options.folder) / f"conv_{batch}_{channels}_{size}"
            make_model(f"{stem}.onnx", batch, channels, size, weights(channels))
            command = [options.fettle, "compile", f"{stem}.onnx", "-o", f"{stem}.so", "--untuned", "--target", "cuda -arch sm_90a"]
            compiles.append((batch, channels, size, stem, subprocess.Popen(command, stdout=subprocess.DEVNULL)))
    for batch, channels, size, stem, process in compiles:
        if process.wait() != 0:
            print(f"{stem}: does not compile")
            right = False
            continue
        x = (np.random.default_rng(0).standard_normal((batch, channels, size, size))).astype(np.float16)
        model = Model(f"{stem}.so")
        run, outputs = model.in_place({"x": x}, model.run({"x": x})[0], torch)
        peer, expected = make_peer(torch.from_numpy(x).cuda(), weights(channels))
        run()
        peer()
        made = next(iter(outputs.values())).float()
        difference = ((made - expected.float()).abs().max() / expected.float().abs().max()).item()
        right &= difference < 3e-2
        own, other = in_turns([run, peer])
        flops = 2 * batch * size * size * channels * channels * 9
        print(f"3x3 {channels:4d} channels, {size:2d} x {size:2d}, batch {batch:2d}: {own:8.2f} us {flops / own / 1e6:6.1f} TFLOP/s, "
              f"cuDNN {other:8.2f} us, ratio {other / own:.3f}, differs by {difference:.1e}", flush=True)
        rows.append({"what": f"3x3 {channels} x {size} x {size}, batch {batch}: share of cuDNN", "value": other / own, "unit": "",
                     "bound": ">= 0.9", "holds": other / own >= 0.9})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"card": card, "rows": rows}, indent=1))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
