"""The new operator computes, as a part of the kernel of the product before it."""

import pathlib
import sys

import numpy

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from models import Model

w = numpy.random.default_rng(1).standard_normal((8, 16)).astype("float32")
model = Model([4, 8], [("MatMul", ["x", "w"], ["z"], {}), ("Softcap", ["z"], ["y"], {"cap": 2.0})], {"w": w})
tasks = model.inspect("--tasks").splitlines()[1:]
assert len(tasks) == 1, tasks
numpy.testing.assert_allclose(model.run(), 2 * numpy.tanh(model.x @ w / 2), rtol=1e-4, atol=1e-5)
