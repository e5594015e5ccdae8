"""Functions of Python that compiled programs call by name.

A lowering puts `host_call(...)` in the place of a primitive, and `register` says what the name stands for. The program
finds the function when it runs, so that it can be kept in JAX's compilation cache.
"""

import ctypes
import json

import ml_dtypes
import numpy as np

__all__ = ["connect", "host_call", "register", "unregister"]

_TARGET = "fettle.host_call"
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
def _dispatch(_, call):
    call = call.contents
    try:
        _run(call)
    except BaseException as error:  # noqa: BLE001: nothing may be thrown through compiled code
        text = f"{type(error).__name__}: {error}".encode()[: call.error_bytes - 1] + b"\0"
        ctypes.memmove(call.error, text, len(text))
        return -5  # FETTLE_KERNEL_FAILED
    return 0


def connect(path):
    """Makes the plug-in at `path` call Python's functions."""
    ctypes.CDLL(str(path)).fettle_set_host_calls(_dispatch, None)


def register(name, function):
    """`function(*arrays, **parameters)` → arrays, or None where nothing is to be written: what programs call by `name`."""
    _functions[name] = function


def unregister(name):
    """Programs do not find it any more."""
    _functions.pop(name, None)


def host_call(context, name, operands, parameters=None, has_side_effect=False):
    """Values of the program that is being lowered: what the function of this name makes of `operands`."""
    from jax._src.interpreters import mlir

    config = {"in": [str(aval.dtype) for aval in context.avals_in], "out": [str(aval.dtype) for aval in context.avals_out],
              "parameters": parameters or {}}  # fmt: skip
    op = mlir.custom_call(
        _TARGET, result_types=[mlir.aval_to_ir_type(context.module_context, aval) for aval in context.avals_out],
        operands=operands, backend_config=f"{name} {json.dumps(config)}", has_side_effect=has_side_effect, api_version=2,
    )  # fmt: skip
    return list(op.results)
