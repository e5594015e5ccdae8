"""Models of floats become models of bytes."""

import os

import numpy

from . import _fettle
from .kernel import _bits
from .model import _source

def _array(value):
    array = numpy.ascontiguousarray(value)
    if array.dtype.hasobject or array.dtype.kind in "US":
        raise TypeError("samples are arrays of numbers")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.dtype.name, list(numpy.shape(value)), _bits(array).tobytes()


def _sample(given, inputs):
    if not isinstance(given, dict):
        if len(inputs) != 1:
            raise TypeError(f"a sample is a dict of arrays for the inputs {', '.join(inputs)}")
        given = {inputs[0]: given}
    return {name: _array(value) for name, value in given.items()}


def quantize(model, samples, *, out=None, method="minmax", percentile=99.99, per_channel=True, activations="u8",
             exclude=(), report=None, threads=0, folder=None):
    """Gives the bytes of an ONNX model whose products take bytes, or writes it: a file that other runtimes read, too.

    model        of floats: a path, the bytes of an ONNX file, an onnx.ModelProto or a fettle.Graph
    samples      what goes into it: dicts of arrays by input, or arrays of a model with one input. Ranges of values are
                 taken from what the model makes of them
    out          a path: the model is written there, and nothing is returned. Weights in files of their own come to lie
                 beside it; bytes have all weights inside, and are refused beyond 2 GiB
    method       "minmax", or "percentile": ranges without the values furthest out
    percentile   what share of the values is within such a range
    per_channel  whether weights have a scale for each output channel, or one
    activations  "u8" or "s8": the type of what is no weight. Weights are s8
    exclude      names of nodes, or operators, that stay float
    report       a dict, which gets what became of the values: "values", "left", "outputs", and in these the signal over
                 the noise in dB, on the samples
    threads      that the model runs on; 0: as many as this process may use
    folder       where external data of bytes or a ModelProto lie

    >>> import fettle, numpy
    >>> rng = numpy.random.default_rng(0)
    >>> g = fettle.Graph("layer")
    >>> x = g.input("x", "float32", ["N", 16])
    >>> g.output("y", g.MatMul(x, g.constant(rng.standard_normal((16, 8), "float32"))))
    >>> report = {}
    >>> data = fettle.quantize(g, [rng.standard_normal((4, 16), "float32") for _ in range(4)], report=report)
    >>> report["products"], [value["name"] for value in report["values"]], report["outputs"]["y"] > 30
    (1, ['x'], True)
    >>> fettle.compile(data, cache=False)
    <fettle.Model (x: float32[N, 16]) -> (y: float32[N, 8])>
    """
    if method not in ("minmax", "percentile"):
        raise ValueError(f"a method is 'minmax' or 'percentile', not {method!r}")
    if activations not in ("u8", "s8"):
        raise ValueError(f"activations are 'u8' or 's8', not {activations!r}")
    source = _source(model, folder)
    inputs = [name for name, _, _ in _fettle._describe_model(source)["inputs"]]
    given = [_sample(sample, inputs) for sample in samples]
    made, found = _fettle._quantize(source, given, "" if out is None else os.fsdecode(out), method, float(percentile),
                                    bool(per_channel), activations, list(exclude), report is not None, threads)  # fmt: skip
    if report is not None:
        report.update(found)
    return made
