"""Whole models: compiled from ONNX or from a Graph, or loaded as a compiled library."""

import os

import numpy

from . import _fettle
from .errors import Error
from .graph import Graph
from .kernel import _NARROW, _bits, _numpy_dtype, _utf8


def _prepared(name, value):
    """(dtype, array) as the module takes what doesn't lie right: aligned and of this machine's byte order."""
    array = numpy.asarray(value)
    if array.dtype.kind in "OUST":
        return "string", _encoded(name, array)
    if not array.dtype.isnative or not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    return array.dtype.name, _bits(array)


def _encoded(name, array):
    """The bytes of all strings, and where each ends, in the array's shape."""
    texts = _utf8(array, f"input {name}")
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
        self.input_order = self._order(base.inputs, self.inputs)
        self.output_order = self._order(base.outputs, self.outputs)
        self.is_plain = not self.inputs and not self.outputs

    @staticmethod
    def _order(tensors, structures):
        """Names by position: a structure stands where its first tensor does."""
        owners = {tensor[0]: name for name, structure in structures.items() for tensor in structure.tensors}
        return list(dict.fromkeys(owners.get(name, name) for name, _, _ in tensors))

    def given(self, values):
        if not self.inputs:
            return values
        arrays = {}
        for name, value in values.items():
            structure = self.inputs.get(name)
            arrays.update(structure.given(value) if structure else {name: value})
        return arrays

    def results(self, arrays):
        for name, structure in self.outputs.items():
            arrays[name] = structure.result(arrays)
        return arrays

    def call(self, base, inputs, out):
        """By position, with structures."""
        if out is not None:
            raise Error("E705", "out is for models all of whose inputs and outputs are tensors")
        if len(inputs) > len(self.input_order):
            raise Error("E704", f"{len(inputs)} inputs were given, and the model has {len(self.input_order)}")
        named = {name: value for name, value in zip(self.input_order, inputs) if value is not None or name in self.inputs}
        results = self.results(base._run(self.given(named)))
        ordered = tuple(results[name] for name in self.output_order if name in results)
        return ordered[0] if len(ordered) == 1 else ordered


class _Calls:
    """What models and contexts have in common."""

    def __call__(self, *inputs, out=None):
        """Inputs by position, in the order of `inputs`: the output, or a tuple of them in the order of `outputs`.

        Inputs are numpy's arrays, or anything that has `__dlpack__`, on a CPU or on the GPU that the model is compiled
        for; they are copied only where they are not in C order. `out` is an array, or a tuple of them, that is written
        instead of a new one, such as torch's tensor on that GPU. What a state takes is not
        among the outputs; an input that a state stands for may be None.
        """
        if self._signature.is_plain:
            return self._base._call(inputs, out)
        return self._signature.call(self._base, inputs, out)

    def run(self, **arrays):
        """Inputs by name: a dict of the outputs."""
        return self._signature.results(self._base._run(self._signature.given(arrays)))


class Model(_Calls):
    """A compiled model, made by `fettle.compile`. Call it with its inputs: see `__call__` and `run`.

    `inputs` and `outputs` list (name, dtype, shape). An extent that each call decides is text, "N", and arrays may then
    have any. Any number of threads may run a model at once.

    A sequence is a list of arrays, an optional may be None, a map is a dict, and a sequence of maps is a list of dicts.
    `structures` lists these, and `inputs` and `outputs` the tensors that they are made of.
    """

    def __init__(self, base):
        if not isinstance(base, _fettle.ModelBase):
            raise TypeError("models are made by fettle.compile")
        self._base = base
        self.inputs = base.inputs
        self.outputs = base.outputs
        self.structures = base.structures
        self._signature = _Signature(base)

    def context(self):
        """What calls work with, kept from one to the next: memory, and the model's states. For one thread at a time."""
        return Context(self._base._context(), self._signature)

    def trace(self, path, *inputs, runs=3, threads=0, pin=False, **named):
        """Writes when each thread ran which part of the model, for https://ui.perfetto.dev or chrome://tracing.

        path      of the timeline, as `fettle trace` writes it
        inputs    by position or by name; those that are not given are random
        runs      that are recorded, after one that is not
        threads   of the team that runs it; 0: as many as the model was compiled for
        pin       each thread to a CPU of its own
        """
        if runs < 1 or not 0 <= threads <= 1024:
            raise Error("E709", "runs are at least 1, and threads 0 … 1024")
        order = self._signature.input_order
        if len(inputs) > len(order):
            raise Error("E704", f"{len(inputs)} inputs were given, and the model has {len(order)}")
        values = {name: value for name, value in zip(order, inputs) if value is not None}
        for name, value in named.items():
            if name in values:
                raise Error("E704", f"input {name} is given twice")
            values[name] = value
        given = []
        for name, value in self._signature.given(values).items():
            dtype, bits = _prepared(name, value)
            if dtype == "string":
                raise Error("E705", f"input {name}: strings are not traced")
            given.append((name, dtype, numpy.ascontiguousarray(bits).reshape(numpy.shape(bits))))
        self._base._trace(os.fsdecode(path), given, runs, threads, pin)

    @property
    def target(self):
        """What it was compiled for: the name that was given, or the processor's. Of several, the one that is taken."""
        return self._base._info["target"]

    def __repr__(self):
        def shown(tensors):
            return ", ".join(f"{name}: {dtype}[{', '.join(map(str, shape))}]" for name, dtype, shape in tensors)

        return f"<fettle.Model ({shown(self.inputs)}) -> ({shown(self.outputs)})>"

    def _repr_html_(self):
        from .display import table
        info = self._base._info
        rows = [(what, name, dtype, list(shape)) for what, tensors in (("input", self.inputs), ("output", self.outputs))
                for name, dtype, shape in tensors]  # fmt: skip
        sizes = sorted({extent for _, _, shape in self.inputs for extent in shape if isinstance(extent, str)})
        title = (f"{info['name']}: {len(info['kernels'])} kernels, {info['arena_bytes'] / 1e6:.1f} MB of working memory"
                 + (f"; open sizes: {', '.join(sizes)}" if sizes else ""))  # fmt: skip
        rows += [("kernel", name, "", "") for name in info["kernels"][:50]]
        return table(title, ("", "name", "type", "shape"), rows)


class Context(_Calls):
    """Runs a model in memory of its own. An input that a state stands for need not be given."""

    def __init__(self, base, signature):
        self._base = base
        self._signature = signature

    def begin(self, **arrays):
        """Runs on a thread of the context's; `wait` returns the outputs. Arrays must not change until then."""
        self._base._begin(self._signature.given(arrays))

    def wait(self):
        """The outputs of the call that `begin` began, by name."""
        return self._signature.results(self._base._wait())

    def cancel(self):
        """Ends the call that is under way, which raises an error. From any thread."""
        self._base._cancel()

    def state(self, name):
        """A copy of what the state holds; its extent along the axis of growth is its length."""
        return _array(*self._base._state(name)[1:])

    def set_state(self, name, value):
        """Gives the state this content; the length of a state that grows follows from it."""
        self._base._set_state(name, value)

    def reset_states(self):
        """All states are as in the beginning."""
        self._base._reset_states()


def _source(model, folder, function=""):
    if isinstance(model, (str, os.PathLike)):
        return _fettle._source_of_path(os.fsdecode(model), function)
    if function:
        raise Error("E709", "function is of a model that is given as a path")
    if isinstance(model, Graph):
        return model._base._source()
    if isinstance(model, _fettle.ModelSource):
        return model
    if hasattr(model, "_fettle_source"):  # of a comprehension
        return model._fettle_source
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _fettle._source_of_bytes(model, None if folder is None else os.fsdecode(folder))
    raise TypeError(f"a model is a path, bytes of an ONNX file, a ModelProto, a fettle.Graph or a comprehension, not {type(model).__name__}")


def compile(model, *, shapes=None, sizes=None, states=None, threads=0, streams=0, database="", without=(),
            keep_denormals=False, cache=True, folder=None, vendor=(), target="", team=None, function=""):
    """Compiles a model for this machine, or a GPU, and gives a `fettle.Model`.

    model     a path (of a model's file, or of a library that `fettle compile` wrote), the bytes of an ONNX file, an
              onnx.ModelProto, a fettle.Graph, or a function of fettle.comprehension
    shapes    of inputs, by their names: {"x": [1, 3, 224, 224]}. What is left open, each call decides
    sizes     narrows what is open: {"N": {"min": 1, "max": 64, "multiple": 8, "tune_at": 16}}
    states    which output of a call is which input of the next: {"past": "present"}; see Model.context
    threads   that it runs on; 0: as many as this process may use
    streams   calls at once that it is made for, each on `threads` of its own (0: its share of them). 0: one, or what a
              library was compiled for
    database  recorded schedules, a path: the best are used
    without   passes over the graph (fettle.graph_passes) that are left out, to find where results come to differ
    keep_denormals  whether numbers below 1.2e-38 (float32, bfloat16; float64: 2.2e-308) are computed with; else they
              count as zero
    cache     whether what was compiled before is used again, and this is kept: in $FETTLE_CACHE, or ~/.cache/fettle;
              FETTLE_CACHE=off does without
    vendor    libraries whose kernels are used where `database` says that they are faster: ("onednn",)
    target    what kernels run on: "cuda", "cuda -arch sm_80", "opencl", or processors, such as ["x86-64-v3",
              "x86-64-v4"], of which the best is taken; "": this machine's CPU. Of a library: which of its targets
    team      whose threads run it: a `fettle.OpenMpTeam`; None: threads of its own
    folder    where external data of bytes or a ModelProto lie
    function  of a path: which function of the file; "": the last of comprehensions, `main` of StableHLO

    >>> import fettle, numpy
    >>> g = fettle.Graph("twice")
    >>> x = g.input("x", "float32", ["N"])
    >>> g.output("y", x + x)
    >>> model = fettle.compile(g, cache=False)
    >>> model
    <fettle.Model (x: float32[N]) -> (y: float32[N])>
    >>> model(numpy.float32([1, 2])).tolist(), model.run(x=numpy.float32([3]))["y"].tolist()
    ([2.0, 4.0], [6.0])
    """
    target = target if isinstance(target, str) else ",".join(target)
    return Model(_fettle._open_model(_source(model, folder, function), dict(shapes or {}), threads, streams,
                                     os.fsdecode(database), dict(sizes or {}), dict(states or {}), list(without), bool(keep_denormals),
                                     bool(cache), list(vendor), target, team))  # fmt: skip
