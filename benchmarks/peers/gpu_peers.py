#!/usr/bin/env python3
"""What others reach on an NVIDIA GPU: cuBLAS, cuDNN and torch.compile, with a copy of memory beside them.

usage: gpu_peers.py --out PEERS.json [--models NAME,…] [--mode reduce-overhead] [--skip models,gemm,attention,conv,memory]
  PEERS.json: {"card", "versions", "rows": [{"what", "value", "unit"}, …]}; rows of an earlier run with the same card stay
Needs PyTorch for CUDA, and transformers and torchvision for the models. Random data: zeros flatter. Times are medians of CUDA events
around graphs of calls; models are f16, batch 1, one call as a user makes it (host time counts), inputs on the device.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch

# m, n, k of the products: squares, odd sizes, few rows, transformers' layers.
GEMMS = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (16384, 4096, 4096), (4096, 16384, 4096),
         (4096, 4096, 16384), (8192, 1024, 4096), (1024, 8192, 4096), (2048, 6144, 2048), (4095, 4097, 4104), (1000, 1000, 1000),
         (3000, 5000, 2000), (777, 3072, 768), (197, 768, 3072), (512, 768, 3072), (512, 3072, 768), (512, 768, 768), (128, 768, 3072),
         (128, 3072, 768), (64, 4096, 4096), (64, 11008, 4096), (32, 4096, 11008), (16, 4096, 4096), (8, 11008, 4096), (1, 4096, 4096),
         (1, 11008, 4096), (256, 1024, 1024), (6272, 512, 512), (25088, 256, 64)]
# channels in, out, pixels, stride of ResNet-50's 3x3 convolutions.
CONVS = [(64, 64, 56, 1), (128, 128, 56, 2), (128, 128, 28, 1), (256, 256, 28, 2), (256, 256, 14, 1), (512, 512, 14, 2), (512, 512, 7, 1)]


def seconds(run, calls=20, rounds=15):
    """The median of `rounds` replays of a graph of `calls` calls, by call: launches by the host would hide short kernels."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            run()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(rounds + 1):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / calls)
    return statistics.median(times[1:])


def memory():
    x = torch.randn(256 << 20, device="cuda")  # 1 GiB
    y = torch.empty_like(x)
    yield "copy of 1 GiB", 2 * x.numel() * 4 / seconds(lambda: y.copy_(x)) / 1e9, "GB/s"


def gemm():
    for m, n, k in GEMMS:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        yield f"cuBLAS bf16 {m}x{n}x{k}", 2 * m * n * k / seconds(lambda: torch.mm(a, b, out=c)) / 1e12, "TFLOP/s"


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for causal in (False, True):
        q, k, v = (torch.randn(2, 16, 8192, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        flops = 4 * 2 * 16 * 8192**2 * 128 / (2 if causal else 1)
        for name, backend in [("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FlashAttention", SDPBackend.FLASH_ATTENTION)]:
            with sdpa_kernel(backend):
                run = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                yield f"{name} attention 2x16x8192x128{' causal' if causal else ''}", flops / seconds(run) / 1e12, "TFLOP/s"


def conv():
    torch.backends.cudnn.benchmark = True
    for batch in (1, 32):
        for c, o, p, s in CONVS:
            x = torch.randn(batch, c, p, p, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)
            w = torch.randn(o, c, 3, 3, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)
            run = lambda: torch.nn.functional.conv2d(x, w, stride=s, padding=1)
            yield f"cuDNN 3x3/{s} {batch}x{p}x{p} {c}->{o}", seconds(run) * 1e6, "us"


def make_model(name):
    torch.manual_seed(0)
    if name in ("bert_base", "bert_base_f32"):
        from transformers import BertConfig, BertModel

        return BertModel(BertConfig()), (torch.randint(0, 30000, (1, 128), device="cuda"),)
    import torchvision

    made = {"resnet50": torchvision.models.resnet50, "mobilenet_v2": torchvision.models.mobilenet_v2, "vit_b16": torchvision.models.vit_b_16}
    return made[name](), (torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.float16),)


def one_model(name, mode, lock):
    """In a process of its own: compiles first, then times while it has the lock."""
    import fcntl

    model, inputs = make_model(name)
    model = model.eval().half().cuda()
    if name in ("resnet50", "mobilenet_v2"):
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)

    def timed(run):
        for _ in range(10):
            run()
        torch.cuda.synchronize()
        times = []
        for _ in range(200):
            begin = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1e3

    with torch.inference_mode():
        begin = time.perf_counter()
        compiled = torch.compile(model, mode=mode)
        for _ in range(3):
            compiled(*inputs)
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            rows = [[f"{name} f16 eager", timed(lambda: model(*inputs)), "ms"],
                    [f"{name} f16 torch.compile {mode}", timed(lambda: compiled(*inputs)), "ms"],
                    [f"{name} f16 torch.compile {mode}: compiling", took, "s"]]
    print(json.dumps(rows))


def models(names, mode, lock):
    def run(name):
        done = subprocess.run([sys.executable, __file__, "--one", name, "--mode", mode, "--out", lock], capture_output=True, text=True,
                              timeout=300)
        if done.returncode:
            print(f"{name}: {done.stderr[-600:]}", file=sys.stderr)
            return []
        return json.loads(done.stdout.strip().splitlines()[-1])

    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        for rows in pool.map(run, names):
            yield from rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default="resnet50,mobilenet_v2,bert_base,vit_b16")
    parser.add_argument("--mode", default="reduce-overhead")
    parser.add_argument("--skip", default="")
    parser.add_argument("--one")
    arguments = parser.parse_args()
    if arguments.one:
        return one_model(arguments.one, arguments.mode, arguments.out)

    out = pathlib.Path(arguments.out)
    card = torch.cuda.get_device_name()
    known = json.loads(out.read_text()) if out.exists() else {}
    rows = {row["what"]: row for row in known.get("rows", [])} if known.get("card") == card else {}
    versions = {"torch": torch.__version__, "CUDA": torch.version.cuda, "cuDNN": torch.backends.cudnn.version()}
    skipped = arguments.skip.split(",")
    parts = {"memory": memory, "gemm": gemm, "attention": attention, "conv": conv,
             "models": lambda: models(arguments.models.split(","), arguments.mode, os.path.abspath(out) + ".lock")}
    for part, measure in parts.items():
        if part in skipped:
            continue
        try:
            for what, value, unit in measure():
                rows[what] = {"what": what, "value": value, "unit": unit}
                print(f"{what:60} {value:10.3f} {unit}", flush=True)
        except Exception as error:  # one part that a version lacks does not end the others
            print(f"{part}: {error}", file=sys.stderr)
        out.write_text(json.dumps({"card": card, "versions": versions, "rows": list(rows.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
