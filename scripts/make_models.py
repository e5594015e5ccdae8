#!/usr/bin/env python3
"""Writes the models of build/models/ whose weights cannot be fetched: real architectures as real exporters write them, with
seeded random weights scaled so that activations keep a variance near 1.
  make_models.py [--open] [--half] [--more]
--open: those whose sizes are open, too, which benchmarks alone need. --half: those of 16-bit floats, too, as NAME_f16.onnx.
--more: those that the table calls "more", too.

benchmarks/models.json says which; scripts/models/NAME.py makes one. Asserts the published numbers of parameters. Does
nothing when all are there and were made by these very scripts. Needs the packages of build/python. Exit status: 0 all
present, 1 otherwise.
"""

import hashlib
import importlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "benchmarks" / "models.json"
MODELS = ROOT / "build" / "models"
STAMPS = MODELS / ".made.json"  # file → what made it, and its size
MAKERS = ROOT / "scripts" / "models"
SHARED = ["builder", "convnet", "half", "transformer"]


def stamp_of(maker, arguments):
    """Changes with the text of every script that the model comes from."""
    digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode())
    for name in [*SHARED, maker]:
        digest.update((MAKERS / f"{name}.py").read_bytes())
    return digest.hexdigest()


def wanted(with_open, with_half, with_more):
    """(file, maker, arguments) of each model to make."""
    table = json.loads(TABLE.read_text())
    for model in table["models"] + (table["more"] if with_more else []):
        if maker := model["source"].get("make"):
            yield model["file"], maker, {}
            if small := model.get("small"):
                yield small["file"], maker, {"n_layers": small["layers"]}
            if with_open and (file := model.get("open")):
                yield file, maker, {"is_open": True}
            if with_half:
                yield model["file"].replace(".onnx", "_f16.onnx"), maker, {"is_half": True}


def make(file, maker, arguments):
    """Writes one model; returns its size."""
    is_half = arguments.get("is_half", False)
    proto = importlib.import_module(f"models.{maker}").make(**{k: v for k, v in arguments.items() if k != "is_half"})
    if is_half:
        proto = importlib.import_module("models.half").to_half(proto)
    data = proto.SerializeToString(deterministic=True)
    # Written under another name first: an interrupted run leaves no half model.
    part = MODELS / (file + ".part")
    part.write_bytes(data)
    part.rename(MODELS / file)
    return len(data)


def main():
    MODELS.mkdir(parents=True, exist_ok=True)
    stamps = json.loads(STAMPS.read_text()) if STAMPS.exists() else {}
    missing = []
    for file, maker, arguments in wanted(*(flag in sys.argv[1:] for flag in ("--open", "--half", "--more"))):
        path, stamp = MODELS / file, stamps.get(file, {})
        made = path.exists() and path.stat().st_size == stamp.get("size") and stamp_of(maker, arguments) == stamp["made_by"]
        if not made:
            missing.append((file, maker, arguments))
    if not missing:
        return
    for file, maker, arguments in missing:
        print(f"make_models: {file}")
        size = make(file, maker, arguments)
        stamps[file] = {"made_by": stamp_of(maker, arguments), "size": size}
        STAMPS.write_text(json.dumps(stamps, indent=1))


if __name__ == "__main__":
    main()
