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

import math

from . import _fettle

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
        return True

    def apply(self, state):
        return [state.next()]


class SearchStrategy:
    """Decides which candidates are measured next. `bench.make(decisions, key)` makes candidates, `bench.predict` ranks them."""

    def __init__(self, bench, seed):
        self.bench = bench
        self.seed = seed

    def propose(self, n):
        raise NotImplementedError

    def observe(self, results):
        pass


class CostModel:
    """Ranks candidates. `update` takes what was measured (math.inf: it failed), `predict` gives seconds, for their order."""

    def update(self, rows, seconds):
        pass

    def predict(self, rows):
        return [predicted for _features, predicted in rows]


class Runner:
    """Times candidates."""

    def set_workload(self, func):
        self.func = func

    def measure(self, traces):
        raise NotImplementedError


def tune(func, target=None, threads=1, generation=None, space=None, strategy=None, cost_model=None, runner=None,
         database=None, trials=64, seconds=math.inf, seed=0, batch=None, check_all=False, max_error=math.inf,
         callbacks=(), progress=None):
    """Searches for the fastest schedule of a program; returns a TuneReport.

    generation  "autotvm", "ansor" or "metaschedule": its own space, strategy, cost model and batches
    space       None ("rules"), one of fettle.spaces, a Template, or any space
    strategy    None (evolution), one of fettle.strategies, or a class
    cost_model  None (boosted trees), a name ("trees_rank", "autotvm_curve", …: see fettle.cost_model), or any model
    runner      None: processes on this machine
    database    a Database, a path, or None: in memory
    trials      measurements, known ones included; seconds: all in all
    batch       candidates measured before the cost model learns; None: 8, or the generation's
    max_error   of what an algorithm adds to the error, in units of epsilon, at most: 100 leaves Winograd's out
    callbacks   called with each record, once it is kept: functions, or fettle.add_to_database and its like
    progress    called with (trials, best seconds, elapsed seconds)
    """
    if runner is None:
        runner = LocalRunner(target, threads)
    if database is None or isinstance(database, (str, bytes)) or hasattr(database, "__fspath__"):
        database = _fettle.Database("" if database is None else str(database))
    return _fettle._tune(func, target, threads, generation or "", space, strategy, cost_model, runner, database, trials,
                         float(seconds), seed, -1 if batch is None else batch, check_all, float(max_error), list(callbacks), progress)
