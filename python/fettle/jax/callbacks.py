"""Functions of the user that programs call while they run: jax.pure_callback, io_callback and jax.debug."""

import functools
import itertools
import logging
import uuid

import numpy as np

from fettle.host_calls import register, unregister

from .host_calls import host_call

__all__ = ["register_lowerings"]

# Names are of this process alone: a program of JAX's compilation cache never finds another's function.
_PROCESS = uuid.uuid4().hex
_count = itertools.count()


class _Registered:
    """A name that is known for as long as the program that calls it lives."""

    def __init__(self, function):
        self.name = f"callback.{_PROCESS}.{next(_count)}"
        register(self.name, function)

    def __del__(self):
        unregister(self.name)


def _device():
    """Where callbacks find their arguments: JAX's own CPU where there is one, else Fettle's."""
    from jax._src import xla_bridge

    try:
        return xla_bridge.local_devices(backend="cpu")[0]
    except RuntimeError:
        return xla_bridge.local_devices(backend="fettle")[0]


def _checked(results, avals, what):
    """The callback's results as arrays, which are of the types that were promised."""
    from jax._src import dtypes

    arrays = [dtypes.canonicalize_value(np.asarray(result)) for result in results]
    if len(arrays) != len(avals):
        raise RuntimeError(f"{what} returns {len(arrays)} arrays, not {len(avals)}")
    for i, (array, aval) in enumerate(zip(arrays, avals, strict=True)):
        if array.shape != aval.shape or array.dtype != aval.dtype:
            raise RuntimeError(f"{what} returns {array.dtype}{array.shape}, not {aval.dtype}{aval.shape}, as result {i}")
    return arrays


def _emit(context, operands, callback, what, has_side_effect):
    """The call of `callback` in the program. Its arguments are copies: a program's memory is used again."""
    from jax._src import api, config

    avals = list(context.avals_out)

    def function(*arrays):
        device = _device()
        try:
            with config.default_device(device):
                results = callback(*api.device_put([array.copy() for array in arrays], device))
                return _checked(results or (), avals, what)
        except BaseException:
            logging.getLogger(__name__).exception("%s failed", what)
            raise

    registered = _Registered(function)
    context.module_context.add_keepalive(registered)
    if context.tokens_in is not None and len(context.tokens_in):
        context.set_tokens_out(context.tokens_in)  # effects keep their order in any case
    return host_call(context, registered.name, operands, has_side_effect=has_side_effect)


def _pure_callback(context, *operands, callback, **_):
    return _emit(context, operands, callback, "jax.pure_callback", False)


def _io_callback(context, *operands, callback, **_):
    return _emit(context, operands, callback, "io_callback", True)


def _debug_callback(context, *operands, callback, **_):
    def run(*arrays):
        callback(*arrays)

    return _emit(context, operands, run, "jax.debug.callback", True)


def _debug_print(context, *operands, fmt, in_tree, static_args, np_printoptions, has_placeholders, logging_record, **_):
    from jax._src import debugging

    show = functools.partial(debugging._format_print_callback, fmt, dict(np_printoptions), has_placeholders, logging_record)
    return _debug_callback(context, *operands, callback=debugging._make_flat_callback(in_tree, show, static_args))


def register_lowerings():
    """Tells JAX what callbacks become on platform fettle."""
    from jax._src import callback, debugging
    from jax._src.interpreters import mlir

    for primitive, rule in (
        (callback.pure_callback_p, _pure_callback),
        (callback.io_callback_p, _io_callback),
        (debugging.debug_callback_p, _debug_callback),
        (debugging.debug_print_p, _debug_print),
    ):
        mlir.register_lowering(primitive, rule, platform="fettle", cacheable=False)
