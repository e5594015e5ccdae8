"""A tuning by templates takes the new one for the program that it is for."""

import pathlib
import sys

import numpy
import onnx

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from models import Model

model = Model([64, 64], [("Cast", ["x"], ["z"], {"to": onnx.TensorProto.INT32}),
                         ("Cast", ["z"], ["y"], {"to": onnx.TensorProto.FLOAT})])
found = model.tune("--space", "autotvm", "--trials", 4)
assert "conversion" in found, found
numpy.testing.assert_array_equal(model.run(), numpy.trunc(model.x))
