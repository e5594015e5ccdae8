"""The generators of the models that benchmarks/models.json calls "more": small ones agree with ONNX Runtime."""

import importlib
import json
import pathlib
import sys
import unittest

import numpy
import onnx
import onnxruntime

import fettle

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


class MoreModels(unittest.TestCase):
    def test_small_ones_agree_with_onnx_runtime(self):
        for entry in json.loads((ROOT / "benchmarks" / "models.json").read_text())["more"]:
            with self.subTest(entry["name"]):
                model = importlib.import_module("models." + entry["source"]["make"]).make(is_small=True)
                onnx.checker.check_model(model, full_check=True)
                [sample] = model.graph.input
                self.assertEqual(sample.name, entry["inputs"][0]["name"])
                shape = [d.dim_value for d in sample.type.tensor_type.shape.dim]
                self.assertEqual(len(shape), len(entry["inputs"][0]["shape"]))
                x = numpy.random.default_rng(7).standard_normal(shape, numpy.float32)
                data = model.SerializeToString()
                wanted = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {sample.name: x})
                made = fettle.compile(data, threads=1).run(**{sample.name: x})
                for output, want in zip(model.graph.output, wanted):
                    self.assertGreater(numpy.var(want), 1e-3)
                    error = numpy.abs(made[output.name] - want).max()
                    self.assertLess(error, 1e-3 * numpy.abs(want).max(), output.name)


if __name__ == "__main__":
    unittest.main()
