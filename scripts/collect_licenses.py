#!/usr/bin/env python3
"""Copies the licences of what a wheel holds beside Fettle itself.

usage: collect_licenses.py FOLDER [--distribution NAME]... [--licence NAME=TEXT]... FILE...
FILEs are archives, shared libraries and headers of Debian packages. FOLDER gets the copyright file of each one's package,
of the packages of libraries that those load, and of each Python distribution, with the common licences that they refer to.
TEXTs are the licences of third_party.
"""

import argparse
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

# What every Linux has that wheels of this kind may be installed on: none of it is in the wheel.
SYSTEM = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}
COMMON = pathlib.Path("/usr/share/common-licenses")


def loaded_by(libraries):
    """The files that the dynamic linker would load for shared libraries."""
    listing = subprocess.run(["ldd", *libraries], check=True, capture_output=True, text=True).stdout
    return re.findall(r"=> (/\S+)", listing)


def packages_of(files):
    """The Debian packages that files belong to. /lib and /usr/lib are one folder, which packages name either way.
    dpkg reads the lists of all packages at each call, so it is asked once."""
    names = {}
    for file in files:
        path = os.path.realpath(file)
        names[path] = names[path.removeprefix("/usr")] = file
    listing = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True).stdout
    packages = {}
    for package, path in re.findall(r"^([a-z0-9.+-]+)(?::\w+)?(?:, [^:]+(?::\w+)?)*: (/.*)$", listing, re.MULTILINE):
        packages.setdefault(names[path], package)
    if missing := set(names.values()) - set(packages):
        sys.exit(f"collect_licenses: of no Debian package, so with no licence that is known: {', '.join(sorted(missing))}")
    return set(packages.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--distribution", action="append", default=[])
    parser.add_argument("--licence", action="append", default=[])
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    files = set(given.files)
    if libraries := [file for file in given.files if ".so" in pathlib.Path(file).name]:
        files.update(loaded_by(libraries))
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    common = set()
    for package in sorted(packages_of(files) - SYSTEM):
        text = pathlib.Path("/usr/share/doc", package, "copyright").read_text(errors="replace")
        (given.folder / f"{package}.txt").write_text(text)
        common.update(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text))
    for name in sorted(common):
        shutil.copyfile(COMMON / name, given.folder / f"common-{name}.txt")
    for name, text in (licence.split("=", 1) for licence in given.licence):
        shutil.copyfile(text, given.folder / f"{name}.txt")
    for name in given.distribution:
        texts = [file.locate().read_text() for file in importlib.metadata.files(name)
                 if re.match(r"(LICEN[CS]E|COPYING)", file.name, re.IGNORECASE)]
        if not texts:
            sys.exit(f"collect_licenses: the Python package {name} names no licence")
        (given.folder / f"{name}.txt").write_text("\n".join(texts))


main()
