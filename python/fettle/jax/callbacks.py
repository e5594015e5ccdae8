"""jax.pure_callback: functions of the user that programs call while they run."""

import itertools
import uuid

from .host_calls import host_call, register, unregister

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


def _pure_callback(context, *operands, callback, sharding, **parameters):
    del sharding
    from jax._src import callback as callbacks

    def function(*arrays):
        return callbacks.pure_callback_impl(*(array.copy() for array in arrays), callback=callback, sharding=None, **parameters)

    registered = _Registered(function)
    context.module_context.add_keepalive(registered)
    return host_call(registered.name, operands, context.avals_in, context.avals_out)


def register_lowerings():
    """Tells JAX what callbacks become on platform fettle."""
    from jax._src import callback as callbacks
    from jax._src.interpreters import mlir

    mlir.register_lowering(callbacks.pure_callback_p, _pure_callback, platform="fettle", cacheable=False)
