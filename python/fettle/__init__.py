"""Fettle: a deep-learning compiler whose programs tune themselves. See docs/python.md."""

import os as _os
import pathlib as _pathlib

from . import _fettle, host_calls, sketch, te
from ._fettle import (Config, ConfigSpace, Database, Func, MeasureCallback, MeasureResult, Target, TuneReport,
                      add_to_database, builtin_template, choose_layouts, cost_model, default_schedule, explain_trace,
                      feature_names, features, lower, parse, parse_loops, remove_build_artefact, simplify_trace, space,
                      templates_for, update_cost_model)
from .comparison import Comparison, compare
from .comprehensions import Comprehension, Comprehensions, comprehension
from .errors import Error
from .graph import Graph, Value
from .kernel import Kernel, aligned, build, empty
from .model import Context, Model, compile
from .openmp import OpenMpTeam
from .operator import operator
from .quantization import quantize
from .schedule import Schedule
from .tune import (CostModel, LocalRunner, RemoteRunner, Runner, SearchStrategy, SketchRule, Sketches, Template, Tuning,
                   template, tune)

spaces, strategies = tuple(_fettle.space_names()), tuple(_fettle.strategy_names())
graph_passes = tuple(_fettle._graph_passes())
cost_models, generations = tuple(_fettle.cost_model_names()), tuple(_fettle.generation_names())

# The worker that measures candidates: beside the package, or where FETTLE_WORKER says.
_worker = _os.environ.get("FETTLE_WORKER") or str(_pathlib.Path(__file__).parent / "bin" / "fettle-worker")
_fettle._set_worker(_worker if _os.path.exists(_worker) else "")
