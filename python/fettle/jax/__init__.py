"""JAX on Fettle: JAX_PLATFORMS=fettle. See docs/jax.md.

JAX finds `initialize` by the entry point group `jax_plugins`, and calls it before it looks for devices.
"""

import pathlib

__all__ = ["initialize", "library_path"]

_PRIORITY = 500  # beyond that of JAX's own CPU client


def library_path():
    """The plug-in that JAX loads."""
    package = pathlib.Path(__file__).parent.parent
    for folder in (package, package / "lib"):
        if (folder / "fettle_pjrt.so").exists():
            return folder / "fettle_pjrt.so"
    raise ImportError(f"this build of Fettle has no plug-in for JAX: fettle_pjrt.so is missing in {package}")


def initialize():
    """Makes the platform `fettle` known to JAX."""
    from jax._src import xla_bridge

    if "fettle" in xla_bridge._backend_factories:
        return
    xla_bridge.register_plugin("fettle", priority=_PRIORITY, library_path=str(library_path()), options=None)
