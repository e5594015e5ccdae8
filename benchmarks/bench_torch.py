#!/usr/bin/env python3
"""Models of torch by torch.compile: Fettle beside eager mode and Inductor, untuned.

usage: bench_torch.py [--only TEXT] [--threads N] [--time SECONDS] [--out FOLDER]
Times of a call, taken in turn, and of the first call, which compiles; that of the backend `aot_eager` shows what torch itself
takes of it. Inductor needs a C++ compiler. Writes OUT/torch.json; ends with 1 where a figure misses its bound.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "torch"))

FIRST_CALL_S = 2.0  # more than aot_eager takes


def cases():
    """Name, model, inputs."""
    import torchvision
    import transformers

    torch.manual_seed(0)
    linear = torch.nn.Linear
    yield "MLP, batch 1", torch.nn.Sequential(linear(256, 256), torch.nn.GELU(), linear(256, 10)), (torch.randn(1, 256),)
    yield "ResNet-18, batch 1", torchvision.models.resnet18(), (torch.randn(1, 3, 224, 224),)
    yield "MobileNet-v2, batch 1", torchvision.models.mobilenet_v2(), (torch.randn(1, 3, 224, 224),)
    size = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    bert = transformers.BertModel(transformers.BertConfig(use_cache=False, **size))
    yield "BERT, 4 layers of 256, 128 tokens", bert, (torch.randint(0, 1000, (1, 128)),)
    gpt = transformers.GPT2Model(transformers.GPT2Config(n_embd=256, n_layer=4, n_head=4, use_cache=False))
    yield "GPT-2, 4 layers of 256, 64 tokens", gpt, (torch.randint(0, 1000, (1, 64)),)


def compiled(model, inputs, backend):
    """The compiled model, and seconds of its first call; None where the backend fails."""
    call = torch.compile(model, backend=backend, dynamic=False)
    start = time.perf_counter()
    try:
        call(*inputs)
    except Exception as error:
        print(f"  {backend}: {str(error).splitlines()[0][:100]}")
        return None, None
    return call, time.perf_counter() - start


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
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--time", type=float, default=2, help="seconds for each")
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="folder of torch.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []

    def row(what, value, unit, most):
        rows.append({"what": what, "value": value, "unit": unit, "bound": f"<= {most}", "holds": value <= most})
        return "" if rows[-1]["holds"] else "  MISSED"

    print(f"{'':<36} {'eager':>9} {'inductor':>9} {'fettle':>9} ms, first call: {'aot_eager':>9} {'inductor':>9} {'fettle':>9} s")
    with torch.no_grad():
        for backend in ("aot_eager", "inductor", "fettle"):  # what is imported once
            compiled(torch.nn.Linear(2, 2), [torch.randn(1, 2)], backend)
    for name, model, inputs in cases():
        if options.only.lower() not in name.lower():
            continue
        with torch.no_grad():
            model.eval()
            torch._dynamo.reset()
            _, own_s = compiled(model, inputs, "aot_eager")
            made = {backend: compiled(model, inputs, backend) for backend in ("inductor", "fettle")}
            calls = {"eager": model, **{b: call for b, (call, _) in made.items() if call is not None}}
            for call in calls.values():
                call(*inputs)
            times = call_times(calls, inputs, options.time)
        mine = times["fettle"]
        missed = row(f"{name}: over eager mode", mine / times["eager"], "x", 1)
        if "inductor" in times:
            missed += row(f"{name}: over Inductor", mine / times["inductor"], "x", 1)
        missed += row(f"{name}: first call, beyond aot_eager", made["fettle"][1] - own_s, "s", FIRST_CALL_S)
        shown = [f"{times[b] * 1e3:>9.3f}" if b in times else f"{'-':>9}" for b in ("eager", "inductor", "fettle")]
        first = [f"{s:>9.2f}" if s else f"{'-':>9}" for s in (own_s, made["inductor"][1], made["fettle"][1])]
        print(f"{name:<36} {' '.join(shown)}                  {' '.join(first)}{missed}", flush=True)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "torch.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
