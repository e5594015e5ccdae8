"""Compiles every program of programs.py in every form, and compares what it gives with JAX's CPU client.

    check_programs.py [NAME…]       those programs alone
    check_programs.py --write       writes the sample in stored/ anew
"""

import os
import pathlib
import random
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from forms import forms, exported
from programs import PROGRAMS
from stored import FOLDER, SEED, assert_close

import fettle

N_STORED = 12


def expected_of(function, arguments):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]


def write_stored():
    for old in FOLDER.glob("*.*"):
        old.unlink()
    FOLDER.mkdir(exist_ok=True)
    choice = random.Random(SEED)
    for name in sorted(choice.sample(sorted(PROGRAMS), N_STORED)):
        function, arguments = PROGRAMS[name]
        form, ending, content = choice.choice(list(forms(exported(function, arguments))))
        (FOLDER / f"{name}.{form}{ending}").write_bytes(content)
        given = {f"in{i}": argument for i, argument in enumerate(arguments)}
        results = {f"out{i}": result for i, result in enumerate(expected_of(function, arguments))}
        np.savez_compressed(FOLDER / f"{name}.npz", **given, **results)


def failures_of(name, folder):
    function, arguments = PROGRAMS[name]
    expected = expected_of(function, arguments)
    for form, ending, content in forms(exported(function, arguments)):
        path = pathlib.Path(folder) / f"{name}.{form}{ending}"
        path.write_bytes(content)
        try:
            results = fettle.compile(path)(*arguments)
            assert_close(results if isinstance(results, tuple) else (results,), expected)
        except (fettle.Error, AssertionError) as error:
            yield f"{name}, {form}: {error}"


def main():
    if sys.argv[1:] == ["--write"]:
        return write_stored()
    failures = []
    names = sys.argv[1:] or sorted(PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found = list(failures_of(name, folder))
            failures += found
            print(f"{name}: {'failed' if found else 'same'}", flush=True)
    for failure in failures:
        print(failure)
    print(f"{len(names)} programs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
