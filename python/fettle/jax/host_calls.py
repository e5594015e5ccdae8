"""Calls of functions of Python (`fettle.host_calls`) in programs that JAX lowers."""

import ctypes

from fettle.host_calls import described, dispatch

__all__ = ["connect", "host_call"]

_TARGET = "fettle.host_call"


def connect(path):
    """Makes the plug-in at `path` call Python's functions."""
    ctypes.CDLL(str(path)).fettle_set_host_calls(dispatch, None)


def host_call(context, name, operands, parameters=None, has_side_effect=False):
    """Values of the program that is being lowered: what the function of this name makes of `operands`."""
    from jax._src.interpreters import mlir

    dtypes_in, dtypes_out = ([aval.dtype for aval in avals] for avals in (context.avals_in, context.avals_out))
    op = mlir.custom_call(
        _TARGET, result_types=[mlir.aval_to_ir_type(context.module_context, aval) for aval in context.avals_out],
        operands=operands, backend_config=" ".join(described(name, dtypes_in, dtypes_out, parameters or {})),
        has_side_effect=has_side_effect, api_version=2,
    )  # fmt: skip
    return list(op.results)
