"""Functions of Python that compiled models call by name.

`register` says what a name stands for, and `Graph.host_call` adds a call to a graph. The model finds the function when
it runs, so that it can be kept: a library that is loaded later calls what has the name then.

>>> import fettle, numpy
>>> fettle.host_calls.register("sorted", lambda x, descending: [numpy.sort(x)[::-1] if descending else numpy.sort(x)])
>>> g = fettle.Graph()
>>> x = g.input("x", "float32", [3])
>>> (ordered,) = g.host_call("sorted", [x + 1], [("float32", [3])], descending=True)
>>> g.output("y", ordered * 2)
>>> fettle.compile(g)(numpy.float32([2, 3, 1])).tolist()
[8.0, 6.0, 4.0]
"""

import ctypes
import json

import ml_dtypes
import numpy as np

from . import _fettle

__all__ = ["register", "unregister"]

_functions = {}


class _Tensor(ctypes.Structure):
    """FettleTensor of model_api.h."""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("device", ctypes.c_int32), ("device_index", ctypes.c_int32), ("reserved", ctypes.c_int32),
        ("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("axis_names", ctypes.c_void_p), ("capacity_bytes", ctypes.c_int64),
    ]  # fmt: skip


class _Call(ctypes.Structure):
    """FettleHostCall of model_api.h."""

    _fields_ = [
        ("struct_bytes", ctypes.c_uint32), ("n_inputs", ctypes.c_int32), ("n_outputs", ctypes.c_int32),
        ("reserved", ctypes.c_int32), ("name", ctypes.c_char_p), ("config", ctypes.c_char_p),
        ("inputs", ctypes.POINTER(_Tensor)), ("outputs", ctypes.POINTER(_Tensor)),
        ("error", ctypes.c_void_p), ("error_bytes", ctypes.c_int64),
    ]  # fmt: skip


# By the numbers of FettleDtype.
_DTYPES = dict(enumerate(map(np.dtype, (
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16,
    ml_dtypes.bfloat16, np.float32, np.float64, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn)), 1))  # fmt: skip


def _array(tensor):
    """The tensor's memory as an array."""
    dtype = _DTYPES[tensor.dtype]
    shape = tensor.shape[: tensor.rank]
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(tensor.data)
    return np.frombuffer(memory, dtype).reshape(shape)


def _joined(parts, dtypes):
    """Arrays of these dtypes; a complex one comes as two, its real and its imaginary part."""
    arrays = []
    for dtype in dtypes:
        array = next(parts)
        if np.dtype(dtype).kind == "c":
            whole = np.empty(array.shape, dtype)
            whole.real, whole.imag = array, next(parts)
            array = whole
        arrays.append(array)
    return arrays


def _write(results, outputs, dtypes):
    parts = iter(outputs)
    for result, dtype in zip(results, dtypes, strict=True):
        if np.dtype(dtype).kind == "c":
            next(parts)[...] = np.real(result)
            next(parts)[...] = np.imag(result)
        else:
            next(parts)[...] = result


def _run(call):
    config = json.loads(call.config)
    outputs = [_array(tensor) for tensor in call.outputs[: call.n_outputs]]
    inputs = _joined(map(_array, call.inputs[: call.n_inputs]), config["in"])
    function = _functions.get(call.name.decode())
    if function is None:
        raise LookupError("no function of this process has this name")
    results = function(*inputs, **config["parameters"])
    if results is not None:
        _write(results, outputs, config["out"])


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(_Call))
def dispatch(_, call):
    call = call.contents
    try:
        _run(call)
    except BaseException as error:  # noqa: BLE001: nothing may be thrown through compiled code
        text = f"{type(error).__name__}: {error}".encode()[: call.error_bytes - 1] + b"\0"
        ctypes.memmove(call.error, text, len(text))
        return -5  # FETTLE_KERNEL_FAILED
    return 0


_fettle._set_host_calls(ctypes.cast(dispatch, ctypes.c_void_p).value)


def register(name, function):
    """`function(*arrays, **parameters)` → arrays, or None where nothing is to be written: what models call by `name`.

    The arrays are the model's memory: they are not to be written, and not to be kept."""
    _functions[name] = function


def unregister(name):
    """Models do not find it any more."""
    _functions.pop(name, None)


def described(name, dtypes_in, dtypes_out, parameters):
    """(name, config) of a call. dtypes: of whole arrays; a complex one goes as two tensors."""
    config = {"in": list(map(str, dtypes_in)), "out": list(map(str, dtypes_out)), "parameters": parameters}
    return name, json.dumps(config)
