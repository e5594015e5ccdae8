"""A sample of JAX's own harnesses: each passes that harnesses_open.txt does not name. `make check-jax` runs them all."""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EVERY = 1 if os.environ.get("FETTLE_JAX_HARNESSES") == "all" else 80

with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "FETTLE_JAX_RESULTS": os.environ.get("FETTLE_JAX_RESULTS", folder)}
    command = [sys.executable, str(HERE / "harnesses.py"), "--every", str(EVERY), "--hold"]
    sys.exit(subprocess.run(command, env=environment).returncode)
