"""Compiles every program of programs.py and open_programs.py in every form, and compares what it gives with JAX's CPU
client.

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
from open_programs import OPEN_PROGRAMS
from programs import PROGRAMS
from stored import FOLDER, SEED, assert_close, stored_calls

import fettle

N_STORED, N_STORED_OPEN = 12, 4
# Each: the function, the shapes of its arguments where they are open, and arguments of every call.
CASES = {name: (function, None, [arguments]) for name, (function, arguments) in PROGRAMS.items()} | OPEN_PROGRAMS


def expected_of(function, arguments):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]


def write_stored():
    for old in FOLDER.glob("*.*"):
        old.unlink()
    FOLDER.mkdir(exist_ok=True)
    choice = random.Random(SEED)
    for programs, count in (PROGRAMS, N_STORED), (OPEN_PROGRAMS, N_STORED_OPEN):
        for name in sorted(choice.sample(sorted(programs), count)):
            function, shapes, cases = CASES[name]
            form, ending, content = choice.choice(list(forms(exported(function, cases[0], shapes))))
            (FOLDER / f"{name}.{form}{ending}").write_bytes(content)
            calls = [(arguments, expected_of(function, arguments)) for arguments in cases]
            np.savez_compressed(FOLDER / f"{name}.npz", **stored_calls(calls))


def failures_of(name, folder):
    function, shapes, cases = CASES[name]
    expected = [expected_of(function, arguments) for arguments in cases]
    for form, ending, content in forms(exported(function, cases[0], shapes)):
        path = pathlib.Path(folder) / f"{name}.{form}{ending}"
        path.write_bytes(content)
        try:
            model = fettle.compile(path)
            for arguments, wanted in zip(cases, expected, strict=True):
                results = model(*arguments)
                assert_close(results if isinstance(results, tuple) else (results,), wanted)
        except (fettle.Error, AssertionError) as error:
            yield f"{name}, {form}: {error}"


def main():
    if sys.argv[1:] == ["--write"]:
        return write_stored()
    failures = []
    names = sys.argv[1:] or sorted(CASES)
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
