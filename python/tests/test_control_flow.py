"""If, Loop and Scan beside ONNX Runtime: values from around, early exit, swapped values, directions and axes, nesting."""

import unittest

import numpy
from beside_onnxruntime import BOOL, FLOAT, INT, Beside, body, node, random, value
from onnx import numpy_helper


class ControlFlow(Beside):
    def test_branches_read_values_from_around(self):
        then = body(
            "then",
            [node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["t"])],
            [], [value("t", FLOAT, [4, 8])],
        )  # fmt: skip
        otherwise = body("else", [node("Neg", ["x"], ["e"])], [], [value("e", FLOAT, [4, 8])])
        nodes = [
            node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
            node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise), node("Add", ["y", "x"], ["z"]),
        ]  # fmt: skip
        x = numpy.abs(random(4, 8))
        self.check(
            nodes, [value("x", FLOAT, [4, 8])], [value("z", FLOAT, [4, 8])],
            {"w": random(8, 8), "zero": numpy.float32(0)}, {"x": x}, {"x": -x},
        )  # fmt: skip

    def test_a_branch_may_return_what_it_is_given_and_constants(self):
        then = body("then", [node("Identity", ["x"], ["t"])], [], [value("t", FLOAT, [3])])
        otherwise = body(
            "else", [node("Constant", [], ["e"], value=numpy_helper.from_array(random(3)))], [], [value("e", FLOAT, [3])]
        )
        self.check(
            [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
            [value("c", BOOL, []), value("x", FLOAT, [3])], [value("y", FLOAT, [3])], {},
            {"c": numpy.array(True), "x": random(3)}, {"c": numpy.array(False), "x": random(3)},
        )  # fmt: skip

    def test_a_loop_carries_and_stacks(self):
        step = body(
            "body",
            [
                node("MatMul", ["s", "w"], ["a"]), node("Add", ["a", "x"], ["b"]), node("Tanh", ["b"], ["s1"]),
                node("Cast", ["i"], ["n"], to=FLOAT), node("Mul", ["s1", "n"], ["o"]), node("Identity", ["c"], ["c1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [4, 8])],
            [value("c1", BOOL, []), value("s1", FLOAT, [4, 8]), value("o", FLOAT, [4, 8])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["m", "", "x0"], ["last", "rows"], body=step)],
            [value("x", FLOAT, [4, 8]), value("x0", FLOAT, [4, 8])],
            [value("last", FLOAT, [4, 8]), value("rows", FLOAT, [5, 4, 8])],
            {"w": random(8, 8), "m": numpy.int64(5)}, {"x": random(4, 8), "x0": random(4, 8) * 0.5},
        )  # fmt: skip

    def test_a_loop_ends_early_and_swaps_what_it_carries(self):
        step = body(
            "body",
            [
                node("Add", ["b", "one"], ["a1"]), node("Identity", ["a"], ["b1"]),
                node("ReduceSum", ["a1"], ["sum"], keepdims=0), node("Less", ["sum", "limit"], ["c1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), value("a", FLOAT, [4]), value("b", FLOAT, [4])],
            [value("c1", BOOL, []), value("a1", FLOAT, [4]), value("b1", FLOAT, [4])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["", "", "p", "q"], ["x", "y"], body=step)],
            [value("p", FLOAT, [4]), value("q", FLOAT, [4])], [value("x", FLOAT, [4]), value("y", FLOAT, [4])],
            {"one": numpy.float32(1), "limit": numpy.float32(30)}, {"p": random(4), "q": random(4) + 1},
        )  # fmt: skip

    def test_the_number_of_iterations_may_be_an_input(self):
        step = body(
            "body",
            [node("Mul", ["s", "two"], ["s1"]), node("Identity", ["c"], ["c1"])],
            [value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [3])],
            [value("c1", BOOL, []), value("s1", FLOAT, [3])],
        )  # fmt: skip
        feeds = [
            {"m": numpy.array(m, numpy.int64), "go": numpy.array(go), "x": random(3)}
            for m, go in ((0, True), (1, True), (7, True), (7, False), (-3, True), (300, True))
        ]
        self.check(
            [node("Loop", ["m", "go", "x"], ["y"], body=step)],
            [value("m", INT, []), value("go", BOOL, []), value("x", FLOAT, [3])], [value("y", FLOAT, [3])],
            {"two": numpy.float32(0.9)}, *feeds,
        )  # fmt: skip

    def test_the_number_of_a_small_loops_iterations_may_be_an_input(self):
        step = body(
            "body",
            [node("Mul", ["s", "s"], ["q"]), node("Sub", ["q", "half"], ["s1"]), node("Identity", ["c"], ["c1"])],
            [value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [40])],
            [value("c1", BOOL, []), value("s1", FLOAT, [40])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["m", "", "x"], ["y"], body=step)], [value("m", INT, []), value("x", FLOAT, [40])],
            [value("y", FLOAT, [40])], {"half": numpy.float32(0.5)},
            *({"m": numpy.array(m, numpy.int64), "x": random(40) * 0.1} for m in (0, 1, 7, -3, 300)),
        )  # fmt: skip

    def test_scan_directions_and_axes(self):
        step = body(
            "body",
            [node("Add", ["s", "x"], ["s1"]), node("Mul", ["s1", "y"], ["o"]), node("Identity", ["s1"], ["o2"])],
            [value("s", FLOAT, [5]), value("x", FLOAT, [5]), value("y", FLOAT, [5])],
            [value("s1", FLOAT, [5]), value("o", FLOAT, [5]), value("o2", FLOAT, [5])],
        )  # fmt: skip
        scan = node(
            "Scan", ["s0", "xs", "ys"], ["last", "os", "os2"], body=step, num_scan_inputs=2, scan_input_axes=[1, -1],
            scan_input_directions=[0, 1], scan_output_axes=[0, -1], scan_output_directions=[0, 1],
        )  # fmt: skip
        self.check(
            [scan], [value("s0", FLOAT, [5]), value("xs", FLOAT, [5, 7]), value("ys", FLOAT, [5, 7])],
            [value("last", FLOAT, [5]), value("os", FLOAT, [7, 5]), value("os2", FLOAT, [5, 7])], {},
            {"s0": random(5), "xs": random(5, 7), "ys": random(7, 5).T.copy()},
        )  # fmt: skip

    def check_small_loop(self, count, rows, values, counts, feeds):
        """Carries a vector, one number for all, a truth value an element, and a count; reads rows; stacks rows."""
        step = body(
            "body",
            [
                node("Gather", ["x", "i"], ["row"]), node("Mul", ["s", "decay"], ["kept"]),
                node("Add", ["kept", "row"], ["sum"]), node("Where", ["high", "row", "sum"], ["chosen"]),
                node("Max", ["chosen", "low"], ["s1"]), node("Greater", ["s1", "bias"], ["high1"]),
                node("Mul", ["decay", "half"], ["slower"]), node("Add", ["slower", "half"], ["decay1"]),
                node("Add", ["n", "i"], ["n1"]), node("Cast", ["n1"], ["nf"], to=FLOAT),
                node("Add", ["s1", "nf"], ["out"]), node("Tanh", ["s1"], ["out2"]), node("Identity", ["c"], ["c1"]),
            ],
            [
                value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [values]), value("decay", FLOAT, [1]),
                value("high", BOOL, [values]), value("n", INT, []),
            ],
            [
                value("c1", BOOL, []), value("s1", FLOAT, [values]), value("decay1", FLOAT, [1]),
                value("high1", BOOL, [values]), value("n1", INT, []), value("out", FLOAT, [values]),
                value("out2", FLOAT, [values]), value("nf", FLOAT, []),
            ],
        )  # fmt: skip
        outputs = [
            value("last", FLOAT, [values]), value("decays", FLOAT, [1]), value("highs", BOOL, [values]),
            value("total", INT, []), value("outs", FLOAT, [rows, values]), value("outs2", FLOAT, [rows, values]),
            value("counts", FLOAT, [rows]),
        ]  # fmt: skip
        loop = node("Loop", ["m", "", "s0", "d0", "h0", "n0"], [o.name for o in outputs], body=step)
        constants = {
            "half": numpy.float32(0.5), "low": numpy.float32(-0.75), "bias": feeds[0]["s0"] * 0.25,
            "n0": numpy.int64(7), "d0": numpy.array([0.25], numpy.float32), **counts,
        }  # fmt: skip
        inputs = [
            value("s0", FLOAT, [values]), value("h0", BOOL, [values]), value("x", FLOAT, [count, values]),
        ]  # fmt: skip
        nodes = [loop]
        if not counts:
            nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["m"]), loop]
            constants["zero"] = numpy.int64(0)
        self.check(nodes, inputs, outputs, constants, *feeds)

    def test_small_loops_of_elementwise_work(self):
        for n in (1, 3, 16, 37, 64, 200):
            for rows in (0, 1, 2, 25):
                feed = {"s0": random(n), "h0": random(n) > 0, "x": random(max(rows, 1), n)}
                feed["x"][0, n // 2] = numpy.nan
                with self.subTest(values=n, rows=rows):
                    self.check_small_loop(max(rows, 1), rows, n, {"m": numpy.int64(rows)}, [feed])

    def test_small_loops_of_open_sizes(self):
        def feed(rows, n):
            return {"s0": random(n), "h0": random(n) > 0, "x": random(rows, n)}

        self.check_small_loop("T", "T", 24, {}, [feed(rows, 24) for rows in (9, 1, 0, 40)])
        self.check_small_loop(6, 6, 20, {"m": numpy.int64(6)}, [feed(6, 20)])

    def test_scans_of_open_sizes(self):
        step = body(
            "body",
            [node("Mul", ["s", "s"], ["q"]), node("Sub", ["x", "q"], ["s1"]), node("Identity", ["s1"], ["o"])],
            [value("s", FLOAT, ["N"]), value("x", FLOAT, ["N"])], [value("s1", FLOAT, ["N"]), value("o", FLOAT, ["N"])],
        )  # fmt: skip
        for direction in (0, 1):
            scan = node(
                "Scan", ["s0", "xs"], ["last", "os"], body=step, num_scan_inputs=1,
                scan_input_directions=[direction], scan_output_directions=[1 - direction],
            )  # fmt: skip
            self.check(
                [scan], [value("s0", FLOAT, ["N"]), value("xs", FLOAT, ["T", "N"])],
                [value("last", FLOAT, ["N"]), value("os", FLOAT, ["T", "N"])], {},
                *({"s0": random(n) * 0.1, "xs": random(t, n) * 0.1} for t, n in ((5, 70), (1, 3), (60, 16), (3, 1))),
            )  # fmt: skip

    def test_values_of_two_shapes_that_need_each_other_are_steps(self):
        step = body(
            "body",
            [
                node("Add", ["v", "s"], ["v1"]), node("ReduceMax", ["v1"], ["s1"], keepdims=1),
                node("Identity", ["c"], ["c1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), value("v", FLOAT, [8]), value("s", FLOAT, [1])],
            [value("c1", BOOL, []), value("v1", FLOAT, [8]), value("s1", FLOAT, [1])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["m", "", "v0", "s0"], ["v", "s"], body=step)],
            [value("v0", FLOAT, [8]), value("s0", FLOAT, [1])], [value("v", FLOAT, [8]), value("s", FLOAT, [1])],
            {"m": numpy.int64(4)}, {"v0": random(8), "s0": random(1)},
        )  # fmt: skip

    def test_nesting(self):
        inner = body(
            "inner",
            [node("Add", ["v", "s"], ["v1"]), node("Identity", ["c"], ["c2"]), node("Mul", ["v1", "v1"], ["sq"])],
            [value("j", INT, []), value("c", BOOL, []), value("v", FLOAT, [3])],
            [value("c2", BOOL, []), value("v1", FLOAT, [3]), value("sq", FLOAT, [3])],
        )  # fmt: skip
        then = body("then", [node("Neg", ["s2"], ["r"])], [], [value("r", FLOAT, [3])])
        otherwise = body("else", [node("Mul", ["s2", "x"], ["r"])], [], [value("r", FLOAT, [3])])
        outer = body(
            "outer",
            [
                node("Loop", ["three", "", "s"], ["s2", "squares"], body=inner), node("Mod", ["i", "two"], ["odd"]),
                node("Equal", ["odd", "zero"], ["even"]),
                node("If", ["even"], ["s3"], then_branch=then, else_branch=otherwise), node("Identity", ["c"], ["c1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [3])],
            [value("c1", BOOL, []), value("s3", FLOAT, [3]), value("squares", FLOAT, [3, 3])],
        )  # fmt: skip
        numbers = {name: numpy.int64(n) for name, n in (("m", 4), ("three", 3), ("two", 2), ("zero", 0))}
        self.check(
            [node("Loop", ["m", "", "x"], ["last", "all"], body=outer)], [value("x", FLOAT, [3])],
            [value("last", FLOAT, [3]), value("all", FLOAT, [4, 3, 3])], numbers, {"x": random(3)},
        )  # fmt: skip

    def test_what_does_not_depend_on_a_loop_leaves_it(self):
        step = body(
            "body",
            [
                node("Exp", ["x"], ["e"]), node("MatMul", ["e", "w"], ["p"]), node("Add", ["s", "p"], ["s1"]),
                node("Identity", ["c"], ["c1"]),
            ],
            [value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [2, 4])],
            [value("c1", BOOL, []), value("s1", FLOAT, [2, 4])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["m", "", "x"], ["y"], body=step)], [value("x", FLOAT, [2, 4])],
            [value("y", FLOAT, [2, 4])], {"w": random(4, 4), "m": numpy.int64(3)}, {"x": random(2, 4)},
        )  # fmt: skip

    def test_a_shape_may_change(self):
        step = body(
            "body",
            [node("Concat", ["s", "x"], ["s1"], axis=0), node("Identity", ["c"], ["c1"])],
            [value("i", INT, []), value("c", BOOL, []), value("s", FLOAT, [None])],
            [value("c1", BOOL, []), value("s1", FLOAT, [None])],
        )  # fmt: skip
        self.check(
            [node("Loop", ["m", "", "x"], ["y"], body=step)], [value("x", FLOAT, [2])], [value("y", FLOAT, [None])],
            {"m": numpy.int64(3)}, {"x": random(2)},
        )  # fmt: skip


if __name__ == "__main__":
    unittest.main()
