"""Schedules: a program, and the steps that led to it.

Each primitive of docs/schedule is a method, made from the list of its fields: a new primitive appears by itself. Its
arguments are given in their order or by their names; None for a factor is "whatever is left", and a function stands for
an index map: lambda i, j: (i // 16, j, i % 16). A step that is refused raises fettle.Error and leaves the schedule as it
was. What steps return names loops, blocks and drawn integers.
"""

import inspect

from . import _fettle
from ._primitives import PRIMITIVES

Schedule = _fettle.Schedule


def _index_map(fn):
    return _fettle.index_map_text(fn, list(inspect.signature(fn).parameters))


def _method(name, fields, result, doc):
    one = result in ("loop", "block", "integer")
    nothing = result == "nothing"

    def step(self, *args, **kwargs):
        if len(args) > len(fields):
            raise TypeError(f"{name} takes {len(fields)} arguments, and {len(args)} were given")
        given = dict(zip(fields, args))
        for key, value in kwargs.items():
            if key in given:
                raise TypeError(f"{name} got its argument {key} twice")
            given[key] = value
        for key, value in given.items():
            if callable(value):
                given[key] = _index_map(value)
        results = self._step(name, given)
        if one:
            return results[0] if results else None  # a choice among names is no integer; s.decisions has it
        return None if nothing else results

    step.__name__ = name
    step.__qualname__ = f"Schedule.{name}"
    step.__doc__ = doc
    return step


def _install():
    for name, (fields, _samples, _queries, _version) in _fettle.primitives().items():
        result, _args, doc = PRIMITIVES[name]
        setattr(Schedule, name, _method(name, fields, result, doc))
    Schedule.__getitem__ = lambda self, name: self.get_block(name)
    Schedule._repr_html_ = _fettle.Func._repr_html_ = _shown


def _shown(self):
    from .display import text
    return text(self)


_install()
