"""The pages that show Python, and the command: their code runs, in order, and prints what they say.

A page has a folder to itself, which has small models for what the shell runs: `model.onnx` and `model.mlir`. Blocks of
Python share their names; each block of the shell that stands below a `<!-- run -->` is a script of its own, whose status
counts and whose output does not. FETTLE_UPDATE_GOLDEN=1 writes what was printed into the pages.
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OPTIONAL = ("onnxruntime", "torch", "jax", "sklearn", "xgboost", "lightgbm")  # what pages import that is not everywhere
BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n<!-- output -->\n```\n(.*?)^```\n)?|^<!-- run -->\n```sh\n(?P<shell>.*?)^```\n",
                   re.M | re.S)  # fmt: skip
WORKER = os.path.abspath(os.environ["FETTLE_WORKER"])
HOME = tempfile.TemporaryDirectory()  # of all pages: what is measured once a machine is measured once
ELSEWHERE = {"devices.md"}  # whose processes tests/e2e/devices_test.cpp looks after


def run_shell(script, place):
    """With the command of this build and this Python on the path; nothing is left in folders of the user's."""
    home = pathlib.Path(HOME.name)
    if not (home / "python").exists():
        (home / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (home / "python").chmod(0o700)
    built = pathlib.Path(WORKER).parent
    places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), HOME.name)
    environment = {**os.environ, **places, "PATH": f"{home}:{built}:{os.environ['PATH']}"}
    environment.pop("FETTLE_CACHE", None)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise AssertionError(f"{place} ends with {done.returncode}:\n{script}\n{done.stdout}{done.stderr}")


def run_page(path):
    """The page with what its code prints."""
    text = path.read_text()
    names = {"__name__": "page"}
    made, at = [], 0
    for block in BLOCK.finditer(text):
        if block["shell"] is not None:
            run_shell(block["shell"], f"{path.name}, line {text[:block.start()].count(chr(10)) + 1}")
            continue
        printed = io.StringIO()
        line = text[:block.start()].count("\n") + 1
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block.group(1), str(path), "exec"), names)
        said = printed.getvalue().rstrip("\n") + "\n"
        made.append(text[at:block.start()])
        made.append(f"```python\n{block.group(1)}```\n")
        if block.group(2):
            made.append(f"\n<!-- output -->\n```\n{said}```\n")
        elif said.strip():
            raise AssertionError(f"{path.name}, line {line} prints what the page does not show:\n{said}")
        at = block.end()
    return "".join(made) + text[at:]


PROGRAM = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def write_models():
    """Of some tasks, into the folder."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper, save

    def weights(name, *shape):
        return numpy_helper.from_array(numpy.full(shape, 0.1, "float32"), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "conv1", kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m", "w2"], ["c2"], "conv2", kernel_shape=[3, 3]),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"], "mean"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w3"], ["g"], "dense"),
        helper.make_node("Softmax", ["g"], ["y"], "softmax"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "small", [x], [y], [weights("w1", 8, 3, 3, 3), weights("w2", 8, 8, 3, 3), weights("w3", 8, 10)])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), "model.onnx")
    pathlib.Path("model.mlir").write_text(PROGRAM)


class Pages(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        path = ROOT / "docs" / name
        for module in OPTIONAL:
            if re.search(rf"^import {module}\b", path.read_text(), re.M) and not importlib.util.find_spec(module):
                self.skipTest(f"there is no {module} here")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            if "<!-- run -->" in path.read_text():
                write_models()
            made = run_page(path)
        if os.environ.get("FETTLE_UPDATE_GOLDEN") == "1":
            path.write_text(made)
        self.assertEqual(path.read_text(), made)


for page in sorted((ROOT / "docs").glob("*.md")):
    if page.name not in ELSEWHERE and BLOCK.search(page.read_text()):
        setattr(Pages, f"test_{page.stem.replace('-', '_')}", lambda self, name=page.name: self.check(name))


if __name__ == "__main__":
    unittest.main()
