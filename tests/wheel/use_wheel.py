"""What check_wheel.sh does in the empty root: import, compile, run, compare with the artefact that the command wrote.

usage: use_wheel.py MODEL.onnx MODEL.so     writes x.raw and y.raw beside the latter
"""

import ctypes
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
# What finds schedules by isl, and the plug-in that JAX would load.
program = fettle.parse("""func product(A: f32[32, 32], B: f32[32, 32], C: f32[32, 32] output):
  for i in 32:
    for j in 32:
      for k in 32:
        block C(vi: spatial[32] = i, vj: spatial[32] = j, vk: reduce[32] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
a = numpy.arange(1024, dtype="float32").reshape(32, 32) % 5
schedule = fettle.tune(program, space="polyhedral", trials=2).schedule()
numpy.testing.assert_array_equal(fettle.build(schedule)(a, a), a @ a)
ctypes.CDLL(str(pathlib.Path(fettle.__file__).parent / "fettle_pjrt.so")).GetPjrtApi
folder = pathlib.Path(artefact).parent
(folder / "x.raw").write_bytes(x.tobytes())
(folder / "y.raw").write_bytes(made.tobytes())
