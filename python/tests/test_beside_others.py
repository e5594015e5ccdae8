"""Other packages with compilers, protobufs and thread pools of their own live in one process with Fettle, in any order."""

import importlib.util
import itertools
import pathlib
import subprocess
import sys
import unittest

import fettle

# What each does after all are imported. Those that are not installed are left out.
WORK = {
    "fettle": """
program = fettle.te.create_func("twice", [a := fettle.te.placeholder((64,), name="A")],
                                [fettle.te.compute((64,), lambda i: a[i] * 2.0, name="B")])
x = fettle.empty((64,))
x[:] = 3
assert (fettle.build(program)(x) == 6).all()
try:
    fettle.parse("no program")
except fettle.Error:
    pass
""",
    "onnx": 'onnx.checker.check_model(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [])))',
    "onnxruntime": """
from onnxruntime.capi import _pybind_state
assert "CPUExecutionProvider" in onnxruntime.get_available_providers()
""",
    "openvino": "openvino.Core().available_devices",
    "torch": "assert float(torch.nn.functional.relu(torch.ones(8, 8) @ torch.ones(8, 8)).sum()) == 512",
    "jax": "assert float(jax.jit(lambda x: (x @ x).sum())(jax.numpy.ones((8, 8)))) == 512",
    "tensorflow": "assert float(tensorflow.reduce_sum(tensorflow.matmul(tensorflow.ones((8, 8)), tensorflow.ones((8, 8))))) == 512",
    "xgboost": "xgboost.DMatrix([[1.0, 2.0]])",
    "sklearn": "import sklearn.ensemble",
}


class BesideOthers(unittest.TestCase):
    def test_any_order(self):
        others = [name for name in WORK if name != "fettle" and importlib.util.find_spec(name)]
        self.assertGreaterEqual(len(others), 3)
        orders = [(a, b) for other in others for a, b in itertools.permutations(("fettle", other))]
        orders += [("fettle", *others), (*others, "fettle"), (*others[:2], "fettle", *others[2:])]
        for order in orders:
            code = "\n".join([f"import {name}" for name in order] + [WORK[name] for name in order])
            made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, f"{order}: {made.stderr[-2000:]}")

    def test_exports_its_initialiser_alone(self):
        """What other packages load must not find an LLVM, a protobuf or a C++ library of Fettle's."""
        module = pathlib.Path(fettle._fettle.__file__)
        listing = subprocess.run(["nm", "-D", "--defined-only", module], check=True, capture_output=True, text=True).stdout
        self.assertEqual([line.split()[-1] for line in listing.splitlines()], ["PyInit__fettle"])


if __name__ == "__main__":
    unittest.main()
