"""A decoder with caches and a branch: ten calls in each of two contexts at once, under ThreadSanitizer.

usage: decoder_under_tsan.py FETTLE CONTEXTS_UNDER_TSAN
Compares what the calls give, and the caches that they leave, with ONNX Runtime; then looks whether a race is told.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
from test_sizes import decoder, random

ROWS = (9, 1, 1, 200, 1, 33, 1, 512, 1, 7)
STATES = {f"past_{name}{i}": f"present_{name}{i}" for i in range(2) for name in "kv"}


def sanitized(*arguments):
    """Its mappings are where the sanitizer expects them only without random addresses."""
    command = ["setarch", "--addr-no-randomize", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110)


def calls_of(batch, seed):
    return [random(batch, rows, 64, seed=seed + step) for step, rows in enumerate(ROWS)]


def expected(model, calls):
    """What the calls give one after the other, then the caches by name of the input."""
    past = {name: numpy.zeros((calls[0].shape[0], 2, 0, 16), numpy.float32) for name in STATES}
    made = []
    for x in calls:
        results = model.expected(x=x, **past)
        made.append(results["y"])
        past = {name: results[present] for name, present in STATES.items()}
    return made, past


def check(model, library, sanitized_program, folder):
    contexts = {folder / f"{batch}.bin": calls_of(batch, 10 * batch) for batch in (1, 2)}
    for path, calls in contexts.items():
        path.write_bytes(b"".join(struct.pack(f"{x.ndim + 1}q", x.ndim, *x.shape) + x.tobytes() for x in calls))
    done = sanitized(sanitized_program, library, *contexts)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    for path, calls in contexts.items():
        outputs, caches = expected(model, calls)
        wanted = {"out": numpy.concatenate([array.ravel() for array in outputs]), **caches}
        for name, array in wanted.items():
            got = numpy.fromfile(f"{path}.{name}", numpy.float32)
            numpy.testing.assert_allclose(got, array.ravel(), rtol=1e-4, atol=1e-5, err_msg=name)


def main(fettle, sanitized_program):
    model = decoder(has_branch=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        library = folder / "model.so"
        options = ["--range", "P=0..1024", "--range", "B=1..2", "--threads", "2"]
        for past, present in STATES.items():
            options += ["--state", f"{past}={present}"]
        subprocess.run([fettle, "compile", model.path, "-o", library, *options], capture_output=True, check=True)
        check(model, library, sanitized_program, folder)
        raced = sanitized(sanitized_program, library, "--race")
        assert "data race" in raced.stderr and raced.returncode != 0, raced.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
