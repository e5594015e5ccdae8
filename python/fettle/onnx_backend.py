"""ONNX's backend interface (onnx.backend.base): what judges backends can judge Fettle.

    import fettle.onnx_backend as backend
    backend.prepare(onnx.load("model.onnx")).run([x])

A model is compiled once for all sizes that it leaves open. Where that is refused because something must be known when it
is compiled (E604), it is compiled for the shapes of each call, and then for the values of its small inputs of whole
numbers, such as axes, and at last for those of small vectors, such as scales."""

import numpy
import onnx
from onnx.backend.base import Backend as _Backend
from onnx.backend.base import BackendRep, namedtupledict

from .errors import Error
from .model import compile as _compile

_MUST_BE_KNOWN = "E604"
_MOST_ELEMENTS = 64  # of an input whose values a model is compiled for


# What a model is compiled for, one after another: of which inputs it knows the values.
_WAYS = (
    ("shapes", lambda value: False),
    ("values", lambda value: value.dtype.kind in "iub" and value.size <= _MOST_ELEMENTS),
    ("values", lambda value: value.size <= _MOST_ELEMENTS and (value.dtype.kind in "iub" or value.ndim <= 1)),
)


def _state_shape(type_, given):
    """The type says what shape it has; of a sequence, the rank of its elements."""
    Dimension = onnx.TensorShapeProto.Dimension
    if type_.HasField("optional_type") and given is not None:
        _state_shape(type_.optional_type.elem_type, given)
    elif type_.HasField("tensor_type") and isinstance(given, numpy.ndarray):
        shape = onnx.TensorShapeProto(dim=[Dimension(dim_value=n) for n in given.shape])
        type_.tensor_type.shape.CopyFrom(shape)
    elif type_.HasField("sequence_type") and isinstance(given, list) and len({_rank(x) for x in given}) == 1:
        shape = onnx.TensorShapeProto(dim=[Dimension()] * _rank(given[0]))
        type_.sequence_type.elem_type.tensor_type.shape.CopyFrom(shape)


def _rank(value):
    return numpy.ndim(value) if not isinstance(value, dict) else -1


def _specialised(model, feeds, is_known):
    """The model with the shapes of these inputs, and as initializers those whose values it knows."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = {}
    for value in made.graph.input:
        given = feeds.get(value.name)
        if isinstance(given, numpy.ndarray) and is_known(given):
            made.graph.initializer.append(onnx.numpy_helper.from_array(given, value.name))
            continue
        if given is not None:
            kept[value.name] = given
        _state_shape(value.type, given)
    return made, kept


def _key(feeds, is_known):
    """What a model that is compiled for these inputs depends on."""
    parts = []
    for name, value in sorted(feeds.items()):
        if isinstance(value, numpy.ndarray):
            content = value.tobytes() if is_known(value) else None
            parts.append((name, value.dtype.name, value.shape, content))
        else:
            parts.append((name, tuple(map(_rank, value)) if isinstance(value, list) else type(value)))
    return tuple(parts)


class Prepared(BackendRep):
    """A model to be run. `compiled_for` says what the last call's code was made for: "all sizes", "shapes", "values"."""

    def __init__(self, model, **options):
        self._proto, self._options = model, options
        initializers = {t.name for t in model.graph.initializer}
        self._names = [value.name for value in model.graph.input]
        self._needed = [name for name in self._names if name not in initializers]
        self._outputs = [value.name for value in model.graph.output]
        self._made = {}
        self.compiled_for = "all sizes"
        try:
            self._open = self._compile(model)
        except Error as error:
            if error.code != _MUST_BE_KNOWN or not self._needed:
                raise
            self._open = None

    def _compile(self, model):
        return _compile(model, **self._options)

    def _given(self, inputs):
        if isinstance(inputs, dict):
            return dict(inputs)
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        names = self._needed if len(inputs) <= len(self._needed) else self._names
        if len(inputs) > len(names):
            raise Error("E704", f"{len(inputs)} inputs were given, and there are {len(names)}")
        return dict(zip(names, inputs))

    def _for(self, feeds):
        """The compiled model, and what it is given."""
        if self._open and feeds.keys() <= set(self._needed):
            self.compiled_for = "all sizes"
            return self._open, feeds
        for what, is_known in _WAYS:
            key = _key(feeds, is_known)
            model, kept = _specialised(self._proto, feeds, is_known)
            try:
                if key not in self._made:
                    self._made[key] = self._compile(_without_given_initializers(model, kept))
                self.compiled_for = what
                return self._made[key], kept
            except Error as error:
                if is_known is _WAYS[-1][1] or error.code != _MUST_BE_KNOWN:
                    raise

    def run(self, inputs, **kwargs):
        """inputs: a list in the model's order, or by name. The outputs, in the model's order, and by name."""
        del kwargs
        model, feeds = self._for(self._given(inputs))
        results = model.run(**feeds)
        return namedtupledict("Outputs", self._outputs)(*(results[name] for name in self._outputs))


def _without_given_initializers(model, kept):
    """An initializer that is an input too gives way to what the caller gives."""
    stay = [t for t in model.graph.initializer if t.name not in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(stay)
    return model


def _types_of_outputs(node, types, opset):
    schema = onnx.defs.get_schema(node.op_type, opset.version, opset.domain)
    return onnx.shape_inference.infer_node_outputs(schema, node, types, opset_imports=[opset])


class Backend(_Backend):
    """options, where a method takes any: those of fettle.compile."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        del model, kwargs
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        if not cls.supports_device(device):
            raise Error("E709", f"models run on the CPU, not on {device}")
        super().prepare(model, device)
        return Prepared(model, **options)

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **options):
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, opset_version=None, **options):
        """outputs_info: (dtype, shape) of each output; else they are inferred."""
        if not cls.supports_device(device):
            raise Error("E709", f"models run on the CPU, not on {device}")
        version = opset_version or (onnx.defs.onnx_opset_version() if node.domain in ("", "ai.onnx") else 1)
        opset = onnx.helper.make_opsetid(node.domain, version)
        names = [name for name in node.input if name]
        arrays = dict(zip(names, inputs.values() if isinstance(inputs, dict) else inputs))

        def typed(dtype, shape):
            return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), shape)

        types = {name: typed(array.dtype, array.shape) for name, array in arrays.items()}
        if outputs_info is None:
            made = _types_of_outputs(node, types, opset)
        else:
            made = dict(zip(node.output, (typed(dtype, shape) for dtype, shape in outputs_info)))
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [onnx.helper.make_value_info(name, type_) for name, type_ in types.items()],
            [onnx.helper.make_value_info(name, made[name]) for name in node.output if name],
        )
        # A rank that is not known fails the model's check.
        return Prepared(onnx.helper.make_model(graph, opset_imports=[opset]), **options).run(arrays)

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
