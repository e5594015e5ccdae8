"""A model's compiled forms: for all sizes that it leaves open, and where that does not do, for those of a call."""

import threading

import numpy

from .. import _fettle
from ..errors import Error
from ._errors import of_running
from ._types import NAME_OF_NUMPY, NUMBER_OF_NAME

_MUST_BE_KNOWN, _DOES_NOT_FIT = "E604", "E705"
_MOST_ELEMENTS = 64  # of an input whose values a model is compiled for
_MOST_FORMS = 64  # that are kept for calls


def _never(value):
    return False


def _is_small_integers(value):
    return isinstance(value, numpy.ndarray) and value.dtype.kind in "iub" and value.size <= _MOST_ELEMENTS


def _is_small(value):
    return _is_small_integers(value) or (
        isinstance(value, numpy.ndarray) and value.dtype.kind == "f" and value.ndim <= 1 and value.size <= _MOST_ELEMENTS
    )


# Of which inputs a form knows the values, besides the shapes of all; one after another is tried.
_WAYS = (_never, _is_small_integers, _is_small)


def _shape(value):
    """An array's; of a list of arrays of one rank, that rank, with open extents. None: there is none."""
    if isinstance(value, numpy.ndarray):
        return list(value.shape)
    if isinstance(value, list) and value and all(isinstance(x, numpy.ndarray) for x in value):
        ranks = {x.ndim for x in value}
        return [-1] * ranks.pop() if len(ranks) == 1 else None
    return None


def _key(way, feeds):
    parts = [way]
    for name, value in sorted(feeds.items()):
        shape = _shape(value)
        content = value.tobytes() if way(value) else None
        parts.append((name, type(value) if shape is None else tuple(shape), content))
    return tuple(parts)


class Programs:
    """`compile(source, shapes)` makes a fettle.Model; source: a path, or an ONNX file's bytes. overridable: names of
    initializers that a call may give."""

    def __init__(self, compile, source, overridable):
        self._compile, self._source, self._overridable = compile, source, overridable
        self._lock = threading.Lock()
        self._made = {}

    def open(self, given=()):
        """For all sizes, with the shapes of these initializers, which become inputs. fettle.Error where it cannot be."""
        shapes = {name: list(value.shape) for name, value in given}
        key = tuple((name, tuple(shape)) for name, shape in shapes.items())
        return self._known(key, lambda: self._compile(self._source, shapes))

    def _known(self, key, make):
        """What is made once; likewise the error that it leads to."""
        with self._lock:
            made = self._made.get(key)
            if made is None:
                try:
                    made = make()
                except Error as error:
                    made = error
                if len(self._made) >= _MOST_FORMS:
                    self._made.pop(next(iter(self._made)))
                self._made[key] = made
        if isinstance(made, Error):
            raise made
        return made

    def _for_call(self, way, feeds, given):
        values = {name: value for name, value in feeds.items() if way(value)}
        shapes = {name: shape for name, value in feeds.items() if (shape := _shape(value)) is not None}

        def make():
            initializers = {
                name: (NUMBER_OF_NAME[NAME_OF_NUMPY[value.dtype]], list(value.shape), value.tobytes(), False)
                for name, value in values.items()
            }
            model = _fettle._model_with(self._source, shapes=shapes, initializers=initializers)
            return self._compile(model, {name: list(value.shape) for name, value in given if name not in values})

        return self._known(_key(way, feeds), make), {k: v for k, v in feeds.items() if k not in values}

    def run(self, feeds, call):
        """call(model, feeds) with the form that fits. feeds: as the model's inputs are."""
        given = [(name, feeds[name]) for name in self._overridable if name in feeds]
        refused = None
        try:
            model = self.open(given)
            return call(model, feeds)
        except Error as error:
            if error.code not in (_MUST_BE_KNOWN, _DOES_NOT_FIT) or not isinstance(self._source, (str, bytes)):
                raise of_running(error) from error
            refused = error
        for way in _WAYS:
            try:
                model, left = self._for_call(way, feeds, given)
                return call(model, left)
            except Error as error:
                if error.code != _MUST_BE_KNOWN:
                    break
                refused = error
        raise of_running(refused) from refused
