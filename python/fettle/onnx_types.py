"""Element types: ONNX's numbers, the names that ONNX Runtime gives them, and numpy's types."""

import ml_dtypes
import numpy

# TensorProto.DataType, what stands in "tensor(…)", numpy's type.
_TABLE = (
    (1, "float", numpy.float32), (2, "uint8", numpy.uint8), (3, "int8", numpy.int8), (4, "uint16", numpy.uint16),
    (5, "int16", numpy.int16), (6, "int32", numpy.int32), (7, "int64", numpy.int64), (8, "string", numpy.object_),
    (9, "bool", numpy.bool_), (10, "float16", numpy.float16), (11, "double", numpy.float64),
    (12, "uint32", numpy.uint32), (13, "uint64", numpy.uint64), (16, "bfloat16", ml_dtypes.bfloat16),
    (17, "float8e4m3fn", ml_dtypes.float8_e4m3fn), (18, "float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    (19, "float8e5m2", ml_dtypes.float8_e5m2), (20, "float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    (21, "uint4", ml_dtypes.uint4), (22, "int4", ml_dtypes.int4), (23, "float4e2m1", ml_dtypes.float4_e2m1fn),
    (24, "float8e8m0", ml_dtypes.float8_e8m0fnu), (25, "uint2", ml_dtypes.uint2), (26, "int2", ml_dtypes.int2),
)  # fmt: skip

NUMPY_OF_NUMBER = {number: numpy.dtype(dtype) for number, _, dtype in _TABLE}
NUMPY_OF_NAME = {name: numpy.dtype(dtype) for _, name, dtype in _TABLE}
NUMBER_OF_NAME = {name: number for number, name, _ in _TABLE}
NAME_OF_NUMPY = {numpy.dtype(dtype): name for _, name, dtype in _TABLE}


def type_of_array(array):
    """"tensor(float)"; texts of any kind are strings. KeyError: ONNX has no such type."""
    dtype = array.dtype
    return "tensor(string)" if dtype.kind in "OUST" else f"tensor({NAME_OF_NUMPY[dtype.newbyteorder('=')]})"


def type_of_value(value):
    """The type of an array, a list of arrays, a map, or a list of maps, as ONNX Runtime writes it."""
    if isinstance(value, dict):
        key = "string" if any(isinstance(k, str) for k in value) else "int64"
        held = next(iter(value.values()), 0.0)
        inner = "string" if isinstance(held, str) else "int64" if isinstance(held, (int, numpy.int64)) else "float"
        return f"map({key},tensor({inner}))"
    if isinstance(value, list):
        return f"seq({type_of_value(value[0]) if value else 'tensor(float)'})"
    return type_of_array(value)
