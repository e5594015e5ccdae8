"""The new rule makes the default schedule of few elements, and a tuning measures its choices."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from models import Model

model = Model([6], [("Sqrt", ["x"], ["z"], {}), ("Relu", ["z"], ["y"], {})])
assert "small_nest" in model.inspect("--task", 0, "--trace")
found = model.tune("--trials", 2)
assert found.count("small_nest/") >= 2, found
