"""Sizes that data decide, beside ONNX Runtime: shapes as inputs, branches of other shapes, loops that grow."""

import tempfile
import unittest

import numpy
from beside_onnxruntime import BOOL, FLOAT, INT, Beside, body, compiled_and_reference, ints, node, random, saved, value
from onnx import helper

import fettle


class LateSizes(Beside):
    def test_a_reshape_by_data(self):
        self.check(
            [node("Relu", ["x"], ["a"]), node("Reshape", ["a", "shape"], ["b"]), node("Softmax", ["b"], ["y"])],
            [value("x", FLOAT, ["N", 12]), value("shape", INT, [3])], [value("y", FLOAT, [None, None, None])], {},
            {"x": random(2, 12), "shape": ints(2, 3, 4)}, {"x": random(2, 12), "shape": ints(0, -1, 2)},
            {"x": random(5, 12), "shape": ints(-1, 1, 1)}, {"x": random(1, 12), "shape": ints(1, 12, 1)},
        )  # fmt: skip

    def test_a_reshape_that_does_not_fit_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            compiled, _ = compiled_and_reference(
                folder, [node("Reshape", ["x", "shape"], ["b"]), node("Relu", ["b"], ["y"])],
                [value("x", FLOAT, [6]), value("shape", INT, [2])], [value("y", FLOAT, [None, None])], {},
            )  # fmt: skip
            for wrong in [ints(2, 4), ints(-1, -1), ints(-2, 3), ints(1 << 40, 1 << 40)]:
                with self.assertRaises(fettle.Error) as raised:
                    compiled.run(x=random(6), shape=wrong)
                self.assertEqual(raised.exception.code, "E705")
            numpy.testing.assert_array_equal(
                compiled.run(x=random(6), shape=ints(3, -1))["y"], numpy.maximum(random(6), 0).reshape(3, 2)
            )

    def test_a_slice_by_data(self):
        feeds = [
            {"x": random(7, 5), "starts": ints(a, b), "ends": ints(c, d)}
            for a, b, c, d in [(0, 1, 3, 4), (-3, 0, -1, 100), (2, 4, 2, 2), (-100, 1, 1 << 62, 2), (6, -1, 7, -2)]
        ]
        self.check(
            [node("Slice", ["x", "starts", "ends"], ["a"]), node("Exp", ["a"], ["y"])],
            [value("x", FLOAT, ["N", 5]), value("starts", INT, [2]), value("ends", INT, [2])],
            [value("y", FLOAT, [None, None])], {}, *feeds,
        )  # fmt: skip

    def test_sizes_that_are_computed(self):
        # The number of tokens that are not padding decides how many rows are kept.
        nodes = [
            node("Equal", ["ids", "pad"], ["is_pad"]), node("Not", ["is_pad"], ["is_token"]),
            node("Cast", ["is_token"], ["ones"], to=INT), node("ReduceSum", ["ones", "axis"], ["count"]),
            node("Slice", ["ids", "zero", "count"], ["kept"]), node("Gather", ["table", "kept"], ["rows"]),
            node("MatMul", ["rows", "w"], ["p"]), node("Concat", ["p", "p"], ["y"], axis=0),
        ]  # fmt: skip
        constants = {
            "pad": numpy.int64(0), "axis": ints(0), "zero": ints(0), "table": random(9, 4), "w": random(4, 6),
        }  # fmt: skip
        self.check(
            nodes, [value("ids", INT, ["N"])], [value("y", FLOAT, [None, 6]), value("count", INT, [1])], constants,
            {"ids": ints(3, 4, 5, 0, 0)}, {"ids": ints(1, 2, 3, 4, 5, 6, 7, 8)}, {"ids": ints(0, 0)},
        )  # fmt: skip

    def test_other_operators_take_sizes_from_data(self):
        nodes = [
            node("Expand", ["row", "shape"], ["a"]), node("Tile", ["row", "times"], ["b"]),
            node("ConstantOfShape", ["shape"], ["c"], value=helper.make_tensor("v", FLOAT, [1], [2.5])),
            node("Pad", ["row", "pads"], ["d"]), node("Split", ["row", "parts"], ["e", "f"], axis=1),
        ]  # fmt: skip
        outputs = [value(name, FLOAT, [None, None]) for name in "abcdef"]
        inputs = [
            value("row", FLOAT, [1, 6]), value("shape", INT, [2]), value("times", INT, [2]), value("pads", INT, [4]),
            value("parts", INT, [2]),
        ]  # fmt: skip
        row = random(1, 6)
        self.check(
            nodes, inputs, outputs, {},
            {"row": row, "shape": ints(3, 6), "times": ints(2, 2), "pads": ints(0, 1, 2, 0), "parts": ints(2, 4)},
            {"row": row, "shape": ints(5, 1), "times": ints(1, 3), "pads": ints(1, -2, 0, 3), "parts": ints(6, 0)},
        )  # fmt: skip

    def test_ranges_by_data(self):
        self.check(
            [node("Range", ["a", "b", "c"], ["r"]), node("Mul", ["r", "r"], ["y"])],
            [value("a", INT, []), value("b", INT, []), value("c", INT, [])], [value("y", INT, [None])], {},
            *[{"a": numpy.int64(a), "b": numpy.int64(b), "c": numpy.int64(c)}
              for a, b, c in [(0, 7, 1), (3, 20, 4), (10, 0, -3), (5, 5, 1), (5, 0, 1)]],
        )  # fmt: skip
        self.check(
            [node("Range", ["a", "b", "c"], ["r"]), node("Neg", ["r"], ["y"])],
            [value("a", FLOAT, []), value("b", FLOAT, []), value("c", FLOAT, [])], [value("y", FLOAT, [None])], {},
            *[{"a": numpy.float32(a), "b": numpy.float32(b), "c": numpy.float32(c)}
              for a, b, c in [(0, 2, 0.25), (1, 0, -0.3), (0, -1, 1)]],
        )  # fmt: skip

    def test_branches_of_other_shapes(self):
        then = body("then", [node("Concat", ["x", "x"], ["t"], axis=0)], [], [value("t", FLOAT, [None, 3])])
        otherwise = body("else", [node("Relu", ["z"], ["e"])], [], [value("e", FLOAT, [None, 3])])
        nodes = [
            node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise), node("ReduceSum", ["y"], ["s"]),
            node("Add", ["y", "y"], ["w"]),
        ]  # fmt: skip
        yes, no = numpy.array(True), numpy.array(False)
        self.check(
            nodes, [value("c", BOOL, []), value("x", FLOAT, ["N", 3]), value("z", FLOAT, ["M", 3])],
            [value("y", FLOAT, [None, 3]), value("s", FLOAT, [1, 1]), value("w", FLOAT, [None, 3])], {},
            {"c": yes, "x": random(2, 3), "z": random(5, 3)}, {"c": no, "x": random(2, 3), "z": random(5, 3)},
            {"c": yes, "x": random(0, 3), "z": random(5, 3)}, {"c": no, "x": random(40, 3), "z": random(1, 3)},
        )  # fmt: skip

    def test_what_a_branch_requires_holds_only_where_it_is_taken(self):
        then = body("then", [node("Add", ["x", "z"], ["t"])], [], [value("t", FLOAT, ["N"])])
        otherwise = body("else", [node("Neg", ["x"], ["e"])], [], [value("e", FLOAT, ["N"])])
        with tempfile.TemporaryDirectory() as folder:
            compiled, _ = compiled_and_reference(
                folder, [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
                [value("c", BOOL, []), value("x", FLOAT, ["N"]), value("z", FLOAT, ["M"])],
                [value("y", FLOAT, ["N"])], {},
            )  # fmt: skip
            x = random(4)
            numpy.testing.assert_array_equal(compiled.run(c=numpy.array(False), x=x, z=random(3))["y"], -x)
            numpy.testing.assert_array_equal(compiled.run(c=numpy.array(True), x=x, z=x)["y"], x + x)
            with self.assertRaises(fettle.Error):
                compiled.run(c=numpy.array(True), x=x, z=random(3))

    def test_a_branch_that_cannot_be_is_refused_when_it_is_taken(self):
        # Squeeze where there is one frame: what follows takes the rank of either branch alone.
        then = body("then", [node("Squeeze", ["x", "last"], ["t"])], [], [value("t", FLOAT, None)])
        otherwise = body("else", [node("Identity", ["x"], ["e"])], [], [value("e", FLOAT, None)])
        nodes = [
            node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "two"], ["frames"]),
            node("Equal", ["frames", "one"], ["c"]),
            node("If", ["c"], ["r"], then_branch=then, else_branch=otherwise), node("MatMul", ["r", "w"], ["y"]),
        ]  # fmt: skip
        constants = {"last": ints(2), "two": numpy.int64(2), "one": numpy.int64(1), "w": random(3, 4)}
        with tempfile.TemporaryDirectory() as folder:
            path = saved(
                folder, nodes, [value("x", FLOAT, [2, 3, "F"])], [value("y", FLOAT, [2, 4])], constants
            )  # fmt: skip
            x = random(2, 3, 1)
            compiled = fettle.compile(path, sizes={"F": {"tune_at": 1}})
            numpy.testing.assert_allclose(compiled.run(x=x)["y"], x[:, :, 0] @ constants["w"], rtol=1e-5, atol=1e-6)
            with self.assertRaisesRegex(fettle.Error, "E705"):
                compiled.run(x=random(2, 3, 2))

    def test_a_branch_whose_shapes_cannot_be_is_not_compiled(self):
        then = body("then", [node("MatMul", ["x", "w"], ["t"])], [], [value("t", FLOAT, [2, 4])])
        otherwise = body("else", [node("MatMul", ["x", "v"], ["e"])], [], [value("e", FLOAT, [2, 4])])
        nodes = [
            node("Equal", ["rate", "high"], ["c"]),
            node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise),
        ]  # fmt: skip
        constants = {"high": numpy.int64(16000), "w": random(3, 4), "v": random(5, 4)}
        with tempfile.TemporaryDirectory() as folder:
            compiled, reference = compiled_and_reference(
                folder, nodes, [value("x", FLOAT, [2, None]), value("rate", INT, [])], [value("y", FLOAT, [2, 4])],
                constants, {"x": [2, 3]},
            )  # fmt: skip
            given = {"x": random(2, 3), "rate": numpy.array(16000)}
            numpy.testing.assert_allclose(compiled.run(**given)["y"], reference.run(None, given)[0], rtol=1e-5, atol=1e-6)
            with self.assertRaisesRegex(fettle.Error, "E705.*branch that cannot be"):
                compiled.run(x=random(2, 3), rate=numpy.array(8000))

    def test_a_loop_in_the_only_branch_that_can_be(self):
        step = body(
            "body",
            [
                node("Add", ["s", "x"], ["s_out"]), node("ReduceSum", ["s_out"], ["sum"], keepdims=0),
                node("Less", ["sum", "most"], ["go_on"]), node("Concat", ["k", "x"], ["k_out"], axis=0),
            ],
            [value("i", INT, []), value("go", BOOL, []), value("s", FLOAT, [2, 3]), value("k", FLOAT, [None, 3])],
            [value("go_on", BOOL, []), value("s_out", FLOAT, [2, 3]), value("k_out", FLOAT, [None, 3]),
             value("s_out", FLOAT, [2, 3])],
        )  # fmt: skip
        then = body(
            "then", [node("Loop", ["", "yes", "x", "x"], ["last", "kept", "rows"], body=step)], [],
            [value("kept", FLOAT, [None, 3]), value("rows", FLOAT, [None, 2, 3])],
        )  # fmt: skip
        otherwise = body(
            "else", [node("MatMul", ["x", "v"], ["e"]), node("Unsqueeze", ["e", "zero"], ["f"])], [],
            [value("e", FLOAT, [2, 3]), value("f", FLOAT, [1, 2, 3])],
        )  # fmt: skip
        nodes = [
            node("Equal", ["rate", "high"], ["c"]),
            node("If", ["c"], ["y", "z"], then_branch=then, else_branch=otherwise),
        ]  # fmt: skip
        constants = {
            "high": numpy.int64(16000), "v": random(5, 3), "yes": numpy.array(True), "most": numpy.float32(20),
            "zero": ints(0),
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            compiled, reference = compiled_and_reference(
                folder, nodes, [value("x", FLOAT, [2, None]), value("rate", INT, [])],
                [value("y", FLOAT, [None, 3]), value("z", FLOAT, [None, 2, 3])], constants, {"x": [2, 3]},
            )  # fmt: skip
            given = {"x": numpy.full((2, 3), 0.5, numpy.float32), "rate": numpy.array(16000)}
            for name, want in zip(("y", "z"), reference.run(None, given)):
                numpy.testing.assert_allclose(compiled.run(**given)[name], want, rtol=1e-5, atol=1e-6)

    def grow(self, extra_nodes=(), extra_outputs=()):
        return body(
            "body",
            [
                node("Identity", ["go"], ["go_on"]), node("Slice", ["kept", "minus_two", "end"], ["last"]),
                node("ReduceSum", ["last"], ["sum"], keepdims=0), node("Unsqueeze", ["sum", "zero"], ["next"]),
                node("Concat", ["kept", "next"], ["grown"], axis=0), *extra_nodes,
            ],
            [value("i", INT, []), value("go", BOOL, []), value("kept", FLOAT, [None])],
            [value("go_on", BOOL, []), value("grown", FLOAT, [None]), *extra_outputs],
        )  # fmt: skip

    def test_a_loop_carries_what_grows(self):
        constants = {
            "yes": numpy.array(True), "minus_two": ints(-2), "end": ints(1 << 62), "zero": ints(0),
        }  # fmt: skip
        self.check(
            [node("Loop", ["n", "yes", "x"], ["y"], body=self.grow()), node("Neg", ["y"], ["z"])],
            [value("n", INT, []), value("x", FLOAT, ["K"])], [value("z", FLOAT, [None])], constants,
            *[{"n": numpy.int64(n), "x": random(k)} for n, k in [(5, 2), (0, 3), (40, 1), (1, 7)]],
        )  # fmt: skip

    def test_a_loop_carries_what_shrinks_and_swaps(self):
        step = body(
            "body",
            [
                node("Identity", ["go"], ["go_on"]), node("Slice", ["a", "one", "end"], ["rest"]),
                node("Relu", ["rest"], ["unused"]), node("Identity", ["b"], ["b_out"]),
            ],
            [value("i", INT, []), value("go", BOOL, []), value("a", FLOAT, [None]), value("b", FLOAT, [None])],
            [value("go_on", BOOL, []), value("b_out", FLOAT, [None]), value("rest", FLOAT, [None])],
        )  # fmt: skip
        constants = {"yes": numpy.array(True), "one": ints(1), "end": ints(1 << 62)}
        self.check(
            [node("Loop", ["n", "yes", "x", "z"], ["p", "q"], body=step)],
            [value("n", INT, []), value("x", FLOAT, ["K"]), value("z", FLOAT, ["M"])],
            [value("p", FLOAT, [None]), value("q", FLOAT, [None])], constants,
            *[{"n": numpy.int64(n), "x": random(7), "z": random(4)} for n in (0, 1, 2, 3, 5, 20)],
        )  # fmt: skip

    def test_a_loop_ends_by_itself_and_stacks(self):
        # No limit: it stacks rows until the sum is large.
        step = body(
            "body",
            [
                node("Add", ["s", "x"], ["s_out"]), node("ReduceSum", ["s_out"], ["sum"], keepdims=0),
                node("Less", ["sum", "most"], ["go_on"]), node("Mul", ["s_out", "s_out"], ["row"]),
            ],
            [value("i", INT, []), value("go", BOOL, []), value("s", FLOAT, [3])],
            [value("go_on", BOOL, []), value("s_out", FLOAT, [3]), value("row", FLOAT, [3])],
        )  # fmt: skip
        for limit in ("", "limit"):
            inputs = [value("x", FLOAT, [3]), value("most", FLOAT, [])]
            feeds = [
                {"x": numpy.full(3, 0.5, numpy.float32), "most": numpy.float32(most)} for most in (-1, 5, 100, 1000)
            ]
            if limit:
                inputs.append(value("limit", INT, []))
                feeds = [{**given, "limit": numpy.int64(n)} for given in feeds for n in (0, 3, 50)]
            self.check(
                [node("Loop", [limit, "yes", "x"], ["last", "rows"], body=step), node("Neg", ["rows"], ["y"])],
                inputs, [value("last", FLOAT, [3]), value("y", FLOAT, [None, 3])], {"yes": numpy.array(True)},
                *feeds,
            )  # fmt: skip

    def test_a_counted_loop_stacks_as_many_rows_as_data_say(self):
        step = body(
            "body",
            [node("Identity", ["go"], ["go_on"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["row"])],
            [value("i", INT, []), value("go", BOOL, [])], [value("go_on", BOOL, []), value("row", FLOAT, [4])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["n", "yes"], ["rows"], body=step)], [value("n", INT, []), value("x", FLOAT, [4])],
            [value("rows", FLOAT, [None, 4])], {"yes": numpy.array(True)},
            *[{"n": numpy.int64(n), "x": random(4)} for n in (3, 0, 17)],
        )  # fmt: skip

    def test_a_loop_in_a_loop_grows(self):
        inner = self.grow()
        outer = body(
            "outer",
            [
                node("Identity", ["go0"], ["go0_on"]), node("Loop", ["n", "yes", "start"], ["long"], body=inner),
                node("ReduceSum", ["long"], ["row"], keepdims=0), node("Concat", ["all", "long"], ["all_out"], axis=0),
            ],
            [value("i0", INT, []), value("go0", BOOL, []), value("start", FLOAT, [None]), value("all", FLOAT, [None])],
            [value("go0_on", BOOL, []), value("long", FLOAT, [None]), value("all_out", FLOAT, [None]),
             value("row", FLOAT, [])],
        )  # fmt: skip
        constants = {
            "yes": numpy.array(True), "minus_two": ints(-2), "end": ints(1 << 62), "zero": ints(0),
        }  # fmt: skip
        self.check(
            [node("Loop", ["m", "yes", "x", "x"], ["a", "b", "c"], body=outer)],
            [value("n", INT, []), value("m", INT, []), value("x", FLOAT, ["K"])],
            [value("a", FLOAT, [None]), value("b", FLOAT, [None]), value("c", FLOAT, [None])], constants,
            *[{"n": numpy.int64(n), "m": numpy.int64(m), "x": numpy.full(k, 0.1, numpy.float32)}
              for n, m, k in [(2, 3, 2), (0, 2, 1), (3, 0, 4), (1, 4, 3)]],
        )  # fmt: skip

    def test_two_numbers_of_data_must_agree_where_they_meet(self):
        nodes = [
            node("Range", ["zero", "n", "one"], ["a"]), node("Range", ["zero", "m", "one"], ["b"]),
            node("Add", ["a", "b"], ["y"]),
        ]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = saved(
                folder, nodes, [value("n", INT, []), value("m", INT, [])], [value("y", INT, [None])],
                {"zero": numpy.int64(0), "one": numpy.int64(1)},
            )  # fmt: skip
            model = fettle.compile(path)
            given = {"n": numpy.int64(3), "m": numpy.int64(3)}
            numpy.testing.assert_array_equal(model.run(**given)["y"], ints(0, 2, 4))
            for m in (5, 2, 0):
                with self.assertRaisesRegex(fettle.Error, "Add"):
                    model.run(n=numpy.int64(3), m=numpy.int64(m))


if __name__ == "__main__":
    unittest.main()
