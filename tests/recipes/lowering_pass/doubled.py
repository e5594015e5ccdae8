"""What the new step of lowering leaves, as inspect shows it."""

import pathlib
import sys

import numpy

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from models import Model

model = Model([64], [("Mul", ["x", "two"], ["y"], {})], {"two": numpy.float64([2])}, "float64")
before, after = (model.inspect("--task", 0, "--after", name) for name in ("drop_private_guards", "double_by_adding"))
assert "* 2.0" in before and "* 2.0" not in after and "after double_by_adding" in after, before + after
numpy.testing.assert_array_equal(model.run(), 2 * model.x)
