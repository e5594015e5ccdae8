#!/usr/bin/env python3
"""Writes docs/schedule/: one page for each primitive, from its header in src/schedule/primitives/, and the list of them.

A header's comment (the `///` lines before `struct …Args`) is the page. Lines that are indented in it are code; `name: …` with the
name of an argument describes that argument; what follows `Errors:` is the list of errors, separated by `·`. The groups of the list
are those of the table of primitives in docs/architecture.md.

  primitive_pages.py            writes the pages
  primitive_pages.py --check    changes nothing; prints what differs and exits with 1 if anything does
  primitive_pages.py --python F writes the same for the Python package: what each primitive takes, returns and does
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "src/schedule/primitives"
PAGES = ROOT / "docs/schedule"
NOTE = "<!-- Written by scripts/primitive_pages.py from {}; edit that, then run `make docs`. -->\n"

TYPES = {
    "LoopRef": "loop", "BlockRef": "block", "ValueRef": "integer", "IntRef": "integer", "int64_t": "integer", "int": "integer",
    "double": "number", "bool": "true or false", "std::string": "text", "Tail": "tail", "IndexMap": "index map",
    "Attribute": "integer, number, text or list of integers", "TilePosition": "tile position", "IterKind": "kind of iterator",
    "StepRef": "loop or block", "NamedValues": "list of integers or names",
}


class HeaderError(Exception):
    pass


def type_name(text):
    inner = re.fullmatch(r"std::vector<(.*)>", text)
    if inner:
        return "list of " + plural(type_name(inner.group(1)))
    if text not in TYPES:
        raise HeaderError(f"no word for the type {text}")
    return TYPES[text]


def plural(name):
    first, of, rest = name.partition(" of ")
    return first + "s" + of + rest


def default_text(text):
    if text is None:
        return ""
    text = text.strip().rstrip(";").strip()
    enum = re.fullmatch(r"\w+::k(\w+)", text)
    if enum:
        return '"' + re.sub(r"(?<!^)([A-Z])", r"_\1", enum.group(1)).lower() + '"'
    text = re.sub(r"^int64_t\{(.*)\}$", r"\1", text)
    return {"kScopeGlobal": '"global"', "kScopeRegister": '"register"', "{}": ""}.get(text, text)


class Header:
    """What a primitive's header says."""

    def __init__(self, path, meanings):
        self.name = path.stem
        text = path.read_text()
        found = re.search(r"((?:^///.*\n)+)struct (\w+) \{\n(.*?)^\};", text, re.M | re.S)
        if not found:
            raise HeaderError("no comment before a struct")
        self.comment = [line[3:].removeprefix(" ") for line in found.group(1).splitlines()]
        body = found.group(3).split("static constexpr")[0]
        body = re.sub(r"//.*", "", body)
        self.args = [(name, type_name(kind), default_text(default))
                     for kind, name, default in re.findall(r"^\s*([\w:<>]+) (\w+)(?:\s*=\s*([^;]+)|\{\})?;", body, re.M)]
        listed = re.findall(r'field\("(\w+)"', found.group(3))
        if [arg[0] for arg in self.args] != listed:
            raise HeaderError(f"fields {listed}, members {[arg[0] for arg in self.args]}")
        result = re.search(r"^Result<(.*?)> " + self.name + r"\(Schedule& s", text, re.M)
        if not result:
            raise HeaderError("no function of the primitive's name")
        self.result = type_name(result.group(1)) if result.group(1) else "nothing"
        self.meanings = meanings
        self.parse()

    def parse(self):
        """Splits the comment into parts: ("text", …), ("code", lines), ("arg", name, …)."""
        parts, errors = [], None
        names = {arg[0] for arg in self.args}
        for line in self.comment:
            if errors is not None:
                errors.append(line)
                continue
            at = re.search(r"(?:^|(?<=[.)] )|(?<=[.)]  ))Errors:", line)
            if at:
                line, rest = line[: at.start()].rstrip(), line[at.end():]
                errors = [rest]
                if not line:
                    continue
            given = re.match(r"((?:\w+, )*\w+):\s+(.*)", line)
            if given and set(given.group(1).split(", ")) <= names:
                parts.append(["arg", given.group(1), given.group(2)])
            elif not line.strip():
                parts.append(["end"])
            elif line.startswith("  ") and parts and parts[-1][0] == "arg" and not re.search(r"→", line):
                parts[-1].append(line.strip())
            elif line.startswith("  ") or line.strip().startswith("→"):
                if parts and parts[-1][0] == "code":
                    parts[-1].append(line)
                else:
                    parts.append(["code", line])
            elif parts and parts[-1][0] == "text":
                parts[-1].append(line)
            else:
                parts.append(["text", line])
        self.parts = [part for part in parts if part[0] != "end"]
        self.errors = self.parse_errors(" ".join(errors or []))

    def parse_errors(self, text):
        found = []
        for match in re.finditer(r"(E\d{3})\b(.*?)(?=E\d{3}\b|$)", text):
            said = re.sub(r"\s+", " ", match.group(2)).strip(" ·;,:")
            found.append((match.group(1), said))
        for code, _ in found:
            if code not in self.meanings:
                raise HeaderError(f"no error {code}")
        return found

    def summary(self):
        """The first sentence."""
        for part in self.parts:
            if part[0] == "text":
                text = " ".join(part[1:])
                sentence = re.match(r"(.*?[.:])(?=\s|$)", text)
                return (sentence.group(1) if sentence else text).rstrip(":").rstrip(".") + "."
        raise HeaderError("no sentence says what it does")

    def call(self):
        args = ", ".join(name + (f"={default}" if default else "") for name, _, default in self.args)
        return f"{self.name}({args})"

    def page(self):
        lines = [NOTE.format(f"src/schedule/primitives/{self.name}.h"), f"# {self.name}\n", f"```\n{self.call()}\n```\n"]
        described = {}
        for part in self.parts:
            if part[0] == "arg":
                for name in part[1].split(", "):
                    described[name] = described_argument(part[2:])
            elif part[0] == "code":
                indent = min(len(line) - len(line.lstrip()) for line in part[1:])
                lines.append("```\n" + "\n".join(line[indent:] for line in part[1:]) + "\n```\n")
            else:
                lines.append("\n".join(escape(line) for line in part[1:]) + "\n")
        if self.args:
            lines.append("| argument | what it is | default | |\n| --- | --- | --- | --- |")
            for name, kind, default in self.args:
                lines.append(f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {described.get(name, '')} |")
            lines.append("")
        if not any("Returns" in line for line in self.comment):
            lines.append(f"Returns {self.result if self.result == 'nothing' else 'a ' + self.result}.\n")
        if self.errors:
            lines.append("| error | here | meaning | what to do |\n| --- | --- | --- | --- |")
            for code, said in self.errors:
                meaning, remedy = self.meanings[code]
                lines.append(f"| {code} | {escape(said)} | {escape(meaning)} | {escape(remedy)} |")
            lines.append("")
        return "\n".join(lines)


def described_argument(lines):
    """Lines of a description; "exact      there is none" begins a line of its own, for one of the argument's values."""
    text = escape(lines[0])
    for line in lines[1:]:
        value = re.match(r"(\S.*?)\s{2,}(\S.*)", line)
        text += f"<br>**{escape(value.group(1))}**: {escape(value.group(2))}" if value else " " + escape(line)
    return text


def escape(text):
    """As Markdown; what stands in backticks is code already."""
    parts = text.strip().replace("|", "\\|").split("`")
    for i in range(0, len(parts), 2):
        parts[i] = parts[i].replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
    return "`".join(parts)


def error_meanings():
    text = (ROOT / "src/base/error_codes.inc").read_text()
    return {code: (meaning, remedy) for code, meaning, remedy in re.findall(r'^FETTLE_ERROR\((E\d+), "(.*?)", "(.*?)"\)', text, re.M)}


def groups(names):
    """[(kind, primitives)] of the table in docs/architecture.md."""
    text = (ROOT / "docs/architecture.md").read_text()
    table = text[text.index("| kind | primitives |"):].split("\n\n")[0].splitlines()[2:]
    found = []
    for row in table:
        kind, listed = [cell.strip() for cell in row.strip("|").split("|")]
        found.append((kind, re.findall(r"`(\w+)`", listed)))
    listed = [name for _, members in found for name in members]
    for name in sorted(set(listed) ^ set(names)):
        raise HeaderError(f"docs/architecture.md and src/schedule/primitives differ in {name}")
    return found


def read_headers():
    meanings = error_meanings()
    headers = {}
    for path in sorted(HEADERS.glob("*.h")):
        try:
            headers[path.stem] = Header(path, meanings)
        except HeaderError as problem:
            raise HeaderError(f"{path.relative_to(ROOT)}: {problem}") from None
    return headers


def pages():
    headers = read_headers()
    made = {f"{name}.md": header.page() for name, header in headers.items()}
    lines = [NOTE.format("src/schedule/primitives/"), "# Schedule primitives\n",
             "Each step of a [schedule](../architecture.md#schedules) is one of these. They are written the same in C++, where the\n"
             "arguments are a struct, and in the text of a trace. `fettle explain --program P --trace T` shows a program after each\n"
             "step of a trace, and `fettle explain E201` more about an error.\n"]
    for kind, members in groups(headers):
        lines.append(f"## {kind[0].upper()}{kind[1:]}\n")
        lines += [f"- [`{name}`]({name}.md): {escape(headers[name].summary())}" for name in members]
        lines.append("")
    made["README.md"] = "\n".join(lines)
    return made


def write_python(path):
    """PRIMITIVES: name → (what it returns, [(argument, kind, default)], the header's comment)."""
    lines = ['"""Written by scripts/primitive_pages.py from the headers of src/schedule/primitives/."""', "", "PRIMITIVES = {"]
    for name, header in read_headers().items():
        doc = "\n".join([header.call(), "", *header.comment])
        lines.append(f"    {name!r}: ({header.result!r}, {header.args!r},\n        {doc!r}),")
    pathlib.Path(path).write_text("\n".join([*lines, "}", ""]))


def main():
    if sys.argv[1:2] == ["--python"] and len(sys.argv) == 3:
        try:
            write_python(sys.argv[2])
        except HeaderError as problem:
            print(problem, file=sys.stderr)
            return 1
        return 0
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        made = pages()
    except HeaderError as problem:
        print(problem, file=sys.stderr)
        return 1
    there = {path.name: path.read_text() for path in PAGES.glob("*.md")}
    if check:
        for name in sorted(made.keys() | there.keys()):
            if made.get(name) != there.get(name):
                print(f"docs/schedule/{name} is not what the headers say: run scripts/primitive_pages.py", file=sys.stderr)
        return 0 if made == there else 1
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - made.keys():
        (PAGES / name).unlink()
    for name, text in made.items():
        (PAGES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
