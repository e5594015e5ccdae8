"""torch.compile(model, backend="fettle"): see docs/torch.md."""

import dataclasses
import functools

import torch
from torch._dynamo.backends.common import aot_autograd

from . import (  # noqa: F401
    operators_complex,
    operators_data,
    operators_elementwise,
    operators_index,
    operators_linalg,
    operators_linear,
    operators_pool,
    operators_reduce,
    operators_shape,
    operators_special,
)
from .compiled import compiled, statistics
from .fx import Unsupported, known

__all__ = ["Options", "Unsupported", "backend", "statistics"]


@dataclasses.dataclass
class Options:
    """torch.compile(model, backend="fettle", options={"threads": 4}).

    threads: of the compiled code, which it starts; 0: it runs on torch's own (torch.set_num_threads()).
    freeze:  whether weights become constants where no gradients are wanted: packed once, and compiled for anew when changed.
    strict:  an operator that is not covered is an error, and not left to torch.
    compile: further options of fettle.compile, such as {"database": "records.db"}.
    """

    threads: int = 0
    freeze: bool = True
    strict: bool = False
    compile: dict = dataclasses.field(default_factory=dict)


# Random numbers are torch's own: their decompositions draw others.
_RANDOM = ("native_dropout", "bernoulli", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm",
           "normal", "uniform", "multinomial", "exponential", "rrelu_with_noise", "rrelu_with_noise_functional")  # fmt: skip
# Their decompositions write in place, or are no graphs of tensors.
_WHOLE = ("diagonal_scatter", "as_strided_scatter", "complex", "polar", "lift_fresh", "detach")


@functools.cache
def _decompositions():
    """What torch itself makes of the operators that Fettle does not know."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    packets = [getattr(torch.ops.aten, name) for name in _RANDOM + _WHOLE if hasattr(torch.ops.aten, name)]
    kept = known() | {getattr(packet, overload) for packet in packets for overload in packet.overloads()}
    table = {**decomposition_table, **core_aten_decompositions()}
    return {op: function for op, function in table.items() if op not in kept}


def _weights(inputs):
    """Which inputs are parameters and buffers that the graph does not write."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    if metadata is None:
        return []
    written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata}
    return [i for i in metadata.static_input_indices or []
            if i not in written and i < len(inputs) and isinstance(inputs[i], torch.Tensor)]  # fmt: skip


def backend(module, example_inputs, *, options=None, mode=None):
    """Dynamo's contract: an FX graph and examples of its inputs → what runs it."""
    del mode  # there is one way to compile
    chosen = Options(**(options or {}))

    def inference(graph, inputs):
        return compiled(graph, _weights(inputs) if chosen.freeze else [], chosen)

    def training(graph, inputs):
        del inputs
        return compiled(graph, [], chosen)

    compiler = aot_autograd(
        fw_compiler=training, bw_compiler=training, inference_compiler=inference,
        decompositions=_decompositions(),
    )  # fmt: skip
    return compiler(module, example_inputs)
