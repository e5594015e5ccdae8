"""Whole models: compiled from ONNX, or loaded as a compiled library."""

import numpy

from . import _fettle
from .errors import Error
from .kernel import _NARROW, _bits, _numpy_dtype


def _given(arrays):
    """As the module takes them: any strides, but aligned and of this machine's byte order."""
    given = []
    for name, value in arrays.items():
        array = numpy.asarray(value)
        if array.dtype.kind in "OUST":
            given.append((name, "string", _encoded(name, array)))
            continue
        if not array.dtype.isnative or not array.flags.aligned or any(s % array.itemsize for s in array.strides):
            array = array.astype(array.dtype.newbyteorder("="), order="C")
        given.append((name, array.dtype.name, _bits(array)))
    return given


def _encoded(name, array):
    """The bytes of all strings, and where each ends, in the array's shape."""
    texts = []
    for text in array.ravel().tolist():
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogateescape")
        if not isinstance(text, bytes):
            raise Error("E705", f"input {name} has an element of type {type(text).__name__}, which is no string")
        texts.append(text)
    lengths = numpy.fromiter(map(len, texts), numpy.int64, len(texts))
    return b"".join(texts), numpy.cumsum(lengths, dtype=numpy.int64).reshape(array.shape)


def _array(dtype, shape, data):
    if dtype == "string":
        array = numpy.empty(len(data), object)
        array[:] = data
        return array.reshape(shape)
    if dtype in _NARROW:
        return numpy.frombuffer(data, _NARROW[dtype]).reshape(shape).astype(_numpy_dtype(dtype))
    return numpy.frombuffer(data, _numpy_dtype(dtype)).reshape(shape)


def _results(outputs):
    return {name: _array(dtype, shape, data) for name, dtype, shape, data in outputs}


class _Structure:
    """An input or output that is a sequence, an optional or a map, and the tensors that it is made of."""

    def __init__(self, name, kind, tensors):
        self.name = name
        self.is_optional = kind.startswith("optional(")
        kind = kind.removeprefix("optional(")
        self.content = next((c for c in ("seq(map", "seq", "map") if kind.startswith(c)), "tensor")
        self.tensors = tensors  # (name, dtype, shape)

    def given(self, value):
        """Arrays by the tensors' names."""
        parts = [numpy.asarray(value is not None)] if self.is_optional else []
        content = self.tensors[len(parts) :]
        if value is None and self.is_optional:
            parts += [self._empty(*tensor) for tensor in content]
        elif self.content == "tensor":
            parts.append(value)
        elif self.content == "seq":
            parts += self._sequence([numpy.asarray(element) for element in value], *content)
        elif self.content == "map":
            parts += [self._list(list(value.keys()), content[0]), self._list(list(value.values()), content[1])]
        else:
            keys = [sorted(entry) for entry in value]
            if any(len(k) != len(keys[0]) for k in keys):
                raise ValueError(f"{self.name}: all maps must have as many keys")
            parts.append(self._list(keys, content[0]))
            parts.append(self._list([[entry[k] for k in sorted(entry)] for entry in value], content[1]))
        return {name: part for (name, _, _), part in zip(self.tensors, parts)}

    @staticmethod
    def _empty(_, dtype, shape):
        extents = [e if isinstance(e, int) else 0 for e in shape]
        return numpy.full(extents, "" if dtype == "string" else 0, _numpy_dtype(dtype))

    @staticmethod
    def _list(values, tensor):
        array = numpy.asarray(values, _numpy_dtype(tensor[1]))
        return array.reshape([0] * len(tensor[2])) if array.size == 0 else array

    @staticmethod
    def _sequence(elements, data, dims):
        rank = max((e.ndim for e in elements), default=0)
        if isinstance(dims[2][1], int):
            rank = max(rank, dims[2][1])
        extents = numpy.full((len(elements), rank), -1, "int64")
        for i, element in enumerate(elements):
            extents[i, : element.ndim] = element.shape
        if elements:
            return [numpy.concatenate([e.ravel() for e in elements]), extents]
        return [numpy.zeros(0, _numpy_dtype(data[1])), extents]

    def result(self, arrays):
        """What the tensors stand for."""
        parts = [arrays.pop(name) for name, _, _ in self.tensors]
        if self.is_optional and not parts.pop(0):
            return None
        if self.content == "tensor":
            return parts[0]
        if self.content == "map":
            return dict(zip(parts[0].tolist(), parts[1].tolist()))
        if self.content == "seq(map":
            return [dict(zip(k, v)) for k, v in zip(parts[0].tolist(), parts[1].tolist())]
        data, dims = parts
        elements, begin = [], 0
        for extents in dims:
            shape = [int(e) for e in extents if e >= 0]
            end = begin + int(numpy.prod(shape, dtype="int64"))
            elements.append(data[begin:end].reshape(shape))
            begin = end
        return elements


class _Signature:
    """Arrays, lists, dicts and None as a model's tensors, and back."""

    def __init__(self, base):
        self.inputs, self.outputs = {}, {}
        for name, kind, is_output, first, count in base.structures:
            tensors = (base.outputs if is_output else base.inputs)[first : first + count]
            (self.outputs if is_output else self.inputs)[name] = _Structure(name, kind, tensors)

    def given(self, values):
        arrays = {}
        for name, value in values.items():
            structure = self.inputs.get(name)
            arrays.update(structure.given(value) if structure else {name: value})
        return _given(arrays)

    def results(self, outputs):
        arrays = _results(outputs)
        for name, structure in self.outputs.items():
            arrays[name] = structure.result(arrays)
        return arrays


class Model:
    """Model("model.onnx", shapes={"x": [1, 3, 48, 320]}, database="records.db"): run(x=array) returns name → array.

    `inputs` and `outputs` list (name, dtype, shape). An extent that each call decides is text, "N", and arrays may then
    have any. `sizes` narrows them: sizes={"N": {"min": 1, "max": 64, "multiple": 8, "tune_at": 16}}.
    `states={"past": "present"}` says which input is what the call before left in an output: see `context`. Any number of
    threads may run a model at once. `without` names passes over the graph (fettle.graph_passes) that are left out, to find
    where results come to differ.

    A sequence is a list of arrays, an optional may be None, a map is a dict, and a sequence of maps is a list of dicts.
    `structures` lists these, and `inputs` and `outputs` the tensors that they are made of.
    """

    def __init__(self, path, shapes=None, threads=0, database="", sizes=None, states=None, without=()):
        self._base = _fettle._open_model(
            str(path), dict(shapes or {}), threads, str(database), dict(sizes or {}), dict(states or {}),
            list(without)
        )  # fmt: skip
        self.inputs = self._base.inputs
        self.outputs = self._base.outputs
        self.structures = self._base.structures
        self._signature = _Signature(self._base)

    def run(self, **arrays):
        return self._signature.results(self._base._run(self._signature.given(arrays)))

    def context(self):
        """What calls work with, kept from one to the next: memory, and the model's states. For one thread at a time."""
        return Context(self._base._context(), self._signature)


class Context:
    """Runs a model in memory of its own. An input that a state stands for need not be given."""

    def __init__(self, base, signature):
        self._base = base
        self._signature = signature

    def run(self, **arrays):
        return self._signature.results(self._base._run(self._signature.given(arrays)))

    def begin(self, **arrays):
        """Runs on a thread of the context's; `wait` returns the outputs. Arrays must not change until then."""
        self._base._begin(self._signature.given(arrays))

    def wait(self):
        return self._signature.results(self._base._wait())

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
