"""fettle.onnxruntime beside ONNX Runtime: with which classes files and models that make no sense are refused."""

import pathlib
import unittest

import numpy
import onnx
from both_runtimes import BOTH, FLOAT, INT, STRING, Both, Raised, helper, model_of, node, of, outcome, value

GOOD = model_of([node("Relu", ["x"], ["y"])], [value("x", FLOAT, ["N", 3])], [value("y", FLOAT, None)])


def changed(**fields):
    """The model of one Relu with other fields; None: cleared."""
    model = onnx.ModelProto()
    model.CopyFrom(GOOD)
    for name, content in fields.items():
        model.ClearField(name)
        if content is not None:
            setattr(model, name, content)
    return model


def of_nodes(*nodes, kind=FLOAT, shape=("N", 3), made=None, constants=(), opset=17):
    return model_of(list(nodes), [value("x", kind, list(shape))], [value("y", kind, made)], constants, opset)


def of_tensor(**fields):
    """y = x + w, with a w of these fields."""
    model = of_nodes(node("Add", ["x", "w"], ["y"]))
    tensor = {"name": "w", "data_type": FLOAT, "dims": [3], "raw_data": bytes(12)} | fields
    model.graph.initializer.add(**tensor)
    return model


# No model at all, or one that has lost its end.
BYTES = {
    "nothing": b"", "zeros": bytes(64), "ones": b"\xff" * 100, "a text": b"this is no model\n", "a page": b"<!DOCTYPE html>",
    "an image": b"\x89PNG\r\n\x1a\n" + bytes(50), "an archive": b"PK\x03\x04" + bytes(50), "a program": b"\x7fELF" + bytes(99),
    "no graph": changed(graph=None).SerializeToString(), "a graph alone": GOOD.graph.SerializeToString(),
    "more behind": GOOD.SerializeToString() + b"\xff\xff\xff", "a byte": b"\x08",
}  # fmt: skip

MODELS = {
    "a later format": changed(ir_version=99), "no opset": changed(opset_import=None),
    "a later opset": of_nodes(node("Relu", ["x"], ["y"]), opset=99),
    "an operator that nobody has": of_nodes(node("Nope", ["x"], ["y"])),
    "another domain": of_nodes(node("Relu", ["x"], ["y"], domain="of.nobody")),
    "an input from nowhere": of_nodes(node("Relu", ["q"], ["y"])),
    "an output from nowhere": of_nodes(node("Relu", ["x"], ["z"])),
    "a circle": of_nodes(node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["a"], ["y"])),
    "made twice": of_nodes(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])),
    "another type": of_nodes(node("Relu", ["x"], ["y"]), kind=STRING),
    "another type of an output": model_of(
        [node("Relu", ["x"], ["y"])], [value("x", FLOAT, ["N", 3])], [value("y", INT, ["N", 3])]
    ),
    "an attribute of another type": of_nodes(node("Softmax", ["x"], ["y"], axis="a")),
    "an attribute that nobody has": of_nodes(node("Relu", ["x"], ["y"], nope=1)),
    "an axis outside": of_nodes(node("Softmax", ["x"], ["y"], axis=7)),
    "too many inputs": of_nodes(node("Relu", ["x", "x"], ["y"])),
    "too few inputs": of_nodes(node("Add", ["x"], ["y"])),
    "shapes that do not fit": of_nodes(node("MatMul", ["x", "w"], ["y"]), constants={"w": numpy.zeros((4, 2), "f4")}),
    "too few bytes": of_tensor(raw_data=bytes(4)), "a type of no number": of_tensor(data_type=77),
    "an extent below zero": of_tensor(dims=[-3]),
    "a file that is not there": of_tensor(raw_data=None, data_location=onnx.TensorProto.EXTERNAL,
                                          external_data=[{"key": "location", "value": "nowhere.bin"}]),
    "a file outside": of_tensor(raw_data=None, data_location=onnx.TensorProto.EXTERNAL,
                                external_data=[{"key": "location", "value": "../../etc/hostname"}]),
}  # fmt: skip


class Refusals(Both):
    def refused(self, source, where):
        """By both, of ours by a class of theirs at least."""
        raised = self.alike(lambda runtime: of(runtime, source), where)
        self.assertIsInstance(raised, Raised, where)
        return raised

    def refused_as_there(self, source, where):
        """By the same class, and no other."""
        wanted, made = (outcome(lambda: of(runtime, source)) for runtime in BOTH)
        self.assertIsInstance(wanted, Raised, where)
        self.assertIsInstance(made, Raised, where)
        self.assertEqual(type(made.error).__name__, type(wanted.error).__name__, (where, wanted, made))
        self.assertEqual(str(made.error).split(" : ")[:3], str(wanted.error).split(" : ")[:3], where)

    def test_bytes_and_files_that_are_no_models(self):
        for where, content in BYTES.items():
            with self.subTest(where):
                self.refused_as_there(content, where)
                self.refused_as_there(self.saved(content), where)

    def test_models_whose_end_is_lost(self):
        whole = GOOD.SerializeToString()
        kinds = set()
        for length in range(len(whole)):
            # Without its last fields it is still a model.
            made = self.alike(lambda runtime: of(runtime, whole[:length]) and "a session", length)
            kinds.add(type(made.error).__name__ if isinstance(made, Raised) else made)
        self.assertLessEqual({"InvalidProtobuf", "InvalidArgument", "a session"}, kinds)

    def test_models_that_make_no_sense(self):
        for where, model in MODELS.items():
            with self.subTest(where):
                self.refused(self.saved(model), where)

    def test_what_is_no_source_of_a_model(self):
        for source in (None, 3, [1, 2], bytearray(b"\x08"), memoryview(b"\x08"), GOOD.graph, numpy.zeros(3), ""):
            wanted, made = (outcome(lambda: runtime.InferenceSession(source)) for runtime in BOTH)
            self.assertIs(type(wanted.error), TypeError, source)
            self.assertIs(type(made.error), TypeError, source)

    def test_paths_of_no_models(self):
        for path in ("nowhere.onnx", pathlib.Path(self.folder, "nowhere.onnx"), "a\0b", self.folder):
            self.refused_as_there(path, path)
        self.refused(self.saved(b"no model of this format", "model.ort"), "their own format")
        self.refused(b"\x20\0\0\0ORTM" + bytes(50), "their own format")
        self.refused(self.saved(b"no library", "model.so"), "a library")

    def test_values_of_no_type(self):
        self.alike(lambda runtime: runtime.OrtValue.ortvalue_from_shape_and_type([2], "nope"))
        self.alike(lambda runtime: runtime.OrtValue.ortvalue_from_shape_and_type([-2], numpy.float32))


if __name__ == "__main__":
    unittest.main()
