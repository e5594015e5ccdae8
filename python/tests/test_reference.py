"""The pages of docs/reference: every public name of the package, and every option of the command, with what it is.

They are made here. FETTLE_UPDATE_GOLDEN=1 writes them.
"""

import ast
import importlib
import inspect
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs/reference"
MODULES = {
    "fettle": "What `import fettle` has.",
    "fettle.host_calls": "Functions of Python that compiled models call by name.",
    "fettle.te": "Tensor expressions: what each element of a tensor is.",
    "fettle.sketch": "Derivation of sketches, a rule at a time.",
    "fettle.jax": "What JAX asks of its plug-in. [Fettle under JAX](../jax.md) says how it is used.",
    "fettle.onnx_backend": "The interface of `onnx.backend`.",
    "fettle.onnxruntime": "The interface of `onnxruntime`. [Coming from ONNX Runtime](../onnxruntime.md) says what differs.",
}
DESCRIBED_AS_A_WHOLE = {"fettle.onnxruntime"}  # whose methods are those that ONNX Runtime's own pages describe


def is_own(value):
    return str(getattr(value, "__module__", "")).partition(".")[0] == "fettle"


def public_names(module):
    listed = getattr(module, "__all__", None)
    names = listed or [name for name in vars(module) if not name.startswith("_")]
    return sorted(n for n in names if not inspect.ismodule(getattr(module, n)) and (listed or is_own(getattr(module, n))))


def described(name, value):
    """(signatures, what it is): nanobind puts the signatures into the docstring."""
    text = inspect.cleandoc(vars(value).get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or "")
    short = name.rpartition(".")[2]
    signatures = []
    is_native = type(value).__name__ in ("nb_func", "nb_method")
    bound = value.__name__ if is_native else short
    while is_native and (match := re.match(rf"{re.escape(bound)}(\(.*\).*)", text.partition("\n")[0])):
        signatures.append(short + match[1])
        text = text.partition("\n")[2].strip()
    text = re.sub(rf"^(Overloaded function\.|\d+\. ``{re.escape(bound)}\(.*``)$\n*", "", text, flags=re.M).strip()
    if not signatures and not inspect.isclass(value) and callable(value):
        signatures = [short + str(inspect.signature(value))]
    return [s.replace("fettle._fettle.", "").replace("collections.abc.", "") for s in signatures], text


def members(kind):
    """Methods and properties of a class that its users call."""
    for name, value in vars(kind).items():
        if not name.startswith("_") and (callable(value) or isinstance(value, (property, staticmethod, classmethod))):
            yield name, value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def block(lines):
    return ["```", *lines, "```", ""]


def section(module, name, missing):
    value = getattr(module, name)
    signatures, text = described(name, value)
    if not text:
        missing.append(f"{module.__name__}.{name}")
    lines = [f"### {module.__name__}.{name}", "", *block([*signatures, *([""] if signatures else []), *text.splitlines()])]
    if not inspect.isclass(value) or module.__name__ in DESCRIBED_AS_A_WHOLE:
        return lines
    listed = []
    for member, function in members(value):
        signatures, text = ([], function.__doc__ or "") if isinstance(function, property) else described(member, function)
        if not text:
            missing.append(f"{module.__name__}.{name}.{member}")
        listed += [*(signatures or [member]), *("    " + line for line in inspect.cleandoc(text).splitlines())]
    return lines + (block(listed) if listed else [])


def python_page(missing):
    lines = ["# The package's names", "", "<!-- Written by python/tests/test_reference.py from the docstrings. -->", "",
             "Every public name, with its docstring. [Fettle from Python](../python.md) shows them at work.", ""]  # fmt: skip
    for name, what in MODULES.items():
        module = importlib.import_module(name)
        lines += [f"## {name}", "", what, ""]
        for public in public_names(module):
            lines += section(module, public, missing)
    return "\n".join(lines)


def command():
    return os.environ.get("FETTLE") or str(pathlib.Path(os.environ["FETTLE_WORKER"]).with_name("fettle"))


def run_command(*words):
    return subprocess.run([command(), *words], capture_output=True, text=True, check=True).stdout


def subcommands(text):
    listed = text.partition("Subcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\S+)", listed, re.M)


def command_page(missing):
    lines = ["# The command's options", "", "<!-- Written by python/tests/test_reference.py from --help. -->", "",
             "What `fettle SUBCOMMAND --help` prints. [The README](../../README.md) shows what each is for.", ""]  # fmt: skip

    def add(words):
        text = run_command(*words, "--help")
        lines.extend([f"## {' '.join(('fettle', *words))}", "", *block(text.strip().splitlines())])
        for word in subcommands(text):
            add((*words, word))

    add(())
    completed = run_command("completion", "fish").splitlines()
    missing += [line for line in completed if line.startswith("complete ") and not re.search(" -d '.+'$", line)]
    return "\n".join(lines)


class Reference(unittest.TestCase):
    maxDiff = None

    def check(self, name, make):
        missing = []
        made = make(missing).rstrip("\n") + "\n"
        page = FOLDER / name
        if os.environ.get("FETTLE_UPDATE_GOLDEN") == "1":
            page.parent.mkdir(exist_ok=True)
            page.write_text(made)
        self.assertEqual(missing, [], "without a description")
        self.assertEqual(page.read_text(), made)

    def test_names_of_the_package(self):
        self.check("python.md", python_page)

    def test_options_of_the_command(self):
        self.check("command.md", command_page)

    def test_names_of_the_package_for_torch(self):
        """By its source, since torch is not everywhere."""
        page = (ROOT / "docs/torch.md").read_text()
        tree = ast.parse((ROOT / "python/fettle/torch/__init__.py").read_text())
        found = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]
        self.assertTrue(found)
        for node in found:
            self.assertTrue(ast.get_docstring(node), node.name)
            self.assertIn(node.name, page)


if __name__ == "__main__":
    unittest.main()
