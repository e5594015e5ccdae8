"""The cases of this folder: each model compiled once, and run on every set of its inputs.

    cases.py [NAME …]

cases.json says what each is and how near its results must be: rtol and atol, of floats; all else is exact."""

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
        compiled, sets = fettle.compile(path, shapes=of_all), 0
        for number, inputs, outputs in sets_of(name):
            results = compiled.run(**{**defaults, **inputs})
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


for case_name in CASES:
    setattr(Cases, f"test_{case_name}", lambda self, name=case_name: self.check(name))


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
