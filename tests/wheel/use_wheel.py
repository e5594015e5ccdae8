"""What check_wheel.sh does in the empty root: import, compile, run, compare with the artefact that the command wrote.

usage: use_wheel.py MODEL.onnx MODEL.so     writes x.raw and y.raw beside the latter
"""

import pathlib
import resource
import subprocess
import sys
import time


def seconds(code):
    """Of a CPU: what else the machine does counts little."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    start = used()
    subprocess.run([sys.executable, "-c", code], check=True)
    return used() - start


onnx_file, artefact = sys.argv[1:]
nothing, numpy_alone, all_of_it = (min(seconds(code) for _ in range(5)) for code in ("pass", "import numpy", "import fettle"))
print(f"import fettle: {1e3 * (all_of_it - nothing):.0f} ms of a CPU, of which numpy {1e3 * (numpy_alone - nothing):.0f} ms")

import numpy

import fettle

start = time.perf_counter()
untuned = fettle.compile(onnx_file)
print(f"compiled in the process in {time.perf_counter() - start:.1f} s")
tuned = fettle.compile(artefact)
(name, dtype, shape), = tuned.inputs
x = numpy.random.default_rng(1).standard_normal(shape).astype(dtype)
(output, want), = untuned.run(**{name: x}).items()
start = time.perf_counter()
made = tuned.run(**{name: x})[output]
print(f"one call of the tuned artefact: {1e3 * (time.perf_counter() - start):.1f} ms")
numpy.testing.assert_allclose(made, want, rtol=1e-3, atol=1e-3)
folder = pathlib.Path(artefact).parent
(folder / "x.raw").write_bytes(x.tobytes())
(folder / "y.raw").write_bytes(made.tobytes())
