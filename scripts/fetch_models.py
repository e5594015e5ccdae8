#!/usr/bin/env python3
"""Fetches the real models that tests, the demo and the benchmarks use, into build/models/.

They come from one pinned PyPI wheel; wheel and models are checked against their SHA-256 sums. Does nothing when all
are there. Exit status: 0 all present, 1 they could not be fetched.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build" / "models"
DOWNLOADS = ROOT / "build" / "downloads"

REQUIREMENT = "rapidocr-onnxruntime==1.4.4"
WHEEL = "rapidocr_onnxruntime-1.4.4-py3-none-any.whl"
WHEEL_SHA256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"

# name in build/models -> (name in the wheel, SHA-256)
FILES = {
    "ppocrv4_rec.onnx": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "ppocrv4_det.onnx": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "ppocr_cls.onnx": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_good(path, expected):
    return path.exists() and sha256(path) == expected


def fetch_wheel():
    """Returns the path of the checked wheel, downloading it if need be."""
    wheel = DOWNLOADS / WHEEL
    if is_good(wheel, WHEEL_SHA256):
        return wheel
    wheel.unlink(missing_ok=True)
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    python = ROOT / "build" / "python" / "bin" / "python"
    command = [python if python.exists() else sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", DOWNLOADS, REQUIREMENT]
    # pip trusts the authorities that this system trusts, not only its own list.
    environment = {"PIP_CERT": "/etc/ssl/certs/ca-certificates.crt", **os.environ}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0 or not wheel.exists():
        reason = (result.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
        sys.exit(f"fetch_models: cannot download {REQUIREMENT} from PyPI (is there a network?): {reason}")
    if not is_good(wheel, WHEEL_SHA256):
        sys.exit(f"fetch_models: {wheel} has SHA-256 {sha256(wheel)}, expected {WHEEL_SHA256}; not used")
    return wheel


def main():
    missing = [name for name, (_, expected) in FILES.items() if not is_good(MODELS / name, expected)]
    if not missing:
        return
    MODELS.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(fetch_wheel()) as wheel:
        for name in missing:
            member, expected = FILES[name]
            # Written under another name first: an interrupted run leaves no half model.
            part = MODELS / (name + ".part")
            part.write_bytes(wheel.read(member))
            if not is_good(part, expected):
                sys.exit(f"fetch_models: {member} has SHA-256 {sha256(part)}, expected {expected}; not used")
            part.rename(MODELS / name)


if __name__ == "__main__":
    main()
