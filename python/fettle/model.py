"""Whole models: compiled from ONNX, or loaded as a compiled library."""

import numpy

from . import _fettle
from .kernel import _bits, _numpy_dtype


class Model:
    """Model("model.onnx", shapes={"x": [1, 3, 48, 320]}, database="records.db"): run(x=array) returns name → array."""

    def __init__(self, path, shapes=None, threads=0, database=""):
        self._base = _fettle._open_model(str(path), dict(shapes or {}), threads, str(database))
        self.inputs = self._base.inputs
        self.outputs = self._base.outputs

    def run(self, **arrays):
        given = []
        for name, value in arrays.items():
            array = numpy.asarray(value, order="C")  # keeps scalars scalars
            given.append((name, array.dtype.name, _bits(array)))
        return {name: numpy.frombuffer(data, _numpy_dtype(dtype)).reshape(shape)
                for name, dtype, shape, data in self._base._run(given)}
