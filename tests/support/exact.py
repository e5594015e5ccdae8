"""What a model's results are in double precision, and how far others are from them."""

import numpy
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
NARROW_NAMES = ("float32", "float16", "bfloat16")


def in_double(model):
    """An evaluator of the same model in double precision."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)

    def widened(tensor):
        values = numpy_helper.to_array(tensor).astype(numpy.float64)
        return numpy_helper.from_array(values, tensor.name)

    def widen(graph):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type in NARROW:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for tensor in graph.initializer:
            if tensor.data_type in NARROW:
                tensor.CopyFrom(widened(tensor))
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    widen(attribute.g)
                elif attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type in NARROW:
                    attribute.t.CopyFrom(widened(attribute.t))
                elif node.op_type == "Cast" and attribute.name == "to" and attribute.i in NARROW:
                    attribute.i = TensorProto.DOUBLE

    widen(wide.graph)
    return ReferenceEvaluator(wide)


def wide(array):
    """An input as that evaluator takes it."""
    return array.astype(numpy.float64) if getattr(array, "dtype", None) in NARROW_NAMES else array


def distance(a, b):
    """The largest difference over the largest magnitude in b, or over 1; infinite where types or shapes differ."""
    if a.size == b.size == 0 and a.ndim == b.ndim:
        return 0.0  # of no rows ONNX Runtime does not always know the others' extents
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return numpy.inf
    x, y = a.astype(numpy.float64), b.astype(numpy.float64)
    same = (x == y) | (numpy.isnan(x) & numpy.isnan(y))
    scale = max(1.0, float(numpy.max(numpy.abs(y[numpy.isfinite(y)]), initial=0)))
    gap = numpy.where(same, 0, numpy.abs(x - y))
    return float(numpy.max(numpy.where(numpy.isnan(gap), numpy.inf, gap), initial=0)) / scale
