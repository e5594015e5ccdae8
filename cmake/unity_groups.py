#!/usr/bin/env python3
"""Chooses which source files are compiled together (cmake/unity.cmake), and prints it as CMake commands.

Files of a room form groups, without its tests. No two files of a group give the same name to what they keep to
themselves: in an anonymous namespace, as static, as a macro. Nor do files with other using directives share a group.
A group holds LINES lines at most, unless one file has more: a change of one file compiles for seconds.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# All rooms but rt, which is compiled for a machine without an operating system.
ROOMS = re.search(r"set\(FETTLE_ROOMS\s+([^)]*)\)", (ROOT / "CMakeLists.txt").read_text())[1].split()
FOLDERS = tuple(f"src/{room}" for room in ROOMS if room != "rt")
LINES = 1600

TYPE = re.compile(r"\s*(?:struct|class|union|enum(?: class)?|concept|namespace)\s+(?:alignas\(\w+\)\s+)?(\w+)")
DECLARED = re.compile(r"[^({\[=;]*?([A-Za-z_]\w*)\s*(?:[({\[=;]|$)")
ENUMERATORS = re.compile(r"^enum\s+(?!class)[^{]*\{([^}]*)\}", re.MULTILINE)
ARGUMENTS = re.compile(r"<[^<>]*>|\[\[[^\]]*\]\]")
MACRO = re.compile(r"#\s*define\s+(\w+)")
DIRECTIVE = re.compile(r"using namespace [\w:]+;")


def own_names(text):
    """The names that a file keeps to itself. Declarations stand at the start of a line, as clang-format leaves them."""
    names, anonymous = set(), False
    for line in text.splitlines():
        if line.startswith("namespace {"):
            anonymous = True
        elif line.startswith("}  // namespace"):
            anonymous = False
        elif macro := MACRO.match(line):
            names.add(macro[1])
        elif re.match(r"[A-Za-z_\[]", line) and (anonymous or line.startswith("static ")):
            names |= declared(line)
    for listed in ENUMERATORS.findall(text):
        names.update(re.findall(r"\bk[A-Z]\w*", listed))
    return names


def declared(line):
    if line.startswith("using ") and "=" not in line or line.startswith(("TEST", "INSTANTIATE_")):
        return set()
    while (shorter := ARGUMENTS.sub("", line)) != line:
        line = shorter
    line = re.sub(r"^template\s*", "", line)
    found = TYPE.match(line) or DECLARED.match(line)
    return {found[1]} if found else set()


def grouped(files):
    """Lists of files, each compiled together."""
    groups = []
    for file in files:
        text = file.read_text()
        names, lines = own_names(text), text.count("\n")
        directives = frozenset(DIRECTIVE.findall(text))
        for group in groups:
            if group["lines"] + lines <= LINES and group["directives"] == directives and not group["names"] & names:
                break
        else:
            group = {"lines": 0, "directives": directives, "names": set(), "files": []}
            groups.append(group)
        group["lines"] += lines
        group["names"] |= names
        group["files"].append(file)
    return [group["files"] for group in groups]


def main():
    for name in FOLDERS:
        folder = ROOT / name
        sources = sorted(source for source in folder.rglob("*.cpp") if not source.name.endswith("_test.cpp"))
        for number, group in enumerate(grouped(sources)):
            for file in group:
                print(f'set("fettle_group_{file.relative_to(ROOT)}" {number})')


if __name__ == "__main__":
    sys.exit(main())
