"""A model in half precision: as exporters write one whose weights and activations are all f16."""

import numpy as np
from onnx import AttributeProto, TensorProto, numpy_helper

_LARGEST = np.finfo(np.float16).max


def to_half(model):
    """Changes the model in place: floats of 32 bits become halves, what exceeds them the largest half. Returns it."""
    graph = model.graph
    for tensor in graph.initializer:
        _halve(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _halve(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def _halve(tensor):
    if tensor.data_type != TensorProto.FLOAT:
        return
    array = np.clip(numpy_helper.to_array(tensor), -_LARGEST, _LARGEST).astype(np.float16)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
