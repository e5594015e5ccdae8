"""Two tunings, or two compiled models, task by task."""

import dataclasses
import os

from . import _fettle
from .errors import Error
from .model import Model


@dataclasses.dataclass(frozen=True)
class ComparedTask:
    """A task that both have. Times are of one call, in s; 0: not measured."""

    label: str
    before_s: float
    after_s: float
    saved_s: float  # of one run of the model; less than 0: it became slower
    share: float  # of what all tasks save; 0 where they save nothing


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `fettle.compare` gives: one run of the model took `before_s` and takes `after_s`, in s.

    `tasks` are those that both have, the one that changes most first. Of each: `label`, `before_s` and `after_s` of one call,
    `saved_s` of one run of the model, and its `share` of what all tasks save. `only_before` and `only_after` count the others.
    """

    before_s: float
    after_s: float
    tasks: tuple  # of ComparedTask: the one that changes most first
    only_before: int  # tasks
    only_after: int

    def __str__(self):
        lines = [f"before {self.before_s * 1e3:.3f} ms, after {self.after_s * 1e3:.3f} ms"]
        lines += [f"{task.before_s * 1e6:11.2f} {task.after_s * 1e6:11.2f} us  {task.label}" for task in self.tasks]
        if self.only_before or self.only_after:
            lines.append(f"{self.only_before} tasks are in the first alone, {self.only_after} in the second")
        return "\n".join(lines)


def compare(before, after, *, run_before=0, run_after=0, shapes=None):
    """Compares two tunings by their records, or two compiled models by running them in turns: a `Comparison`.

    before, after   paths of records, as `fettle.compile` takes them for `database`; or models, or paths of compiled ones
    run_before      which run of the records, 1 for the oldest; 0: the newest of the model that `after` is of
    run_after       likewise; 0: the newest
    shapes          of the inputs of models that leave them open; inputs are random

    Tasks of records are known by their program, kernels of models by their name and their nodes.

    >>> import fettle
    >>> g = fettle.Graph("twice")
    >>> x = g.input("x", "float32", [64])
    >>> g.output("y", x + x)
    >>> model = fettle.compile(g)
    >>> compared = fettle.compare(model, model)
    >>> len(compared.tasks), compared.only_before, compared.only_after
    (1, 0, 0)
    """
    given = [_opened(one) for one in (before, after)]
    compiled = [isinstance(one, Model) for one in given]
    if any(compiled):
        if not all(compiled) or run_before or run_after:
            raise Error("E709", "a compiled model is compared with another one, and neither has runs")
        made = _fettle._compare_models(given[0]._base, given[1]._base, dict(shapes or {}))
    elif shapes:
        raise Error("E709", "shapes are those of compiled models")
    else:
        made = _fettle._compare_runs(*given, run_before, run_after)
    before_s, after_s, only_before, only_after, tasks = made
    return Comparison(before_s, after_s, tuple(ComparedTask(*task) for task in tasks), only_before, only_after)


def _opened(one):
    if isinstance(one, Model):
        return one
    path = os.fsdecode(one)
    if not _fettle._is_library_path(path):
        return path
    from .model import compile as opened
    return opened(path)
