"""What the new pass leaves, as inspect shows it; the results stay."""

import pathlib
import sys

import numpy

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from models import Model

model = Model([4], [("Abs", ["x"], ["a"], {}), ("Abs", ["a"], ["b"], {}), ("Sqrt", ["b"], ["y"], {})])
before, after = (model.inspect("--after", name) for name in ("lower_conv_transpose", "drop_dead"))
assert "after drop_second_abs" in model.inspect("--after", "drop_second_abs")
assert before.count("= Abs(") == 2 and after.split("# after drop_dead")[-1].count("= Abs(") == 1, before + after
numpy.testing.assert_allclose(model.run(), numpy.sqrt(numpy.abs(model.x)), rtol=1e-5)
