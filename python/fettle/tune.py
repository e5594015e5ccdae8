"""Tuning: templates, sketches, search strategies, cost models and runners, built in or written in Python.

A template      fettle.Template(name, body), or @fettle.template: body(t) edits t.schedule and defines knobs
A sketch rule   an object with name, applies(state) and apply(state) → next states
A space         an object with generate(func, target, threads, seed, decisions) → Schedule
A strategy      a class of (bench, seed) with propose(n) → candidates and observe([(candidate, seconds)])
A cost model    an object with update(rows, seconds) and predict(rows) → seconds; a row is (features, predicted seconds)
A runner        an object with set_workload(func) and measure(traces) → seconds or MeasureResult for each

Where one of them raises fettle.Error, that candidate or point is refused and the search goes on; any other exception ends
the tuning and reaches its caller.
"""

import collections
import math
import os
import sys

from . import _fettle
from .errors import Error

Template = _fettle.Template
LocalRunner = _fettle.local_runner
RemoteRunner = _fettle.remote_runner
Sketches = _fettle.sketches


def template(body):
    """Makes a Template of a function, under its name."""
    return Template(body.__name__, body)


class SketchRule:
    """A rule of derivation. `applies` says whether it is for the state's working node; `apply` gives the states after it:
    state.next(schedule, nodes, working), where a smaller `working` means that the node is done."""

    name = "rule"

    def applies(self, state):
        """Whether the rule is for the state's working node."""
        return True

    def apply(self, state):
        """The states that come after it."""
        return [state.next()]


class SearchStrategy:
    """Decides which candidates are measured next. `bench.make(decisions, key)` makes candidates, `bench.predict` ranks them."""

    def __init__(self, bench, seed):
        self.bench = bench
        self.seed = seed

    def propose(self, n):
        """At most n candidates to be measured next; none: the search is over."""
        raise NotImplementedError

    def observe(self, results):
        """Takes what came of the last proposals."""
        pass


class CostModel:
    """Ranks candidates. `update` takes what was measured (math.inf: it failed), `predict` gives seconds, for their order."""

    def update(self, rows, seconds):
        """Takes what was measured: rows of (features, predicted seconds), and the seconds of each."""
        pass

    def predict(self, rows):
        """A number for each row: the less, the sooner it is measured."""
        return [predicted for _features, predicted in rows]


class Runner:
    """Times candidates."""

    def set_workload(self, func):
        """What the next traces are schedules of."""
        self.func = func

    def measure(self, traces):
        """What came of each: its seconds, or how it failed."""
        raise NotImplementedError


def _report_html(self):
    from .display import table
    rows = [("default", _time_text(self.default_s), self.default_trace), ("best", _time_text(self.best_s), self.best_trace)]
    return table(f"{self.trials} trials, {self.failed} failed", ("", "time", "schedule"), rows)


_fettle.TuneReport._repr_html_ = _report_html

_UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(time):
    """Of 90, "90s", "5m", "1h"."""
    if time is None:
        return math.inf
    if isinstance(time, str):
        try:
            return float(time[:-1]) * _UNITS[time[-1:]] if time[-1:] in _UNITS else float(time)
        except ValueError:
            raise Error("E709", f"{time!r} is no duration such as \"5m\"") from None
    return float(time)


Event = collections.namedtuple("Event", "task task_trials task_best_s trials failed untuned_s best_s elapsed_s left_s")
Event.__doc__ = """What has happened: the task that is worked on, how often it was tried, and its best seconds; then of all tasks
together the trials, those that failed, the model's seconds untuned and with the best (tasks that were measured), the
seconds since the beginning, and those that are left (-1: no limit)."""

Task = collections.namedtuple("Task", "label trials untuned_s best_s")


class Tuning:
    """A model that is being tuned. It goes on by itself; records are kept as they come.

    Iterating gives an Event for each thing that happens, until it is over. `result` shows progress until then. Ctrl-C in
    either ends the search; all that was measured is kept.
    """

    def __init__(self, base, database):
        self._base = base
        self.database = database

    def __iter__(self):
        try:
            while not self._base._is_over():
                event = self._base._next(0.1)
                if event is not None:
                    yield Event(*event)
        except KeyboardInterrupt:
            self.stop()
            while not self._base._is_over():
                self._base._next(0.1)

    def stop(self):
        """Ends the search soon."""
        self._base._stop()

    def result(self, progress=True):
        """Waits until it is over. An object with trials, tasks, untuned_ms and tuned_ms of a run of the model, seconds,
        whether it was interrupted, and the database's path."""
        shown = _Progress(progress)
        for event in self:
            shown.show(event)
        shown.end()
        return ModelReport(database=self.database, **self._base._result())

    def __repr__(self):
        return f"<fettle.Tuning, {'over' if self._base._is_over() else 'under way'}, records in {self.database}>"


def _time_text(seconds):
    if seconds <= 0:
        return "-"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def _event_text(event):
    left = f", {event.left_s:.0f} s left" if event.left_s >= 0 else ""
    return (f"{event.elapsed_s:.0f} s{left}: {event.trials} trials, {event.failed} failed; "
            f"{_time_text(event.best_s)}, untuned {_time_text(event.untuned_s)}; {event.task}")  # fmt: skip


class _Progress:
    """One line that changes: in a notebook's cell, or on a terminal. Elsewhere nothing is shown."""

    def __init__(self, wanted):
        self._handle = self._width = None
        if not wanted:
            return
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is not None and hasattr(shell, "kernel"):
            from IPython.display import display
            self._handle = display({"text/plain": ""}, raw=True, display_id=True)
        elif sys.stderr is not None and sys.stderr.isatty():
            self._width = os.get_terminal_size(sys.stderr.fileno()).columns - 1

    def show(self, event):
        text = _event_text(event)
        if self._handle is not None:
            self._handle.update({"text/plain": text}, raw=True)
        elif self._width:
            print(f"\r{text[: self._width]:<{self._width}}", end="", file=sys.stderr, flush=True)

    def end(self):
        if self._width:
            print(file=sys.stderr)


class ModelReport(collections.namedtuple(
    "ModelReport", "database tasks trials measured seconds interrupted streams untuned_ms tuned_ms kept_untuned other_schedules")):  # fmt: skip
    """What tuning a model came to. The times are of one run, with those of the other streams at once."""

    __slots__ = ()

    def __new__(cls, *, tasks, **fields):
        return super().__new__(cls, tasks=[Task(*task) for task in tasks], **fields)

    def __repr__(self):
        return f"<ModelReport {self.trials} trials, {self._latency()}>"

    @property
    def runs_per_second(self):
        """Of all streams together, tuned; 0: not timed."""
        return self.streams * 1e3 / self.tuned_ms if self.tuned_ms else 0

    def _latency(self):
        text = self._of_one_run()
        return f"{self.streams} streams, {text}" if self.streams > 1 else text

    def _of_one_run(self):
        if self.untuned_ms == 0:
            return "interrupted" if self.interrupted else "the whole model was not timed"
        if self.kept_untuned:
            return f"{self.untuned_ms:.4g} ms, the defaults are kept"
        if self.other_schedules == 0:
            return f"{self.untuned_ms:.4g} ms, nothing is faster than the defaults"
        return f"{self.tuned_ms:.4g} ms, untuned {self.untuned_ms:.4g} ms"

    def _repr_html_(self):
        from .display import table
        rows = [(task.label, task.trials, _time_text(task.untuned_s), _time_text(task.best_s))
                for task in self.tasks]  # fmt: skip
        title = f"{self.trials} trials in {self.seconds:.0f} s: {self._latency()}"
        return table(title, ("task", "trials", "untuned", "best"), rows)


def _path(database):
    return os.fsdecode(database) if isinstance(database, (str, bytes, os.PathLike)) else None


def _tune_model(model, threads, streams, time, trials, database, seed, max_error, shapes, sizes, vendor, function):
    from .model import _source
    path = _path(database)
    if not path:
        raise Error("E709", "database is missing: the path where records are kept, for fettle.compile(database=…)")
    time = 300 if time is None and trials is None else time
    trials = (1 << 62) if trials is None else trials
    return Tuning(_fettle._tune_model(_source(model, None, function), dict(shapes or {}), dict(sizes or {}), path, threads, streams,
                                      _seconds(time), trials, seed, float(max_error), list(vendor)), path)  # fmt: skip


def tune(program, target=None, threads=None, generation=None, space=None, strategy=None, cost_model=None, runner=None,
         database=None, trials=None, time=None, seed=0, batch=None, check_all=False, max_error=math.inf,
         callbacks=(), progress=None, streams=0, shapes=None, sizes=None, vendor=(), function=""):  # fmt: skip
    """Searches for the fastest schedules of a program or a model.

    program     a Func: returns a TuneReport when it is over. A model, as fettle.compile takes it: returns a Tuning at once,
                which goes on by itself and is iterated over; `fettle.compile(model, database=…)` uses what it found
    threads     None: 1 for a program, for a model as many as this process may use
    database    a Database, a path, or None: in memory. Of a model: a path
    trials      measurements, known ones included. None: 64 of a program, no limit of a model
    time        seconds, or "90s", "5m", "1h": all in all. None: no limit, but 5 minutes of a model without trials
    max_error   of what an algorithm adds to the error, in units of epsilon, at most: 100 leaves Winograd's out

    Of a model:
    streams         calls at once that it is tuned for, each on `threads` of its own (None: its share of them); 0: one.
                    fettle.compile is told as well. A program is tuned for fettle.Target(streams=…)
    shapes, sizes, function   as fettle.compile takes them
    vendor          libraries whose kernels are candidates, too: ("onednn",); fettle.compile is told as well

    Of a program:
    generation  "autotvm", "ansor", "metaschedule" or "tensor_comprehensions": its own space, strategy, cost model
                and batches
    space       None ("rules"), one of fettle.spaces, a Template, or any space
    strategy    None (evolution), one of fettle.strategies, or a class
    cost_model  None (boosted trees), a name ("trees_rank", "autotvm_curve", …: see fettle.cost_model), or any model
    runner      None: processes on this machine
    batch       candidates measured before the cost model learns; None: 8, or the generation's
    callbacks   called with each record, once it is kept: functions, or fettle.add_to_database and its like
    progress    called with (trials, best seconds, elapsed seconds)
    """
    if not isinstance(program, _fettle.Func):
        given = {"target": target, "generation": generation, "space": space, "strategy": strategy, "runner": runner,
                 "cost_model": cost_model, "batch": batch, "callbacks": callbacks or None, "progress": progress}  # fmt: skip
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong:
            raise Error("E709", f"{wrong} is for programs, and a model is tuned")
        return _tune_model(program, threads or 0, streams, time, trials, database, seed, max_error, shapes, sizes, vendor, function)
    if streams or shapes or sizes or vendor or function:
        raise Error("E709", "streams, shapes, sizes, vendor and function are for models, and a program is tuned")
    threads = 1 if threads is None else threads
    if runner is None:
        runner = LocalRunner(target, threads)
    if database is None or _path(database) is not None:
        database = _fettle.Database(_path(database) or "")
    return _fettle._tune(program, target, threads, generation or "", space, strategy, cost_model, runner, database,
                         64 if trials is None else trials, _seconds(time), seed, -1 if batch is None else batch,
                         check_all, float(max_error), list(callbacks), progress)  # fmt: skip
