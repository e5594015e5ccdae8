"""Operators that write, order and select where data say, beside ONNX Runtime: sizes fixed and open."""

import tempfile
import unittest

import numpy
from beside_onnxruntime import ints, node, reference_of, saved
from onnx import TensorProto, helper

import fettle

FLOAT, INT, BOOL, HALF = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16
TYPES = {"float32": FLOAT, "int64": INT, "bool": BOOL, "float16": HALF}
rng = numpy.random.default_rng(7)


def numbers(*shape):
    return rng.integers(-9, 9, shape).astype(numpy.float32)


class Selections(unittest.TestCase):
    def check(self, nodes, outputs, constants, *feeds, opset=18):
        """Each feed with its own shapes as a fixed model, and all of them with one of open sizes (but for single
        numbers)."""
        of_open = {
            name: [1] if data.shape == (1,) else [f"{name}_{axis}" for axis in range(data.ndim)]
            for name, data in feeds[0].items()
        }
        self.run_model(nodes, outputs, constants, of_open, feeds, opset)
        for given in feeds:
            shapes = {name: list(data.shape) for name, data in given.items()}
            self.run_model(nodes, outputs, constants, shapes, [given], opset)

    def run_model(self, nodes, outputs, constants, shapes, feeds, opset):
        inputs = [
            helper.make_tensor_value_info(name, TYPES[str(feeds[0][name].dtype)], shape)
            for name, shape in shapes.items()
        ]
        results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, nodes, inputs, results, constants, opset)
            reference = reference_of(path)
            compiled = fettle.compile(path)
            for given in feeds:
                made = compiled.run(**given)
                for name, want in zip(outputs, reference.run(None, given)):
                    self.assertEqual(made[name].shape, want.shape, name)
                    numpy.testing.assert_allclose(made[name], want, rtol=1e-5, atol=1e-6, err_msg=name)

    def test_the_largest_and_the_least(self):
        for attributes in [{}, {"axis": 0, "largest": 0}, {"axis": 1, "largest": 1}]:
            nodes = [node("TopK", ["x", "k"], ["v", "i"], **attributes)]
            self.check(nodes, {"v": FLOAT, "i": INT}, {"k": ints(3)}, *({"x": numbers(3, n, 7)} for n in (3, 8, 40)))

    def test_as_many_as_data_say(self):
        nodes = [node("TopK", ["x", "k"], ["v", "i"]), node("Exp", ["v"], ["e"])]
        self.check(nodes, {"e": FLOAT, "i": INT}, {}, *({"x": numbers(4, 20), "k": ints(k)} for k in (5, 0, 20, 1)))

    def test_scattered_elements(self):
        for how in ["none", "add", "mul", "max", "min"]:
            nodes = [node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction=how)]
            places = [numpy.stack([rng.permutation(6)[:4] for _ in range(3)]), rng.integers(-6, 6, (2, 9))]
            if how == "none":  # of equal places ONNX leaves open which one wins
                places.pop()
            feeds = [{"x": numbers(3, 6), "i": at, "u": numbers(*at.shape)} for at in places]
            self.check(nodes, {"y": FLOAT}, {}, *feeds)

    def test_scattered_rows(self):
        nodes = [node("ScatterND", ["x", "i", "u"], ["y"], reduction="add"), node("GatherND", ["y", "i"], ["z"])]
        for rank, updates in [(1, (8, 5, 4)), (2, (8, 4)), (3, (8,))]:
            at = numpy.stack([rng.integers(-n, n, 8) for n in (6, 5, 4)[:rank]], axis=1)
            shape = {"x": [6, 5, 4], "i": [8, rank], "u": list(updates)}
            feed = {"x": numbers(6, 5, 4), "i": at, "u": numbers(*updates)}
            self.run_model(nodes, {"y": FLOAT, "z": FLOAT}, {}, shape, [feed], 18)
            shape = {"x": ["A", "B", 4], "i": ["N", rank], "u": ["N", *["A", "B", 4][rank:]]}
            self.run_model(nodes, {"y": FLOAT, "z": FLOAT}, {}, shape, [feed], 18)

    def test_what_is_not_zero(self):
        nodes = [node("NonZero", ["x"], ["p"]), node("Transpose", ["p"], ["t"]), node("GatherND", ["x", "t"], ["y"])]
        feeds = [{"x": numbers(*shape) * (rng.random(shape) < part)}
                 for shape, part in [((4, 6), 0.3), ((1, 1), 0.0), ((7, 2), 1.0), ((5, 9), 0.0)]]  # fmt: skip
        feeds = [{"x": feed["x"].astype(numpy.float32)} for feed in feeds]
        self.check(nodes, {"p": INT, "y": FLOAT}, {}, *feeds)

    def test_what_a_condition_takes(self):
        for attributes in [{"axis": 0}, {"axis": -1}, {}]:
            nodes = [node("Compress", ["x", "c"], ["y"], **attributes), node("Relu", ["y"], ["z"])]
            feeds = [{"x": numbers(4, 5), "c": rng.random(n) < part} for n, part in [(4, 0.5), (3, 1.0), (2, 0.0)]]
            self.check(nodes, {"z": FLOAT}, {}, *feeds)

    def test_each_of_equals_once(self):
        outputs = {"y": FLOAT, "f": INT, "i": INT, "n": INT}
        for attributes in [{}, {"sorted": 0}, {"axis": 0}, {"axis": -1, "sorted": 0}, {"axis": 1}]:
            feeds = [{"x": numpy.floor(numbers(*shape) / 6)} for shape in [(5, 4), (1, 1), (9, 2)]]
            self.check([node("Unique", ["x"], list(outputs), **attributes)], outputs, {}, *feeds)
        self.check([node("Unique", ["x"], ["y", "", "", "n"])], {"y": FLOAT, "n": INT}, {}, {"x": numbers(3, 7)})

    def test_the_best_boxes(self):
        limits = {"most": ints(4), "overlap": numpy.float32([0.3]), "score": numpy.float32([0.2])}
        feeds = [{"b": rng.random((n, boxes, 4)).astype(numpy.float32),
                  "s": (rng.integers(0, 40, (n, classes, boxes)) / 40).astype(numpy.float32)}
                 for n, classes, boxes in [(2, 3, 30), (1, 1, 1), (1, 4, 100)]]  # fmt: skip
        for opset, attributes in [(11, {}), (10, {"center_point_box": 1})]:
            for names in [["most", "overlap", "score"], ["most", "overlap"], ["most"]]:
                nodes = [
                    node("NonMaxSuppression", ["b", "s", *names], ["p"], **attributes),
                    node("Gather", ["b", "batches"], ["of_batch"], axis=0),
                ]
                constants = {name: limits[name] for name in names} | {"batches": ints(0)}
                self.check(nodes, {"p": INT, "of_batch": FLOAT}, constants, *feeds, opset=opset)

    def test_as_many_boxes_as_data_say(self):
        nodes = [node("NonMaxSuppression", ["b", "s", "most", "overlap"], ["p"])]
        boxes, scores = rng.random((1, 50, 4)).astype(numpy.float32), rng.random((1, 2, 50)).astype(numpy.float32)
        feeds = [{"b": boxes, "s": scores, "most": ints(n), "overlap": numpy.float32([0.4])} for n in (0, 1, 7, 1000)]
        self.check(nodes, {"p": INT}, {}, *feeds)


if __name__ == "__main__":
    unittest.main()
