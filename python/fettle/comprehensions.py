"""Tensor comprehensions: functions over arrays, written as what each element is. See docs/comprehensions.md."""

import os
import pathlib

from . import _fettle
from .model import compile


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

    def __call__(self, *arrays, out=None):
        return self.model(*arrays, out=out)

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

    def __call__(self, *arrays, out=None):
        return self._last(*arrays, out=out)

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
