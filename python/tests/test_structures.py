"""Sequences, optionals and maps beside ONNX Runtime."""

import os
import tempfile
import unittest

import numpy
import onnx
from beside_onnxruntime import BOOL, FLOAT, INT, Beside, body, ints, node, random, reference_of, saved, value
from onnx import TensorProto, helper, numpy_helper

import fettle


def sequence(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_sequence_value_info(name, dtype, shape)


def optional(name, inner):
    return helper.make_value_info(name, helper.make_optional_type_proto(inner))


def constant(name, array):
    return node("Constant", [], [name], value=numpy_helper.from_array(array))


class Sequences(Beside):
    def test_elements_are_made_inserted_erased_and_read(self):
        nodes = [
            node("SequenceConstruct", ["a", "b"], ["s0"]),
            node("SequenceInsert", ["s0", "c", "zero"], ["s1"]),
            node("SequenceInsert", ["s1", "a"], ["s2"]),
            node("SequenceErase", ["s2", "one"], ["s3"]),
            node("SequenceAt", ["s3", "last"], ["y"]),
            node("SequenceLength", ["s3"], ["n"]),
        ]
        inputs = [value("a", FLOAT, ["N", 2]), value("b", FLOAT, ["M", 3]), value("c", FLOAT, [1, 1])]
        outputs = [sequence("s3"), value("y", FLOAT, [None, None]), value("n", INT, [])]
        constants = {"zero": numpy.int64(0), "one": numpy.int64(1), "last": numpy.int64(-1)}
        feeds = [{"a": random(n, 2), "b": random(m, 3), "c": random(1, 1)} for n, m in ((3, 2), (1, 4))]
        self.check(nodes, inputs, outputs, constants, *feeds)

    def test_positions_that_data_tell(self):
        nodes = [
            node("SequenceConstruct", ["a", "b", "a"], ["s0"]),
            node("SequenceInsert", ["s0", "b", "p"], ["s1"]),
            node("SequenceErase", ["s1", "q"], ["s2"]),
            node("SequenceAt", ["s2", "q"], ["y"]),
        ]
        inputs = [value("a", FLOAT, ["N"]), value("b", FLOAT, ["M"]), value("p", INT, []), value("q", INT, [])]
        feeds = [
            {"a": random(4), "b": random(2), "p": numpy.int64(p), "q": numpy.int64(q)}
            for p, q in ((0, 0), (3, 2), (-1, -1), (1, -3), (2, 1))
        ]
        self.check(nodes, inputs, [sequence("s2"), value("y", FLOAT, [None])], {}, *feeds)

    def test_what_is_known_costs_nothing(self):
        nodes = [node("SequenceConstruct", ["a", "b"], ["s"]), node("SequenceAt", ["s", "one"], ["y"])]
        inputs = [value("a", FLOAT, ["N", 2]), value("b", FLOAT, ["M", 3])]
        with tempfile.TemporaryDirectory() as folder:
            model = fettle.compile(saved(folder, nodes, inputs, [value("y", FLOAT, [None, None])], {"one": numpy.int64(1)}))
            self.assertEqual(model.outputs, [("y", "float32", ("M", 3))])
            b = random(5, 3)
            numpy.testing.assert_array_equal(model.run(a=random(2, 2), b=b)["y"], b)

    def test_ragged_lists_go_in_and_come_out(self):
        nodes = [
            node("SequenceInsert", ["x", "t", "p"], ["y"]),
            node("SequenceAt", ["y", "p"], ["e"]),
            node("SequenceLength", ["y"], ["n"]),
        ]
        inputs = [sequence("x", shape=["A", "B"]), value("t", FLOAT, ["C", 2]), value("p", INT, [])]
        outputs = [sequence("y"), value("e", FLOAT, [None, None]), value("n", INT, [])]
        lists = [[random(2, 3), random(1, 4), random(5, 1)], [random(3, 3)], []]
        feeds = [{"x": x, "t": random(2, 2), "p": numpy.int64(0)} for x in lists]
        self.check(nodes, inputs, outputs, {}, *feeds)

    def test_concatenation_along_any_axis(self):
        for axis, new_axis, shapes in (
            (0, 0, [(2, 3, 2), (1, 3, 2)]),
            (1, 0, [(2, 1, 2), (2, 4, 2), (2, 2, 2)]),
            (-1, 0, [(2, 3, 1), (2, 3, 4)]),
            (0, 1, [(2, 3, 2)] * 3),
            (2, 1, [(2, 3, 2)] * 2),
            (-1, 1, [(2, 3, 2)] * 4),
        ):
            with self.subTest(axis=axis, new_axis=new_axis):
                nodes = [node("ConcatFromSequence", ["x"], ["y"], axis=axis, new_axis=new_axis)]
                inputs, outputs = [sequence("x", shape=["A", "B", "C"])], [value("y", FLOAT, [None] * (3 + new_axis))]
                feeds = [{"x": [random(*shape) for shape in some]} for some in (shapes, shapes[:1], shapes * 2)]
                self.check(nodes, inputs, outputs, {}, *feeds)

    def test_splits_of_sizes_that_data_tell(self):
        for axis in (0, 1):
            with self.subTest(axis=axis):
                nodes = [
                    node("SplitToSequence", ["x", "k"], ["a"], axis=axis),
                    node("SplitToSequence", ["x", "sizes"], ["b"], axis=axis),
                    node("SplitToSequence", ["x"], ["c"], axis=axis, keepdims=0),
                ]
                inputs = [value("x", FLOAT, ["N", "N"]), value("k", INT, []), value("sizes", INT, ["P"])]
                outputs = [sequence("a"), sequence("b"), sequence("c")]
                feeds = [
                    {"x": random(6, 6), "k": numpy.int64(4), "sizes": ints(1, 3, 2)},
                    {"x": random(5, 5), "k": numpy.int64(1), "sizes": ints(5)},
                ]
                self.check(nodes, inputs, outputs, {}, *feeds)

    def test_a_loop_appends_and_its_list_is_joined(self):
        step = body(
            "body",
            [
                node("Identity", ["c"], ["c1"]), node("Add", ["i", "one"], ["k"]),
                node("Unsqueeze", ["k", "front"], ["end"]), node("Slice", ["x", "front", "end"], ["piece"]),
                node("SequenceInsert", ["s", "piece"], ["s1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), sequence("s")],
            [value("c1", BOOL, []), sequence("s1")],
        )  # fmt: skip
        nodes = [
            node("SequenceEmpty", [], ["empty"]),
            node("Loop", ["m", "", "empty"], ["list"], body=step),
            node("ConcatFromSequence", ["list"], ["y"], axis=0),
            node("SequenceAt", ["list", "last"], ["e"]),
        ]
        constants = {"one": numpy.int64(1), "front": ints(0), "last": numpy.int64(-1)}
        x = random(5, 2)
        self.check(
            nodes, [value("m", INT, []), value("x", FLOAT, [5, 2])],
            [value("y", FLOAT, [None, None]), value("e", FLOAT, [None, None]), sequence("list")], constants,
            {"m": numpy.int64(4), "x": x}, {"m": numpy.int64(1), "x": x},
        )  # fmt: skip

    def test_lists_that_a_loop_appends_to_grow(self):
        """Two lists in one loop, one of them twice an iteration, and read while it grows; what is put first moves."""
        step = body(
            "body",
            [
                node("Identity", ["c"], ["c1"]), node("Add", ["i", "one"], ["k"]),
                node("Unsqueeze", ["k", "front"], ["end"]), node("Slice", ["x", "front", "end"], ["piece"]),
                node("SequenceInsert", ["s", "piece"], ["s1"]), node("SequenceInsert", ["s1", "x"], ["s2"]),
                node("SequenceAt", ["s1", "zero"], ["first"]), node("SequenceInsert", ["t", "first"], ["t1"]),
                node("SequenceInsert", ["u", "piece", "zero"], ["u1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), sequence("s"), sequence("t"), sequence("u")],
            [value("c1", BOOL, []), sequence("s2"), sequence("t1"), sequence("u1")],
        )  # fmt: skip
        nodes = [
            node("SequenceEmpty", [], ["empty"]),
            node("Loop", ["m", "", "empty", "empty", "empty"], ["s", "t", "u"], body=step),
            node("ConcatFromSequence", ["s"], ["y"], axis=0),
        ]
        constants = {"one": numpy.int64(1), "front": ints(0), "zero": numpy.int64(0)}
        self.check(
            nodes, [value("m", INT, []), value("x", FLOAT, [40, 2])],
            [value("y", FLOAT, [None, None]), sequence("s"), sequence("t"), sequence("u")], constants,
            *({"m": numpy.int64(m), "x": random(40, 2)} for m in (40, 1, 3)),
        )  # fmt: skip

    def test_a_list_that_a_loop_made_gets_shorter(self):
        step = body(
            "body", [node("Identity", ["c"], ["c1"]), node("SequenceInsert", ["s", "x"], ["s1"])],
            [value("i", INT, []), value("c", BOOL, []), sequence("s")], [value("c1", BOOL, []), sequence("s1")],
        )  # fmt: skip
        nodes = [
            node("SequenceEmpty", [], ["empty"]), node("Loop", ["m", "", "empty"], ["list"], body=step),
            node("SequenceErase", ["list"], ["y0"]), node("SequenceErase", ["y0"], ["y"]),
        ]  # fmt: skip
        inputs = [value("m", INT, []), value("x", FLOAT, ["N", 2])]
        self.check(nodes, inputs, [sequence("y")], {}, *({"m": numpy.int64(m), "x": random(3, 2)} for m in (2, 5)))

    def test_branches_return_lists_of_other_lengths(self):
        then = body("then", [node("SequenceEmpty", [], ["t"])], [], [sequence("t")])
        inner = body("then", [node("SequenceConstruct", ["x", "x"], ["e0"])], [], [sequence("e0")])
        other = body("else", [node("SequenceInsert", ["s", "x"], ["e1"])], [], [sequence("e1")])
        otherwise = body(
            "else", [node("If", ["d"], ["e"], then_branch=inner, else_branch=other)], [], [sequence("e")]
        )
        nodes = [
            node("SequenceConstruct", ["x"], ["s"]),
            node("If", ["c"], ["y0"], then_branch=then, else_branch=otherwise),
            node("SequenceInsert", ["y0", "x"], ["y"]),
            node("SequenceAt", ["y", "zero"], ["z"]),
        ]
        inputs = [value("c", BOOL, []), value("d", BOOL, []), value("x", FLOAT, ["N", 2])]
        feeds = [
            {"c": numpy.array(c), "d": numpy.array(d), "x": random(3, 2)}
            for c in (False, True) for d in (False, True)
        ]  # fmt: skip
        self.check(nodes, inputs, [sequence("y"), value("z", FLOAT, [None, None])], {"zero": numpy.int64(0)}, *feeds)

    def test_a_map_over_lists(self):
        inner = body(
            "body", [node("Mul", ["a", "b"], ["p"]), node("ReduceSum", ["p"], ["q"], keepdims=0)],
            [value("a", FLOAT, ["K"]), value("b", FLOAT, [1])], [value("p", FLOAT, ["K"]), value("q", FLOAT, [])],
        )  # fmt: skip
        nodes = [node("SequenceMap", ["x", "t"], ["y", "z"], body=inner)]
        inputs, outputs = [sequence("x", shape=["K"]), value("t", FLOAT, [1])], [sequence("y"), sequence("z")]
        lists = [[random(3), random(1), random(4)], [random(2)]]
        self.check(nodes, inputs, outputs, {}, *({"x": x, "t": random(1)} for x in lists))

    def test_a_position_outside_is_an_error(self):
        nodes = [node("SequenceAt", ["x", "p"], ["y"])]
        with tempfile.TemporaryDirectory() as folder:
            path = saved(
                folder, nodes, [sequence("x", shape=["K"]), value("p", INT, [])], [value("y", FLOAT, [None])], {}
            )
            model = fettle.compile(path)
            for position in (2, -3):
                with self.assertRaisesRegex(fettle.Error, "E705"):
                    model.run(x=[random(2), random(3)], p=numpy.int64(position))
            with self.assertRaisesRegex(fettle.Error, "E705"):
                model.run(x=[random(2, 2), random(3, 1)], p=numpy.int64(0))

    def test_elements_that_do_not_fit_are_an_error(self):
        nodes = [node("ConcatFromSequence", ["x"], ["y"], axis=0)]
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, nodes, [sequence("x", shape=["A", "B"])], [value("y", FLOAT, [None, None])], {})
            model = fettle.compile(path)
            with self.assertRaisesRegex(fettle.Error, "ConcatFromSequence.*different extents"):
                model.run(x=[random(2, 2), random(2, 3)])
            with self.assertRaisesRegex(fettle.Error, "E705.*places to gather from"):
                model.run(x=[])


class Optionals(Beside):
    def test_what_may_be_missing(self):
        inner = helper.make_tensor_type_proto(FLOAT, ["N", 2])
        then = body("then", [node("OptionalGetElement", ["x"], ["t"])], [], [value("t", FLOAT, [None, None])])
        otherwise = body("else", [node("Identity", ["y"], ["e"])], [], [value("e", FLOAT, [None, None])])
        nodes = [
            node("OptionalHasElement", ["x"], ["has"]),
            node("If", ["has"], ["z"], then_branch=then, else_branch=otherwise),
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = saved(
                folder, nodes, [optional("x", inner), value("y", FLOAT, [3, 2])],
                [value("has", BOOL, []), value("z", FLOAT, [None, None])], {}, opset=18,
            )  # fmt: skip
            model, x, y = fettle.compile(path), random(4, 2), random(3, 2)
            for given, wanted in ((x, x), (None, y)):
                made = model.run(x=given, y=y)
                self.assertEqual(bool(made["has"]), given is not None)
                numpy.testing.assert_array_equal(made["z"], wanted)

    def test_a_branch_may_return_nothing(self):
        inner = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
        out = [optional("t", inner)]
        then = body("then", [node("Optional", [], ["t"], type=inner)], [], out)
        otherwise = body(
            "else", [node("SequenceConstruct", ["x", "x"], ["s"]), node("Optional", ["s"], ["t"])], [], out
        )
        nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]
        with tempfile.TemporaryDirectory() as folder:
            path = saved(
                folder, nodes, [value("c", BOOL, []), value("x", FLOAT, ["N"])], [optional("y", inner)], {}, opset=18
            )
            model, x = fettle.compile(path), random(3)
            self.assertIsNone(model.run(c=numpy.array(True), x=x)["y"])
            self.assert_same(model.run(c=numpy.array(False), x=x)["y"], [x, x])

    def test_what_is_there_keeps_its_rank(self):
        inner = helper.make_tensor_type_proto(FLOAT, None)
        out = [optional("t", inner)]
        then = body("then", [node("Optional", ["zero"], ["t"])], [], out)
        otherwise = body("else", [node("Optional", ["x"], ["t"])], [], out)
        nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]
        inputs = [value("c", BOOL, []), value("x", FLOAT, ["N"])]
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder, nodes, inputs, [optional("y", inner)], {"zero": numpy.float32(0)}, opset=18)
            with self.assertRaisesRegex(fettle.Error, "E604.*rank depends on the condition"):
                fettle.compile(path)

    def test_nothing_cannot_be_read(self):
        inner = helper.make_tensor_type_proto(FLOAT, [2])
        with tempfile.TemporaryDirectory() as folder:
            path = saved(
                folder, [node("OptionalGetElement", ["x"], ["y"])], [optional("x", inner)], [value("y", FLOAT, [2])],
                {}, opset=18,
            )  # fmt: skip
            model = fettle.compile(path)
            numpy.testing.assert_array_equal(model.run(x=random(2))["y"], random(2))
            with self.assertRaisesRegex(fettle.Error, "the optional has no element"):
                model.run(x=None)


class Maps(Beside):
    def compiled(self, folder, nodes, inputs, outputs):
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        path = os.path.join(folder, "model.onnx")
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return fettle.compile(path), reference_of(path)

    def test_rows_as_maps(self):
        kind = helper.make_sequence_type_proto(
            helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, []))
        )
        nodes = [node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[10, 20, 30])]
        with tempfile.TemporaryDirectory() as folder:
            model, reference = self.compiled(
                folder, nodes, [value("x", FLOAT, ["N", 3])], [helper.make_value_info("y", kind)]
            )
            self.assertEqual(model.structures, [("y", "seq(map(int64, tensor(float)))", True, 0, 2)])
            for n in (1, 4):
                x = random(n, 3)
                self.assert_same(model.run(x=x)["y"], reference.run(None, {"x": x})[0])

    def test_maps_as_rows(self):
        kind = helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, []))
        given = [{1: 2.0, 5: 3.0, 3: -1.0}, {3: 4.0}]
        for nodes in (
            [node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[5, 3, 4])],
            [node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", map_form="SPARSE", max_map=6)],
            [node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", map_form="DENSE")],
        ):
            with self.subTest(nodes[0].op_type), tempfile.TemporaryDirectory() as folder:
                model, reference = self.compiled(
                    folder, nodes, [helper.make_value_info("x", kind)], [value("y", FLOAT, [1, None])]
                )
                for one in given:
                    self.assert_same(model.run(x=one)["y"], reference.run(None, {"x": one})[0])


if __name__ == "__main__":
    unittest.main()
