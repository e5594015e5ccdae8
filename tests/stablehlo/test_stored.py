"""The stored sample of programs, compiled and run: what they give is what JAX's CPU client gave."""

import sys

import numpy as np
from stored import FOLDER, assert_close, calls_of

import fettle


def main():
    files = sorted(path for path in FOLDER.iterdir() if path.suffix in (".mlir", ".mlirbc"))
    assert len(files) >= 10 and {path.suffix for path in files} == {".mlir", ".mlirbc"}, files
    for path in files:
        with np.load(FOLDER / (path.name.split(".")[0] + ".npz")) as stored:
            calls = list(calls_of(stored))
        assert calls, path.name
        model = fettle.compile(path)
        for inputs, expected in calls:
            results = model(*inputs)
            try:
                assert_close(results if isinstance(results, tuple) else (results,), expected)
            except AssertionError as error:
                raise AssertionError(f"{path.name}: {error}") from error
        print(path.name, "gives the same")


if __name__ == "__main__":
    sys.exit(main())
