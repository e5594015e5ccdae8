"""A model's compiled forms: for all sizes that it leaves open, and where that does not do, for those of a call."""

import contextlib
import threading
import weakref

import numpy

from . import _fettle
from .errors import Error
from .model import compile
from .onnx_types import NAME_OF_NUMPY, NUMBER_OF_NAME

_MUST_BE_KNOWN, _DOES_NOT_FIT = "E604", "E705"
_MOST_ELEMENTS = 64  # of an input whose values a model is compiled for
_MOST_FORMS = 64  # that are kept


def _never(value):
    return False


def _is_small_integers(value):
    return isinstance(value, numpy.ndarray) and value.dtype.kind in "iub" and value.size <= _MOST_ELEMENTS


def _is_small(value):
    return _is_small_integers(value) or (
        isinstance(value, numpy.ndarray) and value.dtype.kind == "f" and value.ndim <= 1 and value.size <= _MOST_ELEMENTS
    )


# What a form is made for, one after another: of which inputs it knows the values, besides the shapes of all.
_WAYS = (("shapes", _never), ("values", _is_small_integers), ("values", _is_small))


def _shape(value):
    """An array's; of a list of arrays of one rank, that rank, with open extents. None: there is none."""
    if isinstance(value, numpy.ndarray):
        return list(value.shape)
    if isinstance(value, list) and value and all(isinstance(x, numpy.ndarray) for x in value):
        ranks = {x.ndim for x in value}
        return [-1] * ranks.pop() if len(ranks) == 1 else None
    return None


def _key(is_known, feeds):
    """What a form that is made for these inputs depends on."""
    parts = [is_known]
    for name, value in sorted(feeds.items()):
        shape = _shape(value)
        content = value.tobytes() if is_known(value) else None
        parts.append((name, type(value) if shape is None else tuple(shape), content))
    return tuple(parts)


class Forms:
    """Of a source (`fettle.model._source`). description: `_describe_model`'s; None: it is a library, which has no other
    forms. options: those of fettle.compile. Any number of threads may use it."""

    def __init__(self, source, description=None, shapes=None, **options):
        self._source, self._description, self._options, self._shapes = source, description, options, dict(shapes or {})
        self._overridable = [name for name, _, _ in description["overridable"]] if description else []
        self._making, self._lending = threading.Lock(), threading.Lock()
        self._made = {}
        self._idle = weakref.WeakKeyDictionary()  # contexts, by models

    def open(self, given=()):
        """For all sizes; these initializers, (name, array) of each, become inputs. fettle.Error where it cannot be."""
        shapes = {name: list(value.shape) for name, value in given}
        key = tuple((name, tuple(shape)) for name, shape in shapes.items())
        return self._known(key, lambda: self._compile(self._source, shapes))

    def open_if_sizes_do(self):
        """The same; None where more must be known, which a call's inputs tell."""
        try:
            return self.open()
        except Error as error:
            if error.code != _MUST_BE_KNOWN or not self._description or not self._description["inputs"]:
                raise
            return None

    def _compile(self, source, shapes):
        return compile(source, shapes={**self._shapes, **shapes}, **self._options)

    def _known(self, key, make):
        """What is made once; likewise the error that it leads to."""
        made = self._made.get(key)
        if made is None:
            with self._making:
                made = self._made.get(key) or self._keep(key, make)
        if isinstance(made, Error):
            raise made.with_traceback(None)
        return made

    def _keep(self, key, make):
        try:
            made = make()
        except Error as error:
            made = error
        if len(self._made) >= _MOST_FORMS:
            self._made.pop(next(iter(self._made)))
        self._made[key] = made
        return made

    def _for_call(self, is_known, feeds, given):
        values = {name: value for name, value in feeds.items() if is_known(value)}
        left = {name: value for name, value in feeds.items() if name not in values}

        def make():
            shapes = {name: shape for name, value in feeds.items() if (shape := _shape(value)) is not None}
            initializers = {
                name: (NUMBER_OF_NAME[NAME_OF_NUMPY[value.dtype]], list(value.shape), value.tobytes(), False)
                for name, value in values.items()
            }
            source = _fettle._model_with(self._source, shapes=shapes, initializers=initializers)
            return self._compile(source, {name: list(value.shape) for name, value in given if name in left})

        return self._known(_key(is_known, feeds), make), left

    @contextlib.contextmanager
    def context(self, model):
        """A context of a form's that no other call has; its states are as in the beginning."""
        with self._lending:
            idle = self._idle.setdefault(model, [])
            context = idle.pop() if idle else model.context()
        context.reset_states()
        yield context
        with self._lending:
            idle.append(context)

    def run(self, feeds, call):
        """call(model, feeds) with the form that fits; what the form was made for ("all sizes", "shapes", "values"), and
        what the call returned. feeds: as the model's inputs are. Errors: the first form's, where no other can be made."""
        given = [(name, feeds[name]) for name in self._overridable if name in feeds]
        try:
            return "all sizes", call(self.open(given), feeds)
        except Error as error:
            if error.code not in (_MUST_BE_KNOWN, _DOES_NOT_FIT) or not self._description:
                raise
            refused = error
        for what, is_known in _WAYS:
            try:
                model, left = self._for_call(is_known, feeds, given)
                return what, call(model, left)
            except Error as error:
                if error.code != _MUST_BE_KNOWN:
                    break
                refused = error
        raise refused
