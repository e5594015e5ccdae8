#!/usr/bin/env python3
"""Checks that the rooms of src/ include each other as the architecture says.

The order is the list FETTLE_ROOMS in CMakeLists.txt: a room includes itself and the rooms before it, less what
FORBIDDEN takes away. `rt` includes no other room, and of the standard library only what a freestanding
implementation has. Also that no two headers give one name to two types of a namespace, which the linker would mix up;
and that what links a wheel's libfettle.so reads no header of protobuf's, which the library keeps to itself.
Prints each offending line and exits with 1 if there is one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What the order allows and the architecture does not: room -> rooms it must not include.
FORBIDDEN = {
    "graph": {"measure", "tune", "generations"},
    "frontend": {"measure", "tune", "generations"},
}
# Rooms that see these and nothing else.
ONLY = {
    "base": set(),
    "rt": set(),
    "runtime": {"base", "rt"},
}
# Headers that a freestanding C++ implementation provides; <*.h> of the C library is allowed too.
FREESTANDING = {
    "atomic", "bit", "cfloat", "climits", "compare", "concepts", "cstdarg", "cstddef", "cstdint", "cstdlib",
    "initializer_list", "limits", "new", "numbers", "type_traits", "utility", "version",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rooms_in_order():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"set\(FETTLE_ROOMS\s+([^)]*)\)", text).group(1).split()


def check_file(path, rooms, problems):
    relative = path.relative_to(ROOT / "src")
    room = relative.parts[0]
    is_test = path.stem.endswith("_test") or path.stem == "testing"
    allowed = ONLY.get(room)
    if allowed is None:
        allowed = set(rooms[: rooms.index(room)]) - FORBIDDEN.get(room, set())
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, name = match.groups()
        where = f"src/{relative}:{number}"
        if kind == "<":
            if room == "rt" and not is_test and not name.endswith(".h") and name not in FREESTANDING:
                problems.append(f"{where}: rt is freestanding and may not include <{name}>")
            continue
        if not (ROOT / "src" / name).exists():
            if (path.parent / name).exists():
                problems.append(f'{where}: write "{(path.parent / name).relative_to(ROOT / "src")}", not "{name}"')
            continue  # public headers and generated ones
        other = name.split("/")[0]
        if other != room and other not in allowed:
            problems.append(f"{where}: {room} may not include {other} ({name})")


NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
TYPE = re.compile(r"^(?:struct|class|enum|enum class) (\w+)(?: final)?(?: : [^;{]*)? \{", re.M)


def check_types(problems):
    found = {}
    for path in sorted((ROOT / "src").rglob("*.h")):
        text = path.read_text(errors="replace")
        namespace = NAMESPACE.search(text)
        for name in TYPE.findall(text) if namespace else ():
            found.setdefault(f"{namespace[1]}::{name}", []).append(str(path.relative_to(ROOT)))
    for name, paths in found.items():
        if len(paths) > 1:
            problems.append(f"{name} is a type in each of {', '.join(paths)}")


# What a wheel links with libfettle.so alone: cmake/core.cmake.
PROGRAMS = ("python/src/*.cpp", "src/cli/main.cpp", "src/measure/worker/*.cpp")


def check_programs(problems):
    for program in sorted(path for pattern in PROGRAMS for path in ROOT.glob(pattern)):
        came_from, todo = {program: None}, [program]
        while todo:
            path = todo.pop()
            for match in filter(None, map(INCLUDE.match, path.read_text(errors="replace").splitlines())):
                if match[2].endswith(".pb.h"):
                    chain = [match[2]]
                    while path:
                        chain.insert(0, str(path.relative_to(ROOT)))
                        path = came_from[path]
                    problems.append(f"a program may not read protobuf's headers: {' > '.join(chain)}")
                    return
                for found in (ROOT / "src" / match[2], ROOT / "python/src" / match[2]):
                    if match[1] == '"' and found.is_file() and found not in came_from:
                        came_from[found] = path
                        todo.append(found)


def main():
    rooms = rooms_in_order()
    problems = []
    count = 0
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".h", ".cpp", ".inc", ".c"):
            continue
        room = path.relative_to(ROOT / "src").parts[0]
        if room not in rooms:
            problems.append(f"src/{room}: not in FETTLE_ROOMS of CMakeLists.txt")
            continue
        count += 1
        check_file(path, rooms, problems)
    check_types(problems)
    check_programs(problems)
    for problem in problems:
        print(problem)
    print(f"{count} files, {len(problems)} forbidden includes or names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
