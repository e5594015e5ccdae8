"""Tensor comprehensions: functions over arrays, written as what each element is. See docs/comprehensions.md."""

import os
import pathlib

import numpy

from . import _fettle
from .errors import Error
from .kernel import _numpy_dtype
from .model import compile


def _converted(name, dtype, value):
    """Python's numbers, and lists of them, as an array of the parameter's type; all else as it is.

    Integers keep their value, or are refused. Floats are rounded as numbers in the text are.
    """
    if not isinstance(value, (bool, int, float, list, tuple)):
        return value
    array = numpy.asarray(value)
    if array.dtype.kind not in "biuf":
        return value
    wanted = _numpy_dtype(dtype)
    with numpy.errstate(all="ignore"):
        made = array.astype(wanted)
    rounds = array.dtype.kind == "f" and "float" in dtype
    if rounds and (numpy.isfinite(made) == numpy.isfinite(array)).all():
        return made
    if made.tolist() != array.tolist():
        raise Error("E705", f"input '{name}' is {dtype}, which does not have {value}")
    return made


class Comprehension:
    """One function: called with arrays, it gives an array, or a tuple of arrays. Made by `fettle.comprehension`.

    The first call compiles it, for arrays of every size. `fettle.compile` and `fettle.tune` take it as a model.
    """

    def __init__(self, text, name, options):
        self.name = name
        self._fettle_source = _fettle._comprehension_source(text, name)
        self._options, self._model = options, None

    @property
    def model(self):
        """The fettle.Model that calls run."""
        if self._model is None:
            self._model = compile(self._fettle_source, **self._options)
        return self._model

    def __call__(self, *arrays, out=None, **named):
        """Arrays by position, or by the parameters' names. Numbers and lists of Python's become the parameter's type."""
        inputs = self.model.inputs
        if named:
            arrays = self._in_order([name for name, _, _ in inputs], arrays, named)
        if len(arrays) == len(inputs):
            arrays = [_converted(name, dtype, value) for (name, dtype, _), value in zip(inputs, arrays)]
        return self.model(*arrays, out=out)

    def _in_order(self, names, arrays, named):
        """All of them by position."""
        values = dict(zip(names, arrays))
        for name, value in named.items():
            if name not in names:
                raise Error("E704", f"{self.name} has no parameter '{name}'; it has {', '.join(names)}")
            if name in values:
                raise Error("E704", f"parameter '{name}' of {self.name} is given twice")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise Error("E704", f"{self.name} is not given {', '.join(missing)}")
        return [values[name] for name in names]

    def __repr__(self):
        return f"<fettle.Comprehension {self.name}>"


class Comprehensions:
    """The functions of a text, by their names; called, the last of them."""

    def __init__(self, text, options):
        self._functions = {name: Comprehension(text, name, options) for name in _fettle._comprehension_names(text)}
        self._last = list(self._functions.values())[-1]
        self._fettle_source = self._last._fettle_source

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name):
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(f"there is no function {name}; there are: {', '.join(self._functions)}") from None

    def __iter__(self):
        return iter(self._functions)

    def __dir__(self):
        return [*self._functions, "model"]

    @property
    def model(self):
        """The last function's fettle.Model."""
        return self._last.model

    def __call__(self, *arrays, out=None, **named):
        return self._last(*arrays, out=out, **named)

    def __repr__(self):
        return f"<fettle.Comprehensions {', '.join(self._functions)}>"


def comprehension(text, **options):
    """The functions of a text, or of a .tc file, in the language of tensor comprehensions.

    text      the text, or a path (os.PathLike, or a text that ends with ".tc")
    options   of fettle.compile: threads, database, sizes, …

    >>> import fettle, numpy
    >>> f = fettle.comprehension("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }", cache=False)
    >>> f(numpy.float32([[1, 2]]), numpy.float32([[3], [4]])).tolist()
    [[11.0]]
    >>> f.mm
    <fettle.Comprehension mm>
    """
    if isinstance(text, os.PathLike) or text.endswith(".tc"):
        text = pathlib.Path(text).read_text(encoding="utf-8")
    return Comprehensions(text, options)
