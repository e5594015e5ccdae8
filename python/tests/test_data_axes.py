"""Axes, steps and scales that data decide, beside ONNX Runtime."""

import tempfile
import unittest

import numpy
from beside_onnxruntime import FLOAT, INT, Beside, compiled_and_reference, ints, node, random, saved, value

import fettle

OPEN = [None, None, None]


class DataAxes(Beside):
    def test_reductions_keep_dims(self):
        kinds = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd", "ReduceL2", "ReduceLogSumExp"]
        self.check(
            [node(kind, ["x", "axes"], [kind]) for kind in kinds],
            [value("x", FLOAT, ["N", 3, 4]), value("axes", INT, ["K"])], [value(kind, FLOAT, OPEN) for kind in kinds],
            {}, *({"x": random(5, 3, 4), "axes": ints(*axes)} for axes in [(0,), (1, -1), (2, 0, 1), (-2,), ()]),
            opset=18,
        )  # fmt: skip

    def test_reductions_drop_dims(self):
        kinds = ["ReduceSum", "ReduceMin", "ReduceSumSquare"]
        self.check(
            [node(kind, ["x", "axes"], [kind], keepdims=0) for kind in kinds],
            [value("x", FLOAT, ["N", "M", 4]), value("axes", INT, [2])], [value(kind, FLOAT, [None]) for kind in kinds],
            {}, *({"x": random(5, 3, 4), "axes": ints(*axes)} for axes in [(0, 1), (2, 0), (-1, -2)]), opset=18,
        )  # fmt: skip

    def test_sums_in_turn(self):
        self.check(
            [node("CumSum", ["x", "axis"], ["a"]), node("CumSum", ["x", "axis"], ["b"], exclusive=1, reverse=1)],
            [value("x", FLOAT, ["N", 3, 4]), value("axis", INT, [])],
            [value("a", FLOAT, ["N", 3, 4]), value("b", FLOAT, ["N", 3, 4])],
            {}, *({"x": random(5, 3, 4), "axis": numpy.int64(axis)} for axis in (0, 1, 2, -1, -3)),
        )  # fmt: skip

    def test_pads_of_some_axes(self):
        self.check(
            [node("Pad", ["x", "pads", "", "axes"], ["y"], mode="reflect"), node("Pad", ["x", "pads", "v", "axes"], ["z"])],
            [value("x", FLOAT, ["N", 3, 4]), value("pads", INT, [4]), value("axes", INT, [2])],
            [value("y", FLOAT, OPEN), value("z", FLOAT, OPEN)], {"v": numpy.float32(7)},
            {"x": random(5, 3, 4), "pads": ints(1, 2, 0, 1), "axes": ints(0, 2)},
            {"x": random(5, 3, 4), "pads": ints(0, 3, 1, 2), "axes": ints(-2, 0)}, opset=18,
        )  # fmt: skip

    def test_slices_of_some_axes(self):
        cases = [((0, 1), (2, 4), (0, 2)), ((-2, -1000), (1 << 62, 3), (-1, 1)), ((3, 0), (1, 1), (2, 0))]
        self.check(
            [node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
            [value("x", FLOAT, ["N", 6, 4]), *(value(name, INT, [2]) for name in ("starts", "ends", "axes"))],
            [value("y", FLOAT, OPEN)], {},
            *({"x": random(5, 6, 4), "starts": ints(*a), "ends": ints(*b), "axes": ints(*c)} for a, b, c in cases),
        )  # fmt: skip

    def test_slices_by_steps(self):
        least, most = -(1 << 63), (1 << 63) - 1
        cases = [
            ((0, 0), (7, 4), (0, 2), (2, 3)), ((-1, 3), (least, 0), (1, 0), (-1, -2)), ((most, 1), (least, 2), (0, 1), (-3, 5)),
            ((5, -1), (-1, -100), (0, 1), (least, -1)), ((1, 0), (most, most), (2, 0), (most, most)), ((2, 2), (2, 1), (0, 1), (1, 1)),
        ]  # fmt: skip
        self.check(
            [node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])],
            [value("x", FLOAT, ["N", 6, 4]), *(value(name, INT, [2]) for name in ("starts", "ends", "axes", "steps"))],
            [value("y", FLOAT, OPEN)], {},
            *({"x": random(7, 6, 4), "starts": ints(*a), "ends": ints(*b), "axes": ints(*c), "steps": ints(*d)}
              for a, b, c, d in cases),
        )  # fmt: skip

    def test_dims_of_one_come_and_go(self):
        self.check(
            [node("Unsqueeze", ["x", "axes"], ["y"]), node("Squeeze", ["y", "axes"], ["z"]), node("Relu", ["z"], ["w"])],
            [value("x", FLOAT, ["N", 3]), value("axes", INT, [2])],
            [value("y", FLOAT, [None] * 4), value("w", FLOAT, [None, None])], {},
            *({"x": random(5, 3), "axes": ints(*axes)} for axes in [(0, 1), (3, 1), (-1, 0), (2, -4)]),
        )  # fmt: skip

    def test_more_axes_than_dims_are_refused(self):
        for made in (node("ReduceSum", ["x", "axes"], ["y"], keepdims=0), node("Squeeze", ["x", "axes"], ["y"])):
            with self.subTest(made.op_type), tempfile.TemporaryDirectory() as folder:
                inputs = [value("x", FLOAT, ["N"]), value("axes", INT, [2])]
                path = saved(folder, [made], inputs, [value("y", FLOAT, [])], {}, opset=18)
                with self.assertRaises(fettle.Error) as raised:
                    fettle.compile(path)
                self.assertEqual(raised.exception.code, "E606")

    def test_axes_that_do_not_exist_are_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            compiled, _ = compiled_and_reference(
                folder, [node("Squeeze", ["x", "axes"], ["y"])],
                [value("x", FLOAT, ["N", "M", 3]), value("axes", INT, [1])], [value("y", FLOAT, [None, None])], {},
            )  # fmt: skip
            for wrong in [ints(3), ints(-4), ints(2), ints(1 << 40)]:
                with self.assertRaises(fettle.Error) as raised:
                    compiled.run(x=random(1, 1, 3), axes=wrong)
                self.assertEqual(raised.exception.code, "E705")
            self.assertEqual(compiled.run(x=random(1, 1, 3), axes=ints(-2))["y"].shape, (1, 3))

    def test_resizing_by_scales(self):
        for mode, where in [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel")]:
            with self.subTest(mode=mode, where=where):
                # Aligned corners are those of extents before they are rounded down, by ONNX; after, by ONNX Runtime.
                odd = (1, 1, 1.5, 1.5) if where == "align_corners" else (1, 1, 0.7, 1.3)
                scales = [(1, 1, 2, 0.5), odd, (1, 1, 1, 3)]
                self.check(
                    [node("Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=where,
                          nearest_mode="floor")],
                    [value("x", FLOAT, ["N", 2, "H", "W"]), value("scales", FLOAT, [4])], [value("y", FLOAT, [None] * 4)], {},
                    *({"x": random(1, 2, 10, 8), "scales": numpy.array(s, dtype=numpy.float32)} for s in scales),
                )  # fmt: skip

    def test_resizing_by_a_scale_that_f32_rounds(self):
        self.check(
            [node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
            [value("x", FLOAT, [1, 1, "H", "W"])], [value("y", FLOAT, [None] * 4)],
            {"scales": numpy.array([1, 1, 0.7, 1.1], dtype=numpy.float32)},
            *({"x": random(1, 1, height, 10)} for height in (10, 20, 7, 1)),
        )  # fmt: skip

    def test_resizing_whose_taps_are_data(self):
        """Crops, and weights that leave out what is outside, with scales and extents that only calls tell."""
        roi = value("roi", FLOAT, [8])
        self.check(
            [node("Resize", ["x", "roi", "", "sizes"], ["y"], mode="linear", extrapolation_value=9.0,
                  coordinate_transformation_mode="tf_crop_and_resize")],
            [value("x", FLOAT, ["N", 2, "H", "W"]), roi], [value("y", FLOAT, [None] * 4)], {"sizes": ints(1, 2, 5, 3)},
            *({"x": random(1, 2, h, w), "roi": numpy.array([0, 0, a, b, 1, 1, c, d], dtype=numpy.float32)}
              for h, w, a, b, c, d in [(6, 7, 0.25, 0.5, 0.75, 1), (4, 9, 0, 0, 1.5, 0.9)]),
        )  # fmt: skip
        self.check(
            [node("Resize", ["x", "", "scales"], ["y"], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)],
            [value("x", FLOAT, ["N", 2, "H", "W"]), value("scales", FLOAT, [4])], [value("y", FLOAT, [None] * 4)], {},
            *({"x": random(1, 2, h, 8), "scales": numpy.array([1, 1, a, b], dtype=numpy.float32)}
              for h, a, b in [(10, 0.5, 2), (4, 1.75, 0.75)]),
        )  # fmt: skip

    # ONNX Runtime's angles are of single precision: what should be nothing is some 1e-6 there.

    def test_transforms_of_any_length_and_axis(self):
        for attributes in [{}, {"onesided": 1}]:
            self.check(
                [node("DFT", ["x", "n", "axis"], ["y"], **attributes)],
                [value("x", FLOAT, ["N", "M", "L", 1]), value("n", INT, []), value("axis", INT, [])],
                [value("y", FLOAT, [None] * 4)], {},
                *({"x": random(2, 6, 5, 1), "n": numpy.int64(n), "axis": numpy.int64(axis)}
                  for n, axis in [(6, 1), (8, -2), (3, 2), (1, 1)]), opset=20, atol=1e-5,
            )  # fmt: skip
        for inverse in [0, 1]:
            self.check(
                [node("DFT", ["x"], ["y"], inverse=inverse)], [value("x", FLOAT, ["N", "L", 2])],
                [value("y", FLOAT, [None] * 3)], {}, *({"x": random(2, n, 2)} for n in (5, 16, 1)), opset=20, atol=1e-5,
            )  # fmt: skip

    def test_frames_of_any_length_and_step(self):
        self.check(
            [node("STFT", ["x", "step", "window"], ["y"])],
            [value("x", FLOAT, ["N", "L", 1]), value("step", INT, []), value("window", FLOAT, ["K"])],
            [value("y", FLOAT, [None] * 4)], {},
            *({"x": random(2, 50, 1), "step": numpy.int64(step), "window": random(k)} for step, k in [(4, 16), (7, 9)]), atol=1e-5,
        )  # fmt: skip

    def test_blocks_and_bins_of_any_size(self):
        self.check(
            [node("Col2Im", ["x", "image", "block"], ["y"], strides=[2, 1], pads=[0, 1, 0, 1])],
            [value("x", FLOAT, ["N", "C", "L"]), value("image", INT, [2]), value("block", INT, [2])],
            [value("y", FLOAT, [None] * 4)], {},
            {"x": random(1, 12, 10), "image": ints(5, 5), "block": ints(2, 3)},
            {"x": random(2, 9, 12), "image": ints(7, 4), "block": ints(3, 3)}, opset=18,
        )  # fmt: skip
        names = ["bins", "length", "rate", "low", "high"]
        self.check(
            [node("MelWeightMatrix", names, ["y"])],
            [value(name, INT if name in names[:3] else FLOAT, []) for name in names], [value("y", FLOAT, [None] * 2)], {},
            *({"bins": numpy.int64(bins), "length": numpy.int64(length), "rate": numpy.int64(8000),
               "low": numpy.float32(20), "high": numpy.float32(3900)} for bins, length in [(8, 64), (20, 256)]),
        )  # fmt: skip


if __name__ == "__main__":
    unittest.main()
