"""The operator of the new family computes, and one that is fused with it."""

import pathlib
import sys

import numpy

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from models import Model

model = Model([3, 5], [("ReverseAxis", ["x"], ["z"], {"axis": -1}), ("Relu", ["z"], ["y"], {})])
tasks = model.inspect("--tasks").splitlines()[1:]
assert len(tasks) == 1, tasks
numpy.testing.assert_array_equal(model.run(), numpy.maximum(model.x[:, ::-1], 0))
