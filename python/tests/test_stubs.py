"""The package tells editors and type checkers what it has: every name of the module, every primitive with its arguments."""

import ast
import pathlib
import unittest

import fettle
from fettle import _fettle, te


def stub(name):
    return ast.parse((pathlib.Path(fettle.__file__).parent / "_fettle" / name).read_text())


def names(body):
    found = set()
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found.update(t.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(t, ast.Name))
    return found


class Stubs(unittest.TestCase):
    def test_everything_of_the_module(self):
        known = names(stub("__init__.pyi").body)
        missing = {n for n in dir(_fettle) if not n.startswith("_") and n != "te"} - known
        self.assertEqual(missing, set())
        self.assertEqual({n for n in dir(te) if not n.startswith("_") and hasattr(_fettle.te, n)} - names(stub("te.pyi").body), set())

    def test_every_primitive(self):
        schedule = next(n for n in stub("__init__.pyi").body if isinstance(n, ast.ClassDef) and n.name == "Schedule")
        methods = {n.name: [a.arg for a in n.args.args] for n in schedule.body if isinstance(n, ast.FunctionDef)}
        for name, (fields, *_) in _fettle.primitives().items():
            self.assertEqual(methods.get(name), ["self", *fields], name)
            self.assertTrue(callable(getattr(fettle.Schedule, name)))

    def test_is_marked_as_typed(self):
        self.assertTrue((pathlib.Path(fettle.__file__).parent / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
