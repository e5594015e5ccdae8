"""Models that are built in Python, and compiled from memory."""

import gc
import pathlib
import tempfile
import unittest

import ml_dtypes
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import fettle

F32 = "float32"


def random(*shape):
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype(F32)


class Refusing(unittest.TestCase):
    def refused(self, code, text, call, *args, **kwargs):
        with self.assertRaises(fettle.Error) as raised:
            call(*args, **kwargs)
        self.assertEqual(raised.exception.code, code, raised.exception)
        self.assertIn(text, str(raised.exception))


class Graphs(Refusing):
    def test_saved_it_is_the_same_model(self):
        g = fettle.Graph("scaled")
        x = g.input("x", F32, ["N", 4])
        g.output("y", g.MatMul(x, random(4, 3)))
        given = random(2, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "scaled.fettle")
            g.save(path)
            self.refused("E702", "missing", g.save, pathlib.Path(folder, "missing", "scaled.fettle"))
            saved = fettle.compile(path)
            numpy.testing.assert_array_equal(saved(given), fettle.compile(g)(given))
            self.assertEqual((saved.inputs, saved.outputs), (fettle.compile(g).inputs, fettle.compile(g).outputs))

    def test_they_run_on_threads_that_another_library_has(self):
        g = fettle.Graph()
        x = g.input("x", F32, [256, 256])
        g.output("y", g.Relu(g.MatMul(x, x)))
        team = fettle.OpenMpTeam("libgomp.so.1")
        self.assertGreaterEqual(team.size, 1)
        given = random(256, 256)
        numpy.testing.assert_array_equal(fettle.compile(g, team=team)(given), fettle.compile(g)(given))
        self.refused("E709", "no function GOMP_parallel", fettle.OpenMpTeam, "libc.so.6")

    def test_operators_are_methods(self):
        g = fettle.Graph()
        x = g.input("x", numpy.float32, ["N", 3, 8, 8])
        w, b = random(4, 3, 3, 3), random(4)
        y = g.Relu(g.Conv(x, g.constant(w, "w"), b, strides=[2, 2], pads=(1, 1, 1, 1)))
        small, large = g.Split(y, outputs=2, axis=1, num_outputs=2)
        g.output("y", y)
        g.output("large", large)
        g.output("small", small)
        self.assertEqual((y.dtype, y.shape), (F32, ("N", 4, 4, 4)))
        self.assertEqual(large.shape, ("N", 2, 4, 4))
        model = fettle.compile(g)
        self.assertEqual(model.inputs, [("x", F32, ("N", 3, 8, 8))])
        given = random(2, 3, 8, 8)
        padded = numpy.pad(given, [(0, 0), (0, 0), (1, 1), (1, 1)])
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
        want = numpy.maximum(numpy.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None], 0)
        whole, second, first = model(given)
        numpy.testing.assert_allclose(whole, want, rtol=1e-4, atol=1e-5)
        numpy.testing.assert_array_equal(first, whole[:, :2])
        numpy.testing.assert_array_equal(second, whole[:, 2:])

    def test_python_operators(self):
        g = fettle.Graph()
        x, n = g.input("x", F32, [2, 3]), g.input("whole", "int64", [3])
        results = {
            "a": 2 * x + 1, "b": 1 - x, "c": x / 2, "d": x @ random(3, 2), "e": x**2, "f": -x, "g": abs(x),
            "h": x < 0, "i": x >= 0.5, "j": x == x, "k": x != 1, "l": n - 1, "m": ~(x > 0) & (x > -1), "n": numpy.float32(3) * x,
        }  # fmt: skip
        for name, value in results.items():
            g.output(name, value)
        v, k = random(2, 3), numpy.arange(3)
        made = fettle.compile(g).run(x=v, whole=k)
        want = {"a": 2 * v + 1, "b": 1 - v, "c": v / 2, "d": v @ random(3, 2), "e": v**2, "f": -v, "g": abs(v), "h": v < 0,
                "i": v >= 0.5, "j": v == v, "k": v != 1, "l": k - 1, "m": ~(v > 0) & (v > -1), "n": 3 * v}  # fmt: skip
        for name, array in want.items():
            self.assertEqual(made[name].dtype, array.dtype, name)
            numpy.testing.assert_allclose(made[name], array, rtol=1e-5, err_msg=name)
        self.assertRaises(TypeError, bool, x < 0)
        self.assertRaises(TypeError, list, x)
        self.assertEqual(len({x, n, x}), 2)
        self.refused("E605", "0.5 is no int64", lambda: n + 0.5)

    def test_bodies_use_values_around_them(self):
        # Both branches and the graph around have values of the same names.
        g = fettle.Graph()
        x, flag = g.input("x", F32, ["N"]), g.input("flag", "bool", [])
        twice = g.Add(x, x)
        then, otherwise = fettle.Graph("then"), fettle.Graph("otherwise")
        then.output("y", then.Add(then.Add(twice, 1.0), x))
        inner_then, inner_else = fettle.Graph("inner then"), fettle.Graph("inner else")
        scaled = otherwise.Mul(x, 10.0)
        inner_then.output("z", inner_then.Add(scaled, twice))
        inner_else.output("z", inner_else.Neg(x))
        positive = otherwise.Greater(otherwise.ReduceSum(x, keepdims=0), 0.0)
        otherwise.output("y", otherwise.If(positive, then_branch=inner_then, else_branch=inner_else))
        g.output("y", g.If(flag, then_branch=then, else_branch=otherwise))
        model = fettle.compile(g)
        v = numpy.float32([1, 2, -0.5])
        numpy.testing.assert_allclose(model(v, numpy.array(True)), 3 * v + 1)
        numpy.testing.assert_allclose(model(v, numpy.array(False)), 12 * v)
        numpy.testing.assert_allclose(model(-v, numpy.array(False)), v)
        self.refused("E709", "body already", then.Neg, twice)

    def test_loops(self):
        g = fettle.Graph()
        x, step = g.input("x", F32, [2]), g.input("step", F32, [2])
        body = fettle.Graph("body")
        body.input("i", "int64", [])
        going, so_far = body.input("going", "bool", []), body.input("so_far", F32, [2])
        after = body.Add(so_far, step)
        body.output("going", body.Identity(going))
        body.output("after", after)
        body.output("row", after)
        last, rows = g.Loop(g.constant(numpy.int64(4)), None, x, body=body, outputs=2)
        g.output("last", last)
        g.output("rows", rows)
        v, s = numpy.float32([1, 2]), numpy.float32([10, 100])
        made = fettle.compile(g)(v, s)
        numpy.testing.assert_array_equal(made[0], v + 4 * s)
        numpy.testing.assert_array_equal(made[1], [v + i * s for i in (1, 2, 3, 4)])

    def test_outputs_that_are_sequences_or_optionals(self):
        g = fettle.Graph()
        x = g.input("x", "float32", [2])
        g.output("both", g.SequenceConstruct(x, g.Neg(x)))
        g.output("there", g.Optional(x))
        model = fettle.compile(g, threads=1)
        self.assertEqual([(name, kind) for name, kind, *_ in model.structures], [("both", "seq(tensor)"), ("there", "optional(tensor)")])
        both, there = model(numpy.float32([1, 2]))
        self.assertEqual([array.tolist() for array in both], [[1, 2], [-1, -2]])
        self.assertEqual(there.tolist(), [1, 2])

    def test_a_value_may_be_several_outputs_or_none_of_a_node(self):
        g = fettle.Graph()
        x = g.input("x", F32, [2])
        y = g.Neg(x)
        for name, value in {"same": x, "y": y, "again": y, "c": g.constant(numpy.float32([7]))}.items():
            g.output(name, value)
        made = fettle.compile(g).run(x=numpy.float32([1, 2]))
        self.assertEqual({name: array.tolist() for name, array in made.items()},
                         {"same": [1, 2], "y": [-1, -2], "again": [-1, -2], "c": [7]})  # fmt: skip

    def test_constants_of_all_types(self):
        names = ["float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
        narrow = ["bfloat16", "int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
        types = [numpy.dtype(n) for n in names] + [numpy.dtype(getattr(ml_dtypes, n)) for n in narrow]
        for type_ in types:
            with self.subTest(type=type_.name):
                low = -2 if type_.name.startswith(("int", "float", "bf")) else 0
                content = numpy.array([[low, 1, 0], [1, 0, 1]], F32).astype(type_)
                g = fettle.Graph()
                x = g.input("x", type_, [2, 3])
                g.output("y", g.Reshape(x, [3, 2]))
                g.output("c", g.Reshape(g.constant(content), [-1]))
                y, c = fettle.compile(g)(content.T.copy().T)
                self.assertEqual((y.dtype, c.dtype), (type_, type_))
                self.assertEqual(y.tolist(), content.reshape(3, 2).tolist())
                self.assertEqual(c.tolist(), content.ravel().tolist())

    def test_strings(self):
        g = fettle.Graph()
        x = g.input("x", str, [2])
        g.output("y", g.StringConcat(x, g.constant(numpy.array(["a", "é"], object))))
        self.assertEqual(fettle.compile(g)(numpy.array(["1", "2"], object)).tolist(), ["1a", "2é"])

    def test_compiled_models_own_their_constants(self):
        w = fettle.empty((64, 64))  # aligned: nothing has to copy it
        w[...] = 1
        g = fettle.Graph()
        g.output("y", g.input("x", F32, [64, 64]) + g.constant(w))
        model = fettle.compile(g)
        w[...] = 5
        del g
        gc.collect()
        numpy.testing.assert_array_equal(model(numpy.zeros((64, 64), F32)), numpy.ones((64, 64)))


    def test_errors_come_at_once(self):
        g = fettle.Graph()
        x, n = g.input("x", F32, [2, 3]), g.input("n", "int64", [2])
        self.refused("E606", 'has no attribute "axes"; is "axis" meant?', g.Softmax, x, axes=1)
        self.refused("E606", "Softmax has 2 inputs instead of 1", g.Softmax, x, x)
        self.refused("E606", "Conv has 1 inputs", g.Conv, x)
        self.refused("E606", "takes no tensor(int64)", g.Sigmoid, n)
        self.refused("E605", "of one type", g.Add, x, n)
        self.refused("E606", 'Cast lacks the attribute "to"', g.Cast, x)
        self.refused("E606", 'the attribute "perm" of Transpose is of kind ints, not float', g.Transpose, x, perm=0.5)
        self.refused("E705", "models have no float3", g.Cast, x, to="float3")
        self.refused("E603", "Cnov", g.node, "Cnov", [x])
        self.refused("E603", "com.example.Swish", g.node, "Swish", [x], domain="com.example")
        self.refused("E603", "comes with opset", fettle.Graph(opset=12).node, "Trilu", [])
        self.refused("E605", "two inputs", g.input, "x", F32, [1])
        self.refused("E609", "opset 99", fettle.Graph, opset=99)
        self.refused("E605", "no outputs", fettle.compile, g)
        self.assertRaisesRegex(AttributeError, "no operator Cnov", getattr, g, "Cnov")
        g.output("y", x)
        self.refused("E605", "two outputs", g.output, "y", x)
        other = fettle.Graph()
        other.output("y", other.Neg(x))
        self.refused("E605", '"x" is of another graph', fettle.compile, other)
        self.assertEqual(fettle.compile(g)(numpy.ones((2, 3), F32), numpy.ones(2, int)).shape, (2, 3))  # nothing that was refused is in it

    def test_says_what_there_is(self):
        g = fettle.Graph(opset=13)
        self.assertIn("Conv", dir(g))
        self.assertNotIn("Trilu", dir(g))
        self.assertIn("Trilu", dir(fettle.Graph()))
        self.assertIn("strides: ints", g.Conv.__doc__)
        self.assertIn("W: bfloat16, double, float, float16", fettle.Graph().Conv.__doc__)
        import inspect
        self.assertEqual(str(inspect.signature(g.Cast)), "(input, /, *, outputs=1, name=None, to)")
        x = g.input("x", F32, [2])
        self.assertEqual(repr(g.Cast(x, to=numpy.int64)), "<fettle.Value Cast: int64>")
        self.assertEqual(str(g), "input x: tensor(float)\nCast = Cast(x)\n")

    def test_opsets_differ(self):
        for opset in (11, 13):
            g = fettle.Graph(opset=opset)
            x = g.input("x", F32, [1, 3])
            y = g.Squeeze(x, axes=[0]) if opset == 11 else g.Squeeze(x, [0])
            self.assertEqual(y.shape, (3,))

    def test_other_domains(self):
        g = fettle.Graph()
        x = g.input("x", F32, [2, 3])
        w = random(3, 4)
        g.output("y", g.node("FusedMatMul", [x, w], domain="com.microsoft", alpha=2))
        g.output("z", g.node("Binarizer", [x], domain="ai.onnx.ml", threshold=0.5))
        v = random(2, 3)
        y, z = fettle.compile(g)(v)
        numpy.testing.assert_allclose(y, 2 * v @ w, rtol=1e-5)
        numpy.testing.assert_array_equal(z, v > 0.5)

    def test_names_are_the_same_each_time(self):
        def text():
            g = fettle.Graph()
            x = g.input("Add", F32, [2])
            for _ in range(3):
                x = x + 1
            g.output("Add_1", x)
            return fettle.compile(g).outputs, [v[0] for v in fettle.compile(g).inputs]

        self.assertEqual(text(), text())
        self.assertEqual(text()[1], ["Add"])


class Sources(Refusing):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def proto(self):
        w = numpy_helper.from_array(numpy.full((3, 64), 2, F32), "w")
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x", 1, ["N", 3])],
                                  [value("y", 1, None)], [w])  # fmt: skip
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

    def test_each_is_the_same_model(self):
        proto = self.proto()
        path = pathlib.Path(self.folder.name) / "model.onnx"
        onnx.save(proto, path)
        data = proto.SerializeToString()
        for source in str(path), path, data, bytearray(data), memoryview(data), proto:
            numpy.testing.assert_array_equal(fettle.compile(source)(numpy.ones((1, 3), F32)), numpy.full((1, 64), 6))
        self.refused("E602", "", fettle.compile, data[:-3])
        self.assertRaisesRegex(TypeError, "a fettle.Graph or a comprehension, not int", fettle.compile, 3)
        self.assertRaisesRegex(TypeError, "fettle.compile", fettle.Model, str(path))

    def test_external_data_need_a_folder(self):
        path = pathlib.Path(self.folder.name) / "model.onnx"
        onnx.save(self.proto(), path, save_as_external_data=True, size_threshold=0, location="weights.bin")
        data = path.read_bytes()
        self.refused("E607", '"weights.bin" is a file, and the model has no folder', fettle.compile, data)
        for model in fettle.compile(data, folder=self.folder.name), fettle.compile(path):
            numpy.testing.assert_array_equal(model(numpy.ones((1, 3), F32)), numpy.full((1, 64), 6))


if __name__ == "__main__":
    unittest.main()
