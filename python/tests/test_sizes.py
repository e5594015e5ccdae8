"""Open sizes and states beside ONNX Runtime: one model for all sizes, a decoder with a cache, wrong sizes by name."""

import os
import subprocess
import tempfile
import threading
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fettle

FLOAT = TensorProto.FLOAT
node = helper.make_node
value = helper.make_tensor_value_info


def random(*shape, seed=0):
    return numpy.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(numpy.float32)


class Model:
    """A model in a file, and the same in ONNX Runtime."""

    def __init__(self, nodes, inputs, outputs, constants):
        graph = helper.make_graph(
            nodes, "g", inputs, outputs, [numpy_helper.from_array(numpy.array(v), k) for k, v in constants.items()]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "model.onnx")
        onnx.save(model, self.path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        self.names = [output.name for output in outputs]

    def expected(self, **arrays):
        return dict(zip(self.names, self.session.run(None, arrays)))


def decoder(layers=2, heads=4, groups=2, width=16, has_branch=False):
    """Layers of causal attention with a cache, as exporters write them: heads share keys and values.

    has_branch: an If makes the mask, which hides nothing but in a call of several rows.
    """
    hidden = heads * width
    constants = {
        "zero": numpy.int64(0), "one": numpy.int64(1), "two": numpy.int64(2), "far": numpy.float32(-1e9),
        "scale": numpy.float32(width**-0.5), "axis0": numpy.array([0]), "axis1": numpy.array([1]),
        "axis2": numpy.array([2]), "as_heads": numpy.array([0, 0, -1, width]), "as_rows": numpy.array([0, 0, hidden]),
        "repeat": numpy.array([1, 1, heads // groups, 1, 1]),
    }  # fmt: skip
    nodes = [
        node("Shape", ["x"], ["x_shape"]), node("Gather", ["x_shape", "one"], ["steps"]),
        node("Shape", ["past_k0"], ["past_shape"]), node("Gather", ["past_shape", "two"], ["past"]),
        node("Add", ["past", "steps"], ["total"]), node("Range", ["zero", "total", "one"], ["columns"]),
        node("Range", ["past", "total", "one"], ["rows_1d"]), node("Unsqueeze", ["rows_1d", "axis1"], ["rows"]),
    ]  # fmt: skip
    hides = [node("LessOrEqual", ["columns", "rows"], ["mask"])]
    if has_branch:
        masks = [value("mask", TensorProto.BOOL, None)]
        shows = [node("GreaterOrEqual", ["columns", "zero"], ["row"]), node("Unsqueeze", ["row", "axis0"], ["mask"])]
        then, otherwise = (helper.make_graph(made, "branch", [], masks) for made in (hides, shows))
        nodes += [
            node("Greater", ["steps", "one"], ["is_prefill"]),
            node("If", ["is_prefill"], ["mask"], then_branch=then, else_branch=otherwise),
        ]
    else:
        nodes += hides
    inputs, outputs, x = [value("x", FLOAT, ["B", "S", hidden])], [], "x"
    for i in range(layers):
        for name, count in (("q", heads), ("k", groups), ("v", groups)):
            constants[f"w{name}{i}"] = random(hidden, count * width, seed=i) / 8
            nodes += [
                node("MatMul", [x, f"w{name}{i}"], [f"{name}_{i}"]),
                node("Reshape", [f"{name}_{i}", "as_heads"], [f"{name}4_{i}"]),
                node("Transpose", [f"{name}4_{i}"], [f"{name}h_{i}"], perm=[0, 2, 1, 3]),
            ]
        for name in "kv":
            shape = ["B", groups, "P", width]
            inputs.append(value(f"past_{name}{i}", FLOAT, shape))
            outputs.append(value(f"present_{name}{i}", FLOAT, ["B", groups, None, width]))
            all_heads = f"{name}_all{i}"
            constants[f"heads{i}"] = numpy.array([0, heads, -1, width])
            nodes += [
                node("Concat", [f"past_{name}{i}", f"{name}h_{i}"], [f"present_{name}{i}"], axis=2),
                node("Unsqueeze", [f"present_{name}{i}", "axis2"], [f"{name}5_{i}"]),
                node("Tile", [f"{name}5_{i}", "repeat"], [f"{name}_many{i}"]),
                node("Reshape", [f"{name}_many{i}", f"heads{i}"], [all_heads]),
            ]
        constants[f"wo{i}"] = random(hidden, hidden, seed=7 + i) / 8
        nodes += [
            node("Transpose", [f"k_all{i}"], [f"kt_{i}"], perm=[0, 1, 3, 2]),
            node("MatMul", [f"qh_{i}", f"kt_{i}"], [f"s_{i}"]), node("Mul", [f"s_{i}", "scale"], [f"ss_{i}"]),
            node("Where", ["mask", f"ss_{i}", "far"], [f"sm_{i}"]), node("Softmax", [f"sm_{i}"], [f"p_{i}"], axis=-1),
            node("MatMul", [f"p_{i}", f"v_all{i}"], [f"o_{i}"]),
            node("Transpose", [f"o_{i}"], [f"ot_{i}"], perm=[0, 2, 1, 3]),
            node("Reshape", [f"ot_{i}", "as_rows"], [f"or_{i}"]), node("MatMul", [f"or_{i}", f"wo{i}"], [f"y_{i}"]),
            node("Add", [x, f"y_{i}"], [f"x_{i}"]),
        ]  # fmt: skip
        x = f"x_{i}"
    nodes.append(node("Identity", [x], ["y"]))
    outputs.append(value("y", FLOAT, ["B", "S", hidden]))
    return Model(nodes, inputs, outputs, constants)


class OpenSizes(unittest.TestCase):
    def check(self, made, want):
        self.assertEqual(sorted(made), sorted(want))
        for name, array in want.items():
            self.assertEqual(made[name].shape, array.shape)
            numpy.testing.assert_allclose(made[name], array, rtol=1e-4, atol=1e-5)

    def test_one_model_for_all_sizes(self):
        nodes = [
            node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["q"]), node("Relu", ["q"], ["r"]),
            node("Transpose", ["r"], ["t"], perm=[0, 2, 1]), node("MatMul", ["r", "t"], ["s"]),
            node("Softmax", ["s"], ["y"], axis=-1),
        ]  # fmt: skip
        model = Model(
            nodes, [value("x", FLOAT, ["N", "T", 24])], [value("y", FLOAT, ["N", "T", "T"])],
            {"w": random(24, 40), "b": random(40)},
        )  # fmt: skip
        compiled = fettle.compile(model.path)
        self.assertEqual(tuple(compiled.inputs[0][2]), ("N", "T", 24))
        for shape in ((1, 1), (1, 7), (3, 16), (2, 33), (1, 100), (5, 2), (0, 4), (2, 0)):
            x = random(*shape, 24)
            self.check(compiled.run(x=x), model.expected(x=x))

    def test_kernels_for_classes_of_sizes(self):
        nodes = [
            node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["r"]), node("MatMul", ["r", "v"], ["s"]),
            node("Softmax", ["s"], ["y"], axis=-1),
        ]  # fmt: skip
        model = Model(
            nodes, [value("x", FLOAT, ["N", 48])], [value("y", FLOAT, ["N", 40])],
            {"w": random(48, 64), "v": random(64, 40)},
        )  # fmt: skip
        compiled = fettle.compile(model.path, sizes={"N": {"min": 1, "max": 300, "tune_at": [1, 8, 100]}})
        for rows in (1, 2, 3, 7, 8, 27, 28, 29, 100, 300):
            x = random(rows, 48)
            self.check(compiled.run(x=x), model.expected(x=x))
        for wrong in ([8, 1], [0, 8]):
            with self.assertRaises(fettle.Error) as caught:
                fettle.compile(model.path, sizes={"N": {"tune_at": wrong}})
            self.assertEqual(caught.exception.code, "E709")

    def test_wrong_sizes_are_named(self):
        model = Model(
            [node("Add", ["a", "b"], ["y"])], [value("a", FLOAT, ["N", 4]), value("b", FLOAT, ["M", 4])],
            [value("y", FLOAT, [None, 4])], {},
        )  # fmt: skip
        compiled = fettle.compile(model.path, sizes={"N": {"min": 2, "max": 16, "multiple": 2}})
        self.check(compiled.run(a=random(6, 4), b=random(6, 4)), model.expected(a=random(6, 4), b=random(6, 4)))
        for rows, words in (((6, 4), ("a", "b", "axis 0")), ((18, 18), ("a", "16")), ((3, 3), ("a", "multiple of 2"))):
            with self.assertRaises(fettle.Error) as caught:
                compiled.run(a=random(rows[0], 4), b=random(rows[1], 4))
            for word in words:
                self.assertIn(word, str(caught.exception))
        with self.assertRaises(fettle.Error) as caught:
            fettle.compile(model.path, sizes={"K": {"max": 4}})
        self.assertIn("N", str(caught.exception))

    def test_a_decoder_with_a_cache(self):
        self.check_decoder(decoder(), 64, (5, 1, 1, 3, 1, 1))

    def test_a_decoder_that_branches(self):
        self.check_decoder(decoder(has_branch=True), 1024, (9, 1, 1, 200, 1, 33, 1, 512, 1, 7))

    def check_decoder(self, model, most, counts):
        """Two contexts at once, each with calls of so many rows."""
        states = {f"past_{name}{i}": f"present_{name}{i}" for name in "kv" for i in range(2)}
        compiled = fettle.compile(model.path, sizes={"P": {"max": most}, "B": {"min": 1, "max": 2}}, states=states)

        def generate(batch, seed, errors):
            try:
                context = compiled.context()
                past = {name: numpy.zeros((batch, 2, 0, 16), numpy.float32) for name in states}
                for step, count in enumerate(counts):
                    x = random(batch, count, 64, seed=seed + step)
                    want = model.expected(x=x, **past)
                    made = context.run(x=x)
                    numpy.testing.assert_allclose(made["y"], want["y"], rtol=1e-4, atol=1e-5)
                    past = {name: want[present] for name, present in states.items()}
                    for name, array in past.items():
                        numpy.testing.assert_allclose(context.state(name), array, rtol=1e-4, atol=1e-5)
            except Exception as error:  # noqa: BLE001  (told by the main thread)
                errors.append(error)

        errors = []
        threads = [threading.Thread(target=generate, args=(1 + i % 2, 10 * i, errors)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def test_the_decoder_in_c(self):
        model = decoder()
        states = {f"past_{name}{i}": f"present_{name}{i}" for name in "kv" for i in range(2)}
        command = os.path.join(os.path.dirname(os.environ["FETTLE_WORKER"]), "fettle")
        source = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "c", "decode.c")
        prompt, rows = random(1, 5, 64, seed=3), []
        with tempfile.TemporaryDirectory() as folder:
            library, program = os.path.join(folder, "model.so"), os.path.join(folder, "decode")
            options = ["--range", "P=0..64", "--range", "B=1..1"]
            for past, present in states.items():
                options += ["--state", f"{past}={present}"]
            subprocess.run([command, "compile", model.path, "-o", library, *options], capture_output=True, check=True)
            subprocess.run(
                ["cc", "-Wall", "-Wextra", "-Werror", "-I", folder, source, library, "-Wl,-rpath,$ORIGIN", "-o", program],
                check=True,
            )  # fmt: skip
            written = subprocess.run([program, "64", "6"], input=prompt.tobytes(), capture_output=True, check=True).stdout
        x, past = prompt, {name: numpy.zeros((1, 2, 0, 16), numpy.float32) for name in states}
        for _ in range(6):
            want = model.expected(x=x, **past)
            x, past = want["y"][:, -1:], {name: want[present] for name, present in states.items()}
            rows.append(x.reshape(64))
        numpy.testing.assert_allclose(numpy.frombuffer(written, numpy.float32).reshape(6, 64), rows, rtol=1e-3, atol=1e-4)

    def test_a_state_that_is_too_long_or_does_not_fit(self):
        model = decoder(layers=1)
        states = {"past_k0": "present_k0", "past_v0": "present_v0"}
        compiled = fettle.compile(model.path, sizes={"P": {"max": 8}, "B": {"max": 1}}, states=states)
        context = compiled.context()
        context.run(x=random(1, 8, 64))
        with self.assertRaises(fettle.Error) as caught:
            context.run(x=random(1, 1, 64))
        self.assertIn("past_k0", str(caught.exception))
        with self.assertRaises(fettle.Error) as caught:
            fettle.compile(model.path, states=states)
        self.assertIn("--range", str(caught.exception))
        with self.assertRaises(fettle.Error):
            fettle.compile(model.path, states={"x": "y", "past_k0": "nothing"})


if __name__ == "__main__":
    unittest.main()
