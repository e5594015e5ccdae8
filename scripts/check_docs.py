#!/usr/bin/env python3
"""Checks that the pages hold together.

- Every relative link in a .md file leads to a file or folder, and its #anchor to a heading.
- Every path in backticks that begins with a folder of the project (`src/…`, `docs/…`) exists. Words in capitals (`NAME`), `*` and
  `…` stand for anything and are not looked up.
- docs/architecture.md names every primitive, step of lowering and rule that there is.
- Every room of FETTLE_ROOMS (CMakeLists.txt) has a README.md, and the table in the top README.md links to it.
- Of the pages in docs/, README.md and the READMEs below src/, no more than MOST_LONG_SENTENCES sentences have more than
  MOST_WORDS words, and no more than MOST_LONG_LINES lines more than MOST_COLUMNS columns. Code, tables, headings and the
  pages that are made from headers (docs/schedule) do not count; a name in backticks is a word. With --prose, lists them.
- Of the C++ sources, no line that is a comment has more than MOST_COLUMNS columns: clang-format leaves comments alone.
- Of README.md and the pages in docs/, each block of commands stands below `<!-- run -->`, so that python/tests/test_pages.py
  runs it, or below `<!-- not run: WHY -->`.
Prints each offending line and exits with 1 if there is one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ("benchmarks", "examples", "python", "src", "tests")
SKIPPED = {"build", "demo", ".git", ".ccache"}

MOST_WORDS, MOST_LONG_SENTENCES = 30, 0
MOST_COLUMNS, MOST_LONG_LINES = 120, 0

# Where a sentence ends: not after an abbreviation, nor where the next word begins small.
END = re.compile(r"(?<![ (]e\.g\.)(?<![ (]i\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\betc\.)(?<=[.!?])[\"*)]*\s+(?=[A-Z0-9`*\[(\"'<])")
RAW = re.compile(r'R"([^\s()]*)\(')
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(src|docs|tests|scripts|benchmarks|examples|cmake|include)/[\w./-]*")
COMMAND = re.compile(r"(build/bin/|scripts/)\S+|fettle|make|pip|cmake|ctest|python3?|cc|c\+\+|git|docker")
RUN = re.compile(r"<!-- (run|not run: .+) -->")
PLACEHOLDER = re.compile(r"[*…{}<>]|(?<![a-z.])[A-Z]{2,}(?![a-z.])")


def pages():
    for path in sorted(ROOT.rglob("*.md")):
        if not SKIPPED & set(path.relative_to(ROOT).parts[:-1]):
            yield path


def lines_outside_fences(text):
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for _, line in lines_outside_fences(path.read_text()):
        heading = re.match(r"#+\s+(.*)", line)
        if heading:
            text = re.sub(r"[^\w\s-]", "", heading.group(1).strip().lower())
            found.add(text.replace(" ", "-"))
    return found


def check_link(page, target):
    """What is wrong with a link, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    file, _, anchor = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    if not path.exists():
        return f"no {target}"
    if anchor and (path.suffix != ".md" or anchor not in anchors(path)):
        return f"no heading #{anchor} in {path.relative_to(ROOT)}"
    return None


def check_page(page, problems):
    for number, line in lines_outside_fences(page.read_text()):
        found = [check_link(page, link.group(1)) for link in LINK.finditer(CODE.sub("", line))]
        # A link's text may be code: look again with the code left in.
        found += [check_link(page, link.group(1)) for link in LINK.finditer(line) if "`" in link.group(0)]
        for code in CODE.finditer(line):
            text = code.group(1).strip()
            if PATH.fullmatch(text) and not PLACEHOLDER.search(text) and not (ROOT / text).exists():
                found.append(f"no {text}")
        problems += [f"{page.relative_to(ROOT)}:{number}: {what}" for what in found if what]


def check_rooms(problems):
    rooms = re.search(r"set\(FETTLE_ROOMS\s+([^)]*)\)", (ROOT / "CMakeLists.txt").read_text()).group(1).split()
    listed = (ROOT / "README.md").read_text()
    for room in rooms:
        readme = ROOT / "src" / room / "README.md"
        if not readme.is_file() or len(readme.read_text()) < 80:
            problems.append(f"src/{room}: no README.md of a few lines")
        if f"[`{room}`](src/{room}/README.md)" not in listed:
            problems.append(f"README.md: the table of rooms lacks a link to {room}")


def check_architecture(problems):
    said = set(re.findall(r"\b\w+\b", (ROOT / "docs/architecture.md").read_text()))
    steps = (ROOT / "src/lower/passes/passes.h").read_text()
    names = set(re.findall(r"^(?:[A-Z]\w+|void) (\w+)\(", steps, re.M))
    for folder in ("src/schedule/primitives", "src/tune/space/rules"):
        for path in (ROOT / folder).rglob("*.cpp"):
            names |= set(re.findall(r"^[a-z][\w:<> \n]* (\w+)_def\s*[={]", path.read_text(), re.MULTILINE))
    problems += [f"docs/architecture.md: nothing about {name}" for name in sorted(names - said)]


def unmarked_commands(text):
    """First lines of fenced blocks without a language, or of the shell, whose first word is a command."""
    lines, fenced, before, found = text.splitlines(), False, "", []
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
            first = (lines[number].split() or [""])[0] if number < len(lines) else ""
            if fenced and line in ("```", "```sh") and COMMAND.fullmatch(first) and not RUN.fullmatch(before):
                found.append(number)
        if line.strip():
            before = line.strip()
    return found


def blocks(text):
    """[(first line, prose)]: paragraphs and list items."""
    found, start, lines = [], 0, []
    for number, line in [*lines_outside_fences(text), (0, "")]:
        is_item = re.match(r"\s*([-*]|\d+\.)\s", line)
        is_prose = line.strip() and not re.match(r"\s*(\||#|<|```)", line)
        if lines and (is_item or not is_prose):
            found.append((start, " ".join(lines)))
            lines = []
        if is_prose:
            start = start if lines else number
            lines.append(re.sub(r"^\s*([-*]|\d+\.)\s", "", line).strip())
    return found


def long_comments(text):
    """[(line, columns)] of comments alone on their lines, outside of raw strings."""
    found, end = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if end is None and line.lstrip().startswith("//"):
            if len(line) > MOST_COLUMNS:
                found.append((number, len(line)))
            continue
        while True:  # raw strings that begin or end here
            if end is not None:
                _, closed, line = line.partition(end)
                if not closed:
                    break
                end = None
            raw = RAW.search(line)
            if not raw:
                break
            line, end = line[raw.end():], ")" + raw.group(1) + '"'
    return found


def n_words(sentence):
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", CODE.sub("x", sentence))
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def check_prose(problems, everything):
    sentences, lines = [], []
    for page in pages():
        where = page.relative_to(ROOT)
        if where.parts[0] not in ("docs", "src", "README.md") or where.parts[:2] == ("docs", "schedule"):
            continue
        text = page.read_text()
        for number, block in blocks(text):
            for sentence in END.split(block):
                if (n := n_words(sentence)) > MOST_WORDS:
                    sentences.append(f"{where}:{number}: {n} words: {sentence[:80]}…")
        for number, line in lines_outside_fences(text):
            if len(line) > MOST_COLUMNS and not line.lstrip().startswith("|"):
                lines.append(f"{where}:{number}: {len(line)} columns")
    for path in sorted(p for folder in SOURCES for p in (ROOT / folder).rglob("*") if p.suffix in (".cpp", ".h")):
        lines += [f"{path.relative_to(ROOT)}:{n}: {columns} columns" for n, columns in long_comments(path.read_text())]
    for found, most, what in (
        (sentences, MOST_LONG_SENTENCES, f"sentences have more than {MOST_WORDS} words"),
        (lines, MOST_LONG_LINES, f"lines have more than {MOST_COLUMNS} columns"),
    ):
        if len(found) > most or everything:
            problems += [*found, f"{len(found)} {what}, where {most} may"]


def main():
    problems = []
    check_prose(problems, "--prose" in sys.argv[1:])
    for page in pages():
        check_page(page, problems)
        if page.parent == ROOT / "docs" or page == ROOT / "README.md":
            problems += [f"{page.relative_to(ROOT)}:{number}: commands without <!-- run --> or <!-- not run: WHY -->"
                         for number in unmarked_commands(page.read_text())]  # fmt: skip
    check_rooms(problems)
    check_architecture(problems)
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
