#!/usr/bin/env python3
"""Writes type stubs beside the Python package's extension module, for editors and type checkers.

usage: python_stubs.py FOLDER     FOLDER holds the package `fettle`, built; writes FOLDER/fettle/_fettle/*.pyi
What the module says of itself comes from nanobind's generator; the primitives, which are methods of Schedule by their list of
fields, from their headers (primitive_pages.py --python).
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Words of primitive_pages.py → types as a caller may give them.
ARGUMENTS = {
    "loop": "Loop", "block": "Block", "integer": "int | Value | Product | None", "number": "float", "text": "str", "tail": "str",
    "tile position": "str", "kind of iterator": "str", "true or false": "bool", "index map": "str | Callable[..., object]",
    "loop or block": "Loop | Block",
    "integer, number, text or list of integers": "int | float | str | Sequence[int]",
    "list of integers or names": "Sequence[int] | Sequence[str]",
}
RESULTS = {"loop": "Loop", "block": "Block", "integer": "Value", "nothing": "None"}


def argument_type(word):
    if word in ARGUMENTS:
        return ARGUMENTS[word]
    of = re.fullmatch(r"list of (.*)", word).group(1)
    first, rest = (of.split(" of ", 1) + [""])[:2]
    inner = first[:-1] + (" of " + rest if rest else "")
    return f"Sequence[{argument_type(inner)}]"


def result_type(word):
    if word in RESULTS:
        return RESULTS[word]
    return f"list[{RESULTS[re.fullmatch(r'list of (.*)s', word).group(1)]}]"


def default_value(text):
    if text in ("true", "false"):
        return text.capitalize()
    return text if text else "..."


def method(name, result, arguments, doc):
    # An argument without a default after one that has one must still be given, by its name; a stub cannot say so.
    optional, parts = False, ["self"]
    for argument, word, default in arguments:
        optional = optional or bool(default)
        parts.append(f"{argument}: {argument_type(word)}" + (f" = {default_value(default)}" if optional else ""))
    body = "\n".join(("        " + line).rstrip() for line in doc.replace("\\", "\\\\").replace('"""', "'''").splitlines())
    return f'    def {name}({", ".join(parts)}) -> {result_type(result)}:\n        """\n{body}\n        """\n'


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    package = pathlib.Path(sys.argv[1]) / "fettle"
    scope = {}
    exec((package / "_primitives.py").read_text(), scope)
    with tempfile.TemporaryDirectory() as folder:
        # The module alone: what the package adds to its classes is not the module's.
        (pathlib.Path(folder) / "bare").mkdir()
        module = next(package.glob("_fettle.*.so"))
        (pathlib.Path(folder) / module.name).symlink_to(module.resolve())
        subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-i", folder, "-m", "_fettle", "-O", folder],
                       check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})
        made = {path.name: path.read_text() for path in (pathlib.Path(folder) / "_fettle").glob("*.pyi")}
    methods = "\n".join(method(name, *about) for name, about in sorted(scope["PRIMITIVES"].items()))
    methods += "\n    def __getitem__(self, name: str) -> Block:\n        \"\"\"The block of that name.\"\"\"\n"
    stub = made["__init__.pyi"]
    start = stub.index("\nclass Schedule:")
    end = re.compile(r"\n(?=(class |def )\S)").search(stub, start + 2).start()
    made["__init__.pyi"] = stub[:end].rstrip("\n") + "\n\n" + methods + "\n" + stub[end:]
    target = package / "_fettle"
    target.mkdir(exist_ok=True)
    for name, text in made.items():
        text = re.sub(r"(?<![\w.])_fettle\b", "fettle._fettle", text)
        compile(text, name, "exec")
        (target / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
