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


class Sketches:
    """The sketches of a program, as a space: which of them is drawn (under an address that comes before those of the sizes,
    so that a search by grid walks through one after the other), and then its sizes."""

    def __init__(self, **options):
        self.options = options
        self._known = {}

    def generate(self, func, target, threads, seed, decisions):
        text = str(func)
        if text not in self._known:
            self._known[text] = _fettle.derive_sketches(func, **self.options)[0]
        sketches = self._known[text]
        chosen = _fettle.Schedule(func, target, seed, decisions)
        which = chosen.value(chosen.sample_categorical(list(range(len(sketches))), [1.0] * len(sketches), name="_sketch"))
        point = sketches[which].instantiate(seed, decisions)
        chosen.replay(point.trace)
        return chosen


def tune(func, target=None, threads=1, space="rules", strategy=None, cost_model=None, runner=None, database=None,
         trials=64, seconds=math.inf, seed=0, batch=8, check_all=False, max_error=math.inf,
         progress=None):
    """Searches for the fastest schedule of a program; returns a TuneReport.

    space       "rules", "template", a Template, or any space
    strategy    None (evolution), one of fettle.strategies, or a class
    cost_model  None (boosted trees), a name ("trees_rank", "autotvm_curve", …: see fettle.cost_model), or any model
    runner      None: processes on this machine
    database    a Database, a path, or None: in memory
    trials      measurements, known ones included; seconds: all in all
    max_error   of what an algorithm adds to the error, in units of epsilon, at most: 100 leaves Winograd's out
    progress    called with (trials, best seconds, elapsed seconds)
    """
    if runner is None:
        runner = LocalRunner(target, threads)
    if database is None or isinstance(database, (str, bytes)) or hasattr(database, "__fspath__"):
        database = _fettle.Database("" if database is None else str(database))
    return _fettle._tune(func, target, threads, space, strategy, cost_model, runner, database, trials, float(seconds), seed,
                         batch, check_all, float(max_error), progress)
