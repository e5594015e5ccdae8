"""Threads that another library of the process has."""

import ctypes
import os

from . import _fettle
from .errors import Error


class OpenMpTeam(_fettle.TeamBase):
    """The threads of an OpenMP library that the process has loaded: `fettle.compile(…, team=…)` runs models on them.

    library  a ctypes.CDLL or a path: the OpenMP library (GCC's, LLVM's or Intel's), or one that is linked with it
    size     the name of the library's function that says how many threads there are

    OpenMP's threads wait for work spinning, milliseconds long. A model with threads of its own competes with them for
    the processor where calls take turns with that library's.
    """

    def __init__(self, library, size="omp_get_max_threads"):
        if isinstance(library, (str, os.PathLike)):
            library = ctypes.CDLL(os.fsdecode(library))
        addresses = []
        for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", size):
            try:
                addresses.append(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
            except AttributeError:
                raise Error("E709", f"{library._name} has no function {name}: it is not linked with OpenMP") from None
        super().__init__(*addresses)

    def __repr__(self):
        return f"<fettle.OpenMpTeam of {self.size} threads>"
