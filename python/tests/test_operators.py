"""Operators of one's own: what they may be, and how mistakes in them are told."""

import pathlib
import tempfile
import unittest

import numpy
import onnx
from onnx import TensorProto, helper

import fettle
from fettle import te


def run(nodes, inputs, outputs=("y",)):
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for name, x in inputs.items()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", values, made)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("test", 1)])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return fettle.compile(path).run(**inputs)


def own(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), domain="test", **attributes)


x = numpy.arange(12, dtype="float32").reshape(3, 4) / 8 - 0.5


class Operators(unittest.TestCase):
    def test_inputs_broadcast_and_may_be_left_out(self):
        @fettle.operator("test.ScaleShift", pointwise=True)
        def scale_shift(x, scale, shift=None, *, power=1):
            def element(*i):
                value = x[i] * scale[i[1:]]
                for _ in range(power - 1):
                    value = value * x[i]
                return value if shift is None else value + shift[i[1:]]
            return te.compute(x.shape, element, name="scale_shift")

        scale, shift = x[0] + 1, x[1]
        inputs = {"x": x, "s": scale, "t": shift}
        y = run([own("ScaleShift", "xst", power=2)], inputs)["y"]
        numpy.testing.assert_allclose(y, x * x * scale + shift, rtol=1e-6)
        y = run([own("ScaleShift", "xs")], {"x": x, "s": scale})["y"]
        numpy.testing.assert_allclose(y, x * scale, rtol=1e-6)

    def test_halves_are_computed_in_single_precision(self):
        @fettle.operator("test.Square", pointwise=True)
        def square(x):
            self.assertEqual(x.dtype, "f32")
            return te.compute(x.shape, lambda *i: x[i] * x[i] / 1024, name="square")

        half = numpy.array([[300, 512]], dtype="float16")  # whose squares are none
        numpy.testing.assert_array_equal(run([own("Square", "x")], {"x": half})["y"],
                                         numpy.array([[300 * 300 / 1024, 256]], dtype="float16"))

    def test_several_outputs_and_types(self):
        @fettle.operator("test.MaxAndPlace", fusion="reduction",
                         shape=lambda x: [((x[0],), "f32"), ((x[0],), "i64")])
        def max_and_place(x):
            k = te.reduce_axis(x.shape[1], "k")
            greatest = te.compute((x.shape[0],), lambda i: te.max(x[i, k], axis=k), name="greatest")
            places = te.compute((x.shape[0],), lambda i: te.argmax(k, x[i, k], axis=k), name="place")
            return greatest, places[0]

        y = run([own("MaxAndPlace", "x", ("y", "z"))], {"x": x}, ("y", "z"))
        numpy.testing.assert_array_equal(y["y"], x.max(1))
        numpy.testing.assert_array_equal(y["z"], x.argmax(1))

    def test_shapes_are_those_of_the_expressions(self):
        @fettle.operator("test.Twice", moves=True)
        def twice(x):
            n = x.shape[0]
            return te.compute((2 * n, x.shape[1]), lambda i, j: x[i % n, j], name="twice")

        numpy.testing.assert_array_equal(run([own("Twice", "x")], {"x": x})["y"], numpy.concatenate([x, x]))

    def refused(self, code, text, *args):
        with self.assertRaises(fettle.Error) as caught:
            run(*args)
        self.assertEqual(caught.exception.code, code)
        self.assertIn(text, str(caught.exception))

    def test_mistakes(self):
        fettle.operator("test.Reversed", pointwise=True)(
            lambda x: te.compute(x.shape, lambda i, j: x[x.shape[0] - 1 - i, j], name="reversed"))
        self.refused("E605", "pointwise", [own("Reversed", "x")], {"x": x})
        fettle.operator("test.NoTensor")(lambda x: 3)
        self.refused("E605", "tensor", [own("NoTensor", "x")], {"x": x})
        self.refused("E606", "slope", [own("NoTensor", "x", slope=1.0)], {"x": x})
        fettle.operator("test.WrongShape", shape=lambda x: (x[0],))(
            lambda x: te.compute(x.shape, lambda i, j: x[i, j], name="same"))
        self.refused("E605", "type", [own("WrongShape", "x")], {"x": x})
        self.refused("E603", "test.Unknown", [own("Unknown", "x")], {"x": x})

        @fettle.operator("test.Raises")
        def raises(x):
            raise KeyError("of its own")

        with self.assertRaises(KeyError):
            run([own("Raises", "x")], {"x": x})

    def test_what_cannot_be_registered(self):
        for name in ("", "Relu", "test.", "test.a b"):
            with self.assertRaises(fettle.Error) as caught:
                fettle.operator(name)(lambda x: x)
            self.assertEqual(caught.exception.code, "E709")
        with self.assertRaises(fettle.Error):
            fettle.operator("test.Fusion", fusion="sideways")(lambda x: x)
        with self.assertRaises(fettle.Error):
            fettle.operator("test.Both", pointwise=True, fusion="reduction")(lambda x: x)


if __name__ == "__main__":
    unittest.main()
