"""Models and their contexts."""

import json
import os
import sys
import tempfile
import threading
import time
import unittest

import numpy
import onnx
from onnx import TensorProto, helper

import fettle


def relu_file(folder):
    """y = relu(x), twice = y + y, of [2, 3]."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Add", ["y", "y"], ["twice"])]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "relu", [value("x")], [value("y"), value("twice")])
    path = os.path.join(folder, "relu.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def on_four_threads(work):
    """work(0) … work(3), at once."""
    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = fettle.compile(relu_file(cls.folder.name), threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def refused(self, code, text, call, *args, **kwargs):
        with self.assertRaises(fettle.Error) as raised:
            call(*args, **kwargs)
        self.assertEqual(raised.exception.code, code)
        self.assertIn(text, str(raised.exception))

    def test_describes_itself(self):
        self.assertEqual(self.model.inputs, [("x", "float32", (2, 3))])
        self.assertEqual([name for name, *_ in self.model.outputs], ["y", "twice"])

    def test_several_targets_of_which_one_is_taken(self):
        x = numpy.random.default_rng(3).standard_normal((2, 300), numpy.float32)
        g = fettle.Graph()
        w = numpy.random.default_rng(4).standard_normal((300, 200), numpy.float32)
        g.output("y", g.input("x", "float32", [2, 300]) @ w)
        for cache in (False, True):
            given = dict(target=["x86-64-v3", "x86-64-v4", "native"], threads=1, cache=cache)
            taken = fettle.compile(g, **given)
            self.assertIn(taken.target, given["target"])
            numpy.testing.assert_allclose(taken(x), x @ w, rtol=1e-3, atol=1e-3)
            try:
                os.environ["FETTLE_TARGET"] = "x86-64-v3"
                model = fettle.compile(g, **given)
                self.assertEqual(model.target, "x86-64-v3")
                numpy.testing.assert_allclose(model(x), x @ w, rtol=1e-3, atol=1e-3)
                os.environ["FETTLE_TARGET"] = "x86-64-v1"
                self.refused("E707", "no target 'x86-64-v1', which FETTLE_TARGET asks for", fettle.compile, g, **given)
            finally:
                del os.environ["FETTLE_TARGET"]
        self.refused("E709", "cuda is no x86-64 processor", fettle.compile, g, target="x86-64-v3,cuda")

    def test_denormal_numbers_are_zero_unless_kept(self):
        g = fettle.Graph()
        g.output("y", g.input("x", "float32", [64]) * numpy.float32(0.5))
        x = numpy.full(64, 1e-38, numpy.float32)
        for keep, halved in ((False, 0), (True, numpy.float32(5e-39))):
            numpy.testing.assert_array_equal(fettle.compile(g, keep_denormals=keep)(x), numpy.full(64, halved))
        numpy.testing.assert_array_equal(x * numpy.float32(0.5), numpy.full(64, 5e-39, numpy.float32))

    def test_arrays_may_lie_anyhow(self):
        x = numpy.arange(-3, 3, dtype=numpy.float32).reshape(2, 3)
        right = numpy.maximum(x, 0)
        wide = numpy.zeros((4, 6), numpy.float32)
        wide[::2, ::2] = x
        unaligned = numpy.frombuffer(b"-" + x.tobytes(), numpy.float32, offset=1).reshape(2, 3)
        for given in x, numpy.asfortranarray(x), wide[::2, ::2], x[::-1][::-1], unaligned, x.astype(">f4"), x.tolist():
            if isinstance(given, list):
                given = numpy.array(given, numpy.float32)
            outputs = self.model.run(x=given)
            numpy.testing.assert_array_equal(outputs["y"], right)
            numpy.testing.assert_array_equal(outputs["twice"], 2 * right)
            outputs["y"][0, 0] = 5  # it is the caller's
        numpy.testing.assert_array_equal(self.model.run(x=numpy.flip(x))["y"], numpy.flip(x).clip(0))

    def test_refuses_what_does_not_fit(self):
        context = self.model.context()
        for run in self.model.run, context.run, context.begin:
            self.refused("E704", "input 'x' f32[2, 3] is missing", run)
            self.refused("E705", "input 'x' is f32[3, 2], expected f32[2, 3]: axis 0 is 3, not 2", run,
                         x=numpy.zeros((3, 2), numpy.float32))
            self.refused("E705", "input 'x' is f64[2, 3], expected f32[2, 3]", run, x=numpy.zeros((2, 3)))

    def test_timelines(self):
        path = os.path.join(self.folder.name, "trace.json")
        self.model.trace(path, numpy.ones((2, 3), "float32"), runs=2)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual(sum(event.get("cat") == "run" for event in events), 2)
        self.assertGreaterEqual(sum(event.get("cat") == "kernel" for event in events), 2)
        os.remove(path)
        self.model.trace(path, runs=1)  # of random inputs
        self.assertTrue(os.path.exists(path))
        other = os.path.join(self.folder.name, "other.json")
        self.refused("E705", "it is float64, and the model takes float32", self.model.trace, other, numpy.zeros((2, 3)))
        self.refused("E705", "", self.model.trace, other, x=numpy.zeros((3, 2), "float32"))
        self.refused("E704", "the model has no input 'z'", self.model.trace, other, z=numpy.zeros(2, "float32"))
        self.refused("E704", "given twice", self.model.trace, other, numpy.zeros((2, 3), "float32"), x=numpy.zeros((2, 3)))
        self.refused("E709", "runs", self.model.trace, other, runs=0)
        self.assertFalse(os.path.exists(other))
        self.refused("E702", "", self.model.trace, os.path.join(self.folder.name, "no", "trace.json"))

    def test_threads_run_it_at_once(self):
        wrong = []

        def work(number):
            context = self.model.context()
            for i in range(50):
                x = numpy.full((2, 3), number * 100 + i, numpy.float32)
                for run in self.model.run, context.run:
                    if not (run(x=x)["twice"] == 2 * x).all():
                        wrong.append((number, i))

        on_four_threads(work)
        self.assertEqual(wrong, [])

    def test_calls_are_begun_and_awaited(self):
        context = self.model.context()
        self.refused("E710", "no call was begun", context.wait)
        for i in range(3):
            context.begin(x=numpy.full((2, 3), i, numpy.float32))
            self.refused("E710", "is being used", context.run, x=numpy.zeros((2, 3), numpy.float32))
            self.assertEqual(context.wait()["twice"][1, 2], 2 * i)
        context.cancel()  # nothing is under way
        self.assertEqual(context.run(x=numpy.ones((2, 3), numpy.float32))["y"][0, 0], 1)

    def test_states_are_asked_for_by_name(self):
        context = self.model.context()
        self.refused("E705", "the model has no state 'cache'; it has none", context.state, "cache")
        self.refused("E705", "the model has no state 'cache'", context.set_state, "cache", numpy.zeros(1))
        context.reset_states()

    def test_types_of_less_than_a_byte(self):
        import ml_dtypes
        values = numpy.float32([-9, -1, -0.3, 2.5, 7, 300])
        types = {22: "int4", 25: "uint2", 17: "float8_e4m3fn", 19: "float8_e5m2", 23: "float4_e2m1fn"}
        for number, name in types.items():
            narrow = numpy.dtype(getattr(ml_dtypes, name))
            nodes = [helper.make_node("Cast", ["x"], ["y"], to=number), helper.make_node("Cast", ["n"], ["z"], to=1)]
            graph = helper.make_graph(
                nodes, "casts",
                [helper.make_tensor_value_info("x", 1, [6]), helper.make_tensor_value_info("n", number, [6])],
                [helper.make_tensor_value_info("y", number, [6]), helper.make_tensor_value_info("z", 1, [6])])
            path = os.path.join(self.folder.name, name + ".onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]), path)
            given = (numpy.arange(6) - 3 if name[0] == "i" else numpy.arange(6) % 4).astype(narrow)
            results = fettle.compile(path, threads=1).run(x=values, n=given)
            self.assertEqual(results["y"].dtype, narrow)
            if name[:5] == "float":
                limit = float(ml_dtypes.finfo(narrow).max)
                want = numpy.clip(values, -limit, limit).astype(narrow)
            else:
                want = values.astype(numpy.int32).astype(narrow)
            self.assertEqual(results["y"].tolist(), want.tolist(), name)
            self.assertEqual(results["z"].tolist(), given.astype(numpy.float32).tolist(), name)


class Foreign:
    """An array of another package's, as DLPack hands it over."""

    def __init__(self, array):
        self.array, self.asked = array, 0

    def __dlpack__(self, **kwargs):
        self.asked += 1
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Calls(unittest.TestCase):
    refused = Models.refused

    @classmethod
    def setUpClass(cls):
        g = fettle.Graph()
        x, y = g.input("x", "float32", ["N", 3]), g.input("y", "float32", ["N", 3])
        g.output("sum", x + y)
        g.output("product", x * y)
        cls.model = fettle.compile(g, threads=1)
        g = fettle.Graph()
        g.output("y", -g.input("x", "float32", ["N"]))
        cls.one = fettle.compile(g, threads=1)

    def arrays(self, n=2):
        x = numpy.arange(3 * n, dtype=numpy.float32).reshape(n, 3)
        return x, x + 10

    def test_by_position(self):
        for call in self.model, self.model.context():
            for n in 2, 5, 0, 2:
                x, y = self.arrays(n)
                made = call(x, y)
                self.assertIsInstance(made, tuple)
                numpy.testing.assert_array_equal(made[0], x + y)
                numpy.testing.assert_array_equal(made[1], x * y)
                self.assertTrue(made[0].flags.owndata and made[0].flags.writeable)
        given = numpy.ones(4, numpy.float32)
        self.assertIsInstance(self.one(given), numpy.ndarray)
        self.refused("E704", "input 'y' f32[N, 3] is missing", self.model, x)
        self.refused("E704", "3 inputs were given, and the model has 2: 'x', 'y'", self.model, x, x, x)
        self.refused("E705", "input 'y' is f32[2, 4], expected f32[N, 3]: axis 1 is 4, not 3", self.model, x,
                     numpy.ones((2, 4), numpy.float32))
        self.refused("E705", "input 'x' is i64[2, 3], expected f32[N, 3]", self.model, x.astype(int), y)
        self.refused("E705", "", self.model, x, y[:1])
        self.refused("E704", "the model has no input 'z'; it has 'x' f32[N, 3], 'y'", self.model.run, x=x, y=y, z=y)

    def test_shows_itself(self):
        self.assertEqual(repr(self.one), "<fettle.Model (x: float32[N]) -> (y: float32[N])>")
        shown = self.one._repr_html_()
        for text in "graph: 1 kernels", "open sizes: N", "<td style='text-align:left'>float32</td>", "Neg":
            self.assertIn(text, shown)
        g = fettle.Graph()
        g.output("<y>", g.input("x", "float32", [2]))
        self.assertIn("output &lt;y&gt;: x", g._repr_html_())

    def test_results_last(self):
        first = self.one(numpy.ones(3, numpy.float32))
        second = self.one(numpy.full(3, 2, numpy.float32))
        self.assertEqual((first.tolist(), second.tolist()), ([-1] * 3, [-2] * 3))

    def test_others_arrays_are_read_in_place(self):
        x, y = self.arrays()
        foreign = Foreign(x)
        numpy.testing.assert_array_equal(self.model(foreign, y)[0], x + y)
        self.assertEqual(foreign.asked, 1)
        foreign = Foreign(numpy.zeros((2, 3), numpy.float32).T.copy().T)
        numpy.testing.assert_array_equal(self.model(foreign, y)[0], y)

    def test_writes_where_it_is_told(self):
        x, y = self.arrays()
        out = numpy.empty((2, 3), numpy.float32), numpy.empty((2, 3), numpy.float32)
        for call in self.model, self.model.context():
            made = call(x, y, out=out)
            self.assertIs(made[0], out[0])
            self.assertIs(made[1], out[1])
            numpy.testing.assert_array_equal(out[1], x * y)
        target = numpy.empty(2, numpy.float32)
        self.assertIs(self.one(x[0, :2], out=target), target)
        self.assertEqual(target.tolist(), [0, -1])
        foreign = Foreign(numpy.empty(2, numpy.float32))
        self.assertIs(self.one(x[0, :2], out=foreign), foreign)
        self.assertEqual(foreign.array.tolist(), [0, -1])
        empty = numpy.empty((2, 3), numpy.float32)
        self.refused("E704", "1 outputs were given, and the model has 2", self.model, x, y, out=empty)
        self.refused("E705", "output 'sum' f32[N, 3]: axis 0 of the array that is given is 3, not 2", self.model, x, y,
                     out=(numpy.empty((3, 3), numpy.float32), empty))
        self.refused("E705", "the array that is given is f64[2, 3]", self.model, x, y, out=(numpy.empty((2, 3)), empty))
        self.refused("E705", "not in C order", self.model, x, y, out=(empty, numpy.empty((3, 2), numpy.float32).T))
        fixed = numpy.empty((2, 3), numpy.float32)
        fixed.flags.writeable = False
        self.refused("E705", "output 'sum' f32[N, 3]: what is given is no array that can be written", self.model, x, y,
                     out=(fixed, empty))
        self.refused("E705", "outputs 'sum' and 'product' are to be written to the same memory", self.model, x, y,
                     out=(empty, empty))
        memory = numpy.zeros(6, numpy.float32)
        self.refused("E705", "output 'y' is to be written where input 'x' lies", self.one, memory[:4], out=memory[2:])
        self.refused("E705", "where input 'x' lies", self.one, memory[3::-1], out=memory[:4])
        self.one(memory[:3], out=memory[3:])

    def test_types_that_numpy_lacks(self):
        import ml_dtypes
        g = fettle.Graph()
        x = g.input("x", "bfloat16", [3])
        g.output("y", g.Neg(x))
        model = fettle.compile(g, threads=1)
        given = numpy.array([1, -2, 3], ml_dtypes.bfloat16)
        made = model(given)
        self.assertEqual((made.dtype, made.tolist()), (given.dtype, [-1, 2, -3]))
        out = numpy.empty(3, ml_dtypes.bfloat16)
        self.assertIs(model(given, out=out), out)
        self.assertEqual(out.tolist(), [-1, 2, -3])
        self.refused("E705", "the array that is given is u16[3]", model, given, out=numpy.empty(3, numpy.uint16))
        self.refused("E705", "of another type", model, given, out=numpy.empty(3, ml_dtypes.float8_e5m2))

    def test_sizes_that_a_run_tells(self):
        g = fettle.Graph()
        g.output("y", g.NonZero(g.input("x", "float32", ["N"])))
        model = fettle.compile(g, threads=1)
        x = numpy.float32([0, 1, 0, 2])
        self.assertEqual(model(x).tolist(), [[1, 3]])
        out = numpy.empty((1, 2), numpy.int64)
        self.assertIs(model(x, out=out), out)
        self.assertEqual(out.tolist(), [[1, 3]])
        foreign = Foreign(numpy.empty((1, 2), numpy.int64))
        self.assertIs(model(x, out=foreign), foreign)
        self.assertEqual(foreign.array.tolist(), [[1, 3]])
        self.refused("E705", "output 'y' came to be i64[1, 1]", model, numpy.float32([5]), out=out)

    def test_states_lie_in_contexts(self):
        g = fettle.Graph()
        x, past = g.input("x", "float32", [2]), g.input("past", "float32", [2])
        total = x + past
        g.output("total", total)
        g.output("twice", total + total)
        model = fettle.compile(g, threads=1, states={"past": "total"})
        context, x = model.context(), numpy.float32([1, 2])
        for i in 1, 2, 3:
            self.assertEqual(context(x).tolist(), [2 * i, 4 * i])
            self.assertEqual(model(x).tolist(), [2, 4])
        context.set_state("past", numpy.float32([10, 10]))
        self.assertEqual(context(x, None).tolist(), [22, 24])
        self.assertEqual(context.state("past").tolist(), [11, 12])

    def test_a_call_that_was_begun_keeps_its_arrays(self):
        context = self.one.context()
        for i in range(20):
            context.begin(x=numpy.full(1000, i, numpy.float32))
            self.refused("E710", "is being used", context, numpy.zeros(3, numpy.float32))
            self.refused("E710", "is being used", context.begin, x=numpy.zeros(3, numpy.float32))
            self.assertEqual(set(context.wait()["y"].tolist()), {-i})

    def test_other_threads_go_on_while_a_model_is_compiled(self):
        steps, ends = [], threading.Event()

        def count():
            while not ends.wait(0):
                steps.append(None)
                time.sleep(0)

        g = fettle.Graph()
        x = g.input("x", "float32", [64, 64])
        g.output("y", g.MatMul(x, g.Exp(x)))
        interval = sys.getswitchinterval()
        other = threading.Thread(target=count)
        other.start()
        try:
            sys.setswitchinterval(1000)  # threads give way only of their own accord
            before = len(steps)
            fettle.compile(g, threads=1, cache=False)
            self.assertGreater(len(steps), before)
        finally:
            sys.setswitchinterval(interval)
            ends.set()
            other.join()

    def test_threads_call_it_at_once(self):
        wrong = []

        def work(number):
            for i in range(200):
                x = numpy.full(number + 1, number * 1000 + i, numpy.float32)
                if self.one(x).tolist() != (-x).tolist():
                    wrong.append((number, i))

        on_four_threads(work)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
