"""Tensor expressions: what each element of a tensor is, without a word on how it is computed.

    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis(k, "r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    program = te.create_func("matmul", [A, B], [C])
"""

import inspect

from ._fettle import te as _te

placeholder, reduce_axis, var, const = _te.placeholder, _te.reduce_axis, _te.var, _te.const
sum, prod, max, min, argmax, argmin = _te.sum, _te.prod, _te.max, _te.min, _te.argmax, _te.argmin
reduce = _te.reduce
select, likely, cast, min_value, max_value, pad = (_te.select, _te.likely, _te.cast, _te.min_value, _te.max_value,
                                                   _te.pad)
exp, log, sqrt, rsqrt, sin, cos, tanh, erf, sigmoid, pow = (_te.exp, _te.log, _te.sqrt, _te.rsqrt, _te.sin, _te.cos,
                                                            _te.tanh, _te.erf, _te.sigmoid, _te.pow)
floor, ceil, round, trunc, abs = _te.floor, _te.ceil, _te.round, _te.trunc, _te.abs
create_func = _te.create_func


def compute(shape, fn, name="compute", axes=None):
    """The tensor whose element at i, j, … is fn(i, j, …): an expression, a reduction (te.sum, te.max, …), or a tuple of
    expressions for as many tensors. Its loops get the names of fn's parameters, or those of `axes`."""
    if axes is None:
        axes = _parameter_names(fn)
    return _te._compute(shape, fn, name, list(axes))


def scan(steps, shape, init, update, name="scan", axes=None):
    """State along a first dimension: state[0, i, …] = init(i, …), then state[t, i, …] = update(state, t, i, …), which may
    read the state at any earlier step: te.scan(n, (m,), lambda i: X[0, i], lambda s, t, i: s[t - 1, i] + X[t, i]) sums up.
    Where init returns a tuple, there are as many states, and `state` is a tuple."""
    if axes is None:
        axes = _parameter_names(init)
    return _te._scan(steps, shape, init, update, name, list(axes))


def _parameter_names(fn):
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        return []
    return [p.name for p in parameters if p.name != "_"]
