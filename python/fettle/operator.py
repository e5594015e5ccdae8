"""Operators of one's own, which models may have."""

import inspect

from . import _fettle


def operator(name, *, pointwise=False, commutative=False, moves=False, fusion=None, shape=None):
    """Adds an operator for good, before a model that has it is opened. What is decorated says what it computes:

        @fettle.operator("com.example.Swish", pointwise=True)
        def swish(x, *, beta=1.0):
            return te.compute(x.shape, lambda *i: x[i] * te.sigmoid(x[i] * beta), name="swish")

    name: its domain, then the type of its nodes; ONNX's own domain has no name. Positional parameters are inputs, as
    te.Tensors; one that has a default may be left out, and is then the default. Keywords are attributes. It returns a
    tensor, or a tuple of as many as there are outputs.
    pointwise: element i of the output depends on element i of the inputs alone, which broadcast as numpy's do.
    commutative: of two inputs, either may come first.
    moves: elements are moved, not computed.
    fusion: elementwise, broadcast, injective, reduction, complex_out_fusable or opaque: how it joins its neighbours.
    shape: a function of the inputs' shapes (tuples of numbers, or of names where a model leaves them open; None where one
    is left out) and the attributes. It returns the output's shape, whose type is the first input's, or a list of
    (shape, dtype), one an output. Without it: the inputs broadcast together where it is
    pointwise, else the shapes of the tensors that it returns.
    """
    def register(compute):
        required, inputs, attributes = 0, 0, []
        for parameter in inspect.signature(compute).parameters.values():
            if parameter.kind == parameter.KEYWORD_ONLY:
                attributes.append(parameter.name)
            elif parameter.kind == parameter.VAR_POSITIONAL:
                inputs = -1
            elif parameter.kind != parameter.VAR_KEYWORD:
                required += parameter.default is parameter.empty
                inputs += inputs >= 0
        _fettle._register_operator(name, compute, shape, required, inputs, attributes, pointwise, commutative, moves,
                                   fusion or ("broadcast" if pointwise else "injective" if moves else "opaque"))
        return compute
    return register
