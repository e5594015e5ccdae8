"""The cases of this folder: each model compiled once, and run on every set of its inputs.

    cases.py [NAME …]

cases.json says what each is and how near its results must be: rtol and atol, of floats; all else is exact. A case with
`fixed` is compiled anew for each set, with the shapes of the inputs that it names."""

import json
import pathlib
import sys
import unittest

import numpy
import onnx
from onnx import numpy_helper

import fettle

FOLDER = pathlib.Path(__file__).resolve().parent
CASES = json.loads((FOLDER / "cases.json").read_text())


def sets_of(name):
    """For each set its inputs and its outputs, by name."""
    for path in sorted((FOLDER / name).glob("*.npz")):
        with numpy.load(path) as arrays:
            parts = {"in": {}, "out": {}}
            for key in arrays.files:
                kind, tensor = key.split(".", maxsplit=1)
                parts[kind][tensor] = arrays[key]
            yield path.stem, parts["in"], parts["out"]


def defaults_of(model):
    """Initializers that are inputs too: what they are where a caller gives none."""
    inputs = {value.name for value in model.graph.input}
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name in inputs}


class Cases(unittest.TestCase):
    def check(self, name):
        case = CASES[name]
        path = FOLDER / name / "model.onnx"
        model = onnx.load(path)
        onnx.checker.check_model(model)
        defaults = defaults_of(model)
        # Named, they are inputs, so that one artefact serves all sets.
        of_all = {n: list(value.shape) for n, value in defaults.items()}
        compiled, sets = {}, 0
        for number, inputs, outputs in sets_of(name):
            shapes = {**of_all, **{n: list(inputs[n].shape) for n in case.get("fixed", ())}}
            key = str(sorted(shapes.items()))
            if key not in compiled:
                compiled[key] = fettle.compile(path, shapes=shapes)
            results = compiled[key].run(**{**defaults, **inputs})
            self.assertEqual(sorted(results), sorted(outputs))
            for output, want in outputs.items():
                with self.subTest(set=number, output=output):
                    made = results[output]
                    self.assertEqual((made.dtype, made.shape), (want.dtype, want.shape))
                    is_float = want.dtype.kind == "f"
                    rtol, atol = (case["rtol"], case["atol"]) if is_float else (0, 0)
                    numpy.testing.assert_allclose(made, want, rtol=rtol, atol=atol)
            sets += 1
        self.assertGreaterEqual(sets, 2)
        if not case.get("fixed"):
            self.assertEqual(len(compiled), 1)


def refuses_open(name):
    """A case that needs sizes is refused without them: once it is not, `fixed` goes."""

    def check(self):
        with self.assertRaises(fettle.Error) as raised:
            fettle.compile(FOLDER / name / "model.onnx")
        self.assertEqual(raised.exception.code, "E604")

    return check


for case_name in CASES:
    setattr(Cases, f"test_{case_name}", lambda self, name=case_name: self.check(name))
    if CASES[case_name].get("fixed"):
        setattr(Cases, f"test_{case_name}_is_refused_with_open_sizes", refuses_open(case_name))


class Folder(unittest.TestCase):
    def test_each_folder_is_listed(self):
        self.assertEqual(sorted(p.name for p in FOLDER.iterdir() if (p / "model.onnx").exists()), sorted(CASES))

    def test_initializers_are_defaults(self):
        """Where shapes do not name it, an initializer that is listed as an input is what it is in the file."""
        name = "initializer_as_optional_input"
        _, inputs, outputs = next(sets_of(name))
        results = fettle.compile(FOLDER / name / "model.onnx").run(**inputs)
        numpy.testing.assert_allclose(results["y"], outputs["y"], rtol=1e-5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + [f"Cases.test_{name}" for name in sys.argv[1:]])
