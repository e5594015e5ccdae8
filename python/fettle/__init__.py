"""Fettle: a deep-learning compiler whose programs tune themselves. See docs/python.md."""

import os as _os
import pathlib as _pathlib

from . import te
from ._fettle import Func, Target, explain_trace, parse, parse_loops, simplify_trace
from .errors import Error
from .kernel import Kernel, aligned, build, empty
from .schedule import Schedule
