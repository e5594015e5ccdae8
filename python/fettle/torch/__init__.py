"""torch.compile(model, backend="fettle"): see docs/torch.md."""

import dataclasses

import torch
from torch._dynamo.backends.common import aot_autograd

from . import operators_elementwise, operators_index, operators_linear, operators_reduce, operators_shape  # noqa: F401
from .compiled import compiled, statistics
from .fx import Unsupported, known

__all__ = ["Options", "Unsupported", "backend", "statistics"]


@dataclasses.dataclass
class Options:
    """torch.compile(model, backend="fettle", options={"threads": 4}).

    threads: of the compiled code; 0: as many as torch has (torch.get_num_threads()).
    freeze:  whether weights become constants where no gradients are wanted: packed once, and compiled for anew when changed.
    strict:  an operator that is not covered is an error, and not left to torch.
    compile: further options of fettle.compile, such as {"database": "records.db"}.
    """

    threads: int = 0
    freeze: bool = True
    strict: bool = False
    compile: dict = dataclasses.field(default_factory=dict)


_decompositions = {}


def _table(training):
    """What torch itself makes of the operators that Fettle does not know."""
    if training not in _decompositions:
        from torch._decomp import core_aten_decompositions, decomposition_table

        kept = known() | _RANDOM
        table = {**decomposition_table, **core_aten_decompositions()}
        _decompositions[training] = {op: f for op, f in table.items() if op not in kept}
    return _decompositions[training]


# Random numbers are torch's own: their decompositions draw others.
_RANDOM = {
    getattr(getattr(torch.ops.aten, packet), overload)
    for packet in ("native_dropout", "bernoulli", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like",
                   "randperm", "normal", "uniform", "multinomial", "exponential", "rrelu_with_noise",
                   "rrelu_with_noise_functional")  # fmt: skip
    if hasattr(torch.ops.aten, packet)
    for overload in getattr(torch.ops.aten, packet).overloads()
}


def _static_inputs():
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    return list(metadata.static_input_indices or []) if metadata else []


def backend(module, example_inputs, *, options=None, mode=None):
    """Dynamo's contract: an FX graph and examples of its inputs → what runs it."""
    del mode  # there is one way to compile
    chosen = Options(**(options or {}))

    def inference(graph, inputs):
        frozen = _static_inputs() if chosen.freeze and not torch.is_grad_enabled() else []
        frozen = [i for i in frozen if i < len(inputs) and isinstance(inputs[i], torch.Tensor)]
        return compiled(graph, frozen, chosen)

    def training(graph, inputs):
        del inputs
        return compiled(graph, [], chosen)

    compiler = aot_autograd(
        fw_compiler=training, bw_compiler=training, inference_compiler=inference,
        decompositions=_table(torch.is_grad_enabled()),
    )  # fmt: skip
    return compiler(module, example_inputs)
