"""Whole models: compiled from ONNX, or loaded as a compiled library."""

import numpy

from . import _fettle
from .kernel import _NARROW, _bits, _numpy_dtype


def _given(arrays):
    """As the module takes them: any strides, but aligned and of this machine's byte order."""
    given = []
    for name, value in arrays.items():
        array = numpy.asarray(value)
        if not array.dtype.isnative or not array.flags.aligned or any(s % array.itemsize for s in array.strides):
            array = array.astype(array.dtype.newbyteorder("="), order="C")
        given.append((name, array.dtype.name, _bits(array)))
    return given


def _array(dtype, shape, data):
    if dtype in _NARROW:
        return numpy.frombuffer(data, _NARROW[dtype]).reshape(shape).astype(_numpy_dtype(dtype))
    return numpy.frombuffer(data, _numpy_dtype(dtype)).reshape(shape)


def _results(outputs):
    return {name: _array(dtype, shape, data) for name, dtype, shape, data in outputs}


class Model:
    """Model("model.onnx", shapes={"x": [1, 3, 48, 320]}, database="records.db"): run(x=array) returns name → array.

    `inputs` and `outputs` list (name, dtype, shape). An extent that each call decides is text, "N", and arrays may then
    have any. `sizes` narrows them: sizes={"N": {"min": 1, "max": 64, "multiple": 8, "tune_at": 16}}.
    `states={"past": "present"}` says which input is what the call before left in an output: see `context`. Any number of
    threads may run a model at once. `without` names passes over the graph (fettle.graph_passes) that are left out, to find
    where results come to differ.
    """

    def __init__(self, path, shapes=None, threads=0, database="", sizes=None, states=None, without=()):
        self._base = _fettle._open_model(
            str(path), dict(shapes or {}), threads, str(database), dict(sizes or {}), dict(states or {}),
            list(without)
        )  # fmt: skip
        self.inputs = self._base.inputs
        self.outputs = self._base.outputs

    def run(self, **arrays):
        return _results(self._base._run(_given(arrays)))

    def context(self):
        """What calls work with, kept from one to the next: memory, and the model's states. For one thread at a time."""
        return Context(self._base._context())


class Context:
    """Runs a model in memory of its own. An input that a state stands for need not be given."""

    def __init__(self, base):
        self._base = base

    def run(self, **arrays):
        return _results(self._base._run(_given(arrays)))

    def begin(self, **arrays):
        """Runs on a thread of the context's; `wait` returns the outputs. Arrays must not change until then."""
        self._base._begin(_given(arrays))

    def wait(self):
        return _results(self._base._wait())

    def cancel(self):
        """Ends the call that is under way, which raises an error. From any thread."""
        self._base._cancel()

    def state(self, name):
        """A copy of what the state holds; its extent along the axis of growth is its length."""
        return _array(*self._base._state(name)[1:])

    def set_state(self, name, value):
        self._base._set_state(name, _given({name: value}))

    def reset_states(self):
        self._base._reset_states()
