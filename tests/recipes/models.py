"""What checks of recipes share: small models, and the command of the copy that they run in."""

import os
import subprocess
import tempfile

import numpy
import onnx
from onnx import helper

FETTLE = os.path.abspath("build/bin/fettle")


def fettle(*args):
    """What the command prints; the test fails where it does."""
    done = subprocess.run([FETTLE, *map(str, args)], capture_output=True, text=True,
                          env={**os.environ, "XDG_DATA_HOME": "/nowhere"})
    assert done.returncode == 0, f"fettle {' '.join(map(str, args))}\n{done.stdout}{done.stderr}"
    return done.stdout


class Model:
    """A model of one input x and one output y, in a folder of its own. nodes: (operator, inputs, outputs, attributes)."""

    def __init__(self, shape, nodes, constants=None, dtype="float32"):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "model.onnx")
        self.database = os.path.join(self.folder.name, "records.db")
        self.x = numpy.random.default_rng(0).standard_normal(shape).astype(dtype)
        kind = helper.np_dtype_to_tensor_dtype(self.x.dtype)
        made = [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in nodes]
        held = [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
        graph = helper.make_graph(made, "model", [helper.make_tensor_value_info("x", kind, shape)],
                                  [helper.make_tensor_value_info("y", kind, None)], held)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path)

    def inspect(self, *args):
        return fettle("inspect", self.path, *self.records(), *args)

    def tune(self, *args):
        """The records, as text."""
        fettle("tune", self.path, "--db", self.database, *args)
        fettle("db", "export", self.database, self.database + ".txt")
        with open(self.database + ".txt") as file:
            return file.read()

    def records(self):
        return ["--db", self.database] if os.path.exists(self.database) else []

    def run(self):
        """y of x, compiled with what was measured."""
        at = lambda name: os.path.join(self.folder.name, name)
        numpy.save(at("x.npy"), self.x)
        fettle("compile", self.path, *self.records(), "-o", at("model.so"))
        fettle("run", at("model.so"), "--input", "x=" + at("x.npy"), "--output-dir", at("out"))
        return numpy.load(at("out/y.npy"))
