"""JAX on Fettle: JAX_PLATFORMS=fettle. See docs/jax.md.

JAX finds `initialize` by the entry point group `jax_plugins`, and calls it before it looks for devices.
"""

import os
import pathlib

__all__ = ["initialize", "library_path"]

_PRIORITY = -100  # below that of JAX's own clients: only who asks for it gets it


def _options():
    """FETTLE_JAX_THREADS: of compiled programs; FETTLE_JAX_DATABASE: of tuned schedules."""
    options = {}
    if threads := os.environ.get("FETTLE_JAX_THREADS"):
        options["threads"] = int(threads)
    if database := os.environ.get("FETTLE_JAX_DATABASE"):
        options["database"] = database
    return options


def library_path():
    """The plug-in that JAX loads."""
    package = pathlib.Path(__file__).parent.parent
    for folder in (package, package / "lib"):
        if (folder / "fettle_pjrt.so").exists():
            return folder / "fettle_pjrt.so"
    raise ImportError(f"this build of Fettle has no plug-in for JAX: fettle_pjrt.so is missing in {package}")


class _Known:
    """A client of a platform whose programs JAX knows to be kept."""

    platform = "cpu"
    supports_executable_serialization = True


def _join():
    """Puts the platform in lists of JAX's own: what donates, what is kept in the cache, what is no experiment."""
    from jax._src import compilation_cache, xla_bridge
    from jax._src.interpreters import mlir

    xla_bridge._nonexperimental_plugins.add("fettle")
    mlir._platforms_with_donation.append("fettle")
    asked = compilation_cache.is_cache_used
    compilation_cache.is_cache_used = lambda client: asked(_Known if client.platform == "fettle" else client)


def initialize():
    """Makes the platform `fettle` known to JAX."""
    from jax._src import xla_bridge

    if "fettle" in xla_bridge._backend_factories:
        return
    from . import callbacks, host_calls, linear_algebra, lowerings

    path = library_path()
    host_calls.connect(path)
    _join()
    xla_bridge.register_plugin("fettle", priority=_PRIORITY, library_path=str(path), options=_options)
    for module in (lowerings, linear_algebra, callbacks):  # of a platform that JAX knows by now
        module.register_lowerings()
