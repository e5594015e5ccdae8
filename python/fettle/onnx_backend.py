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

from . import _fettle
from .errors import Error
from .forms import Forms
from .model import _source


class Prepared(BackendRep):
    """A model to be run. `compiled_for` says what the last call's code was made for: "all sizes", "shapes", "values"."""

    def __init__(self, model, **options):
        source = _source(model, None)
        description = _fettle._describe_model(source)
        self._needed = [name for name, _, _ in description["inputs"]]
        self._names = [value.name for value in model.graph.input]
        self._outputs = [name for name, _, _ in description["outputs"]]
        self._forms = Forms(source, description, **options)
        self.compiled_for = "all sizes"
        self._forms.open_if_sizes_do()

    def _given(self, inputs):
        if isinstance(inputs, dict):
            return dict(inputs)
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        names = self._needed if len(inputs) <= len(self._needed) else self._names
        if len(inputs) > len(names):
            raise Error("E704", f"{len(inputs)} inputs were given, and there are {len(names)}")
        return dict(zip(names, inputs))

    def run(self, inputs, **kwargs):
        """inputs: a list in the model's order, or by name. The outputs, in the model's order, and by name."""
        del kwargs
        self.compiled_for, results = self._forms.run(self._given(inputs), lambda model, feeds: model.run(**feeds))
        return namedtupledict("Outputs", self._outputs)(*(results[name] for name in self._outputs))


def _types_of_outputs(node, types, opset):
    schema = onnx.defs.get_schema(node.op_type, opset.version, opset.domain)
    return onnx.shape_inference.infer_node_outputs(schema, node, types, opset_imports=[opset])


class Backend(_Backend):
    """options, where a method takes any: those of fettle.compile."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Whether models run on this device."""
        del model, kwargs
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        """Compiles an onnx.ModelProto."""
        if not cls.supports_device(device):
            raise Error("E709", f"models run on the CPU, not on {device}")
        super().prepare(model, device)
        return Prepared(model, **options)

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **options):
        """Compiles it and runs it once."""
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
        """Whether it is the CPU."""
        return device == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
