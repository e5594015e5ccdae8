#!/usr/bin/env python3
"""Writes what an installer would write of the package, so that entry points are found in a build, too.

python_metadata.py PYPROJECT VERSION FOLDER: makes FOLDER/fettle-VERSION.dist-info."""

import pathlib
import sys
import tomllib


def main(pyproject, version, folder):
    project = tomllib.loads(pathlib.Path(pyproject).read_text())["project"]
    made = pathlib.Path(folder) / f"{project['name']}-{version}.dist-info"
    made.mkdir(parents=True, exist_ok=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    lines = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()), ""]
    (made / "entry_points.txt").write_text("\n".join(lines))


main(*sys.argv[1:])
