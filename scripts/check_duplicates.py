#!/usr/bin/env python3
"""Checks that no two places of src/ share six or more lines.

Blank lines, comments, includes and lone punctuation do not count; neither does white space. Six lines count where they
hold at least 150 characters together. scripts/allowed_duplicates.txt lists the pairs of files that may share lines, and why:

    src/a.cpp ~ src/b.cpp: 14: reason

14 is how many lines they may share, all places together. Prints each pair that shares more, and each line of the list that
is of no use any more, and exits with 1 if there is one. With --list, prints all pairs.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = "scripts/allowed_duplicates.txt"
RUN = 6
CHARACTERS = 150

ENTRY = re.compile(r"(\S+) ~ (\S+): (\d+): (.+)")
SKIPPED = re.compile(r"#\s*(include|pragma)\b|//|(namespace\b[^;]*\{|[\W_]*|public:|private:|protected:)$")


def lines_that_count(text):
    """[(number, line)], with white space removed."""
    found = []
    comment = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("/*"):
            comment = True
        if comment:
            comment = "*/" not in line
            continue
        line = line.split(" // ")[0]
        if not SKIPPED.match(line):
            found.append((number, re.sub(r"\s+", "", line)))
    return found


def shared_places(files):
    """{(file, file): [(first line, first line, set of lines of the one, how many lines)]}, longest runs."""
    windows = collections.defaultdict(list)
    for name, lines in files.items():
        for i in range(len(lines) - RUN + 1):
            run = tuple(line for _, line in lines[i : i + RUN])
            if sum(map(len, run)) >= CHARACTERS:
                windows[run].append((name, i))
    starts = collections.defaultdict(set)
    for places in windows.values():
        for x, (a, i) in enumerate(places):
            for b, j in places[x + 1 :]:
                if a != b or abs(i - j) >= RUN:
                    starts[a, b].add((i, j))
    shared = {}
    for (a, b), pairs in starts.items():
        runs = []
        for i, j in sorted(pairs):
            if (i - 1, j - 1) in pairs:
                continue
            n = RUN
            while (i + n - RUN + 1, j + n - RUN + 1) in pairs:
                n += 1
            runs.append((i, j, n))
        shared[a, b] = runs
    return shared


def read_allowed(root, problems):
    allowed = {}
    for number, line in enumerate((root / ALLOWED).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        entry = ENTRY.fullmatch(line)
        if entry:
            allowed[entry[1], entry[2]] = int(entry[3])
        else:
            problems.append(f"{ALLOWED}:{number}: not of the form 'src/a.cpp ~ src/b.cpp: lines: reason'")
    return allowed


def check(root, everything=False):
    """What is wrong, or with `everything` all that is shared; how many files were read."""
    files = {}
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in (".h", ".cpp", ".inc", ".c"):
            files[str(path.relative_to(root))] = lines_that_count(path.read_text(errors="replace"))
    problems = []
    allowed = {} if everything else read_allowed(root, problems)
    for (a, b), runs in sorted(shared_places(files).items()):
        n_lines = len({i + k for i, _, n in runs for k in range(n)})
        if n_lines <= allowed.pop((a, b), 0):
            continue
        problems.append(f"{a} ~ {b}: {n_lines}: shared lines")
        for i, j, n in runs:
            first, last = files[a][i][0], files[a][i + n - 1][0]
            other = files[b][j][0], files[b][j + n - 1][0]
            problems.append(f"    {a}:{first}-{last} ~ {b}:{other[0]}-{other[1]}")
    problems += [f"{ALLOWED}: {a} ~ {b}: they share nothing any more" for a, b in sorted(allowed)]
    return problems, len(files)


def main():
    everything = "--list" in sys.argv[1:]
    problems, n_files = check(ROOT, everything)
    print("\n".join([*problems, f"{n_files} files"]))
    return 1 if problems and not everything else 0


if __name__ == "__main__":
    sys.exit(main())
