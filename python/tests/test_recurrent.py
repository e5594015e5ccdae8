"""LSTM, GRU and RNN beside ONNX Runtime: variants drawn from seeds. FETTLE_MODELS says how many, FETTLE_SEED the first."""

import os
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fettle

MODELS, SEED = int(os.environ.get("FETTLE_MODELS", "60")), int(os.environ.get("FETTLE_SEED", "0"))
CELLS = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}  # gates, activations
# Those that take alpha and beta. Models always give them: without, ONNX Runtime takes zero where ONNX has no default.
ALPHA = {"Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"}
BETA = {"Affine", "ScaledTanh", "HardSigmoid"}
KINDS = sorted(ALPHA | {"Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"})


def kind_of(name):
    return next(kind for kind in KINDS if kind.lower() == name.lower())


class Variant:
    """A layer with everything drawn: its node, constants and inputs."""

    def __init__(self, seed):
        draw = numpy.random.default_rng(seed)
        self.draw = draw
        self.op = sorted(CELLS)[seed % 3]
        self.gates, n_activations = CELLS[self.op]
        self.is_open = self.flip(0.4)  # steps and batch
        self.hidden = int(draw.integers(1, 7))
        self.inputs = int(draw.integers(1, 10))
        self.hidden += int(draw.integers(0, 2)) * 8
        direction = str(draw.choice(["forward", "reverse", "bidirectional"]))
        self.directions = 2 if direction == "bidirectional" else 1
        self.batch_first = self.flip(0.25)
        self.attributes = {"direction": direction}
        if self.flip(0.8):
            self.attributes["hidden_size"] = self.hidden
        if self.flip():
            self.draw_activations(n_activations)
        if self.flip(0.3):
            self.attributes["clip"] = float(draw.uniform(0.2, 1.5))
        if self.op == "LSTM" and self.flip(0.3):
            self.attributes["input_forget"] = 1
        if self.op == "GRU" and self.flip():
            self.attributes["linear_before_reset"] = 1
        self.draw_weights()
        self.draw_sizes()
        count = 3 if self.op == "LSTM" else 2
        wanted = [self.flip(0.7) for _ in range(count)]
        wanted[int(draw.integers(count))] = True
        self.outputs = [name if has else "" for name, has in zip(("Y", "Y_h", "Y_c"), wanted)]

    def flip(self, chance=0.5):
        return bool(self.draw.random() < chance)

    def draw_activations(self, count):
        names = [str(self.draw.choice(KINDS)) for _ in range(count * self.directions)]
        names = [name.lower() if self.flip(0.2) else name for name in names]
        kinds = [kind_of(name) for name in names]
        alphas = [float(self.draw.uniform(0.1, 0.9)) for kind in kinds if kind in ALPHA]
        betas = [float(self.draw.uniform(0.1, 0.9)) for kind in kinds if kind in BETA]
        self.attributes["activations"] = names
        if alphas:
            self.attributes["activation_alpha"] = alphas
        if betas:
            self.attributes["activation_beta"] = betas

    def random(self, *shape):
        return self.draw.uniform(-0.6, 0.6, shape).astype(numpy.float32)

    def draw_weights(self):
        d, h = self.directions, self.hidden
        self.weights = {"W": self.random(d, self.gates * h, self.inputs), "R": self.random(d, self.gates * h, h)}
        if self.flip(0.7):
            self.weights["B"] = self.random(d, 2 * self.gates * h)
        if self.op == "LSTM" and self.flip(0.4):
            self.weights["P"] = self.random(d, 3 * h)
        optional = ["sequence_lens", "initial_h"] + ["initial_c"] * (self.op == "LSTM")
        self.others = ["X"] + [name for name in optional if self.flip(0.45)]
        self.constants = set(self.weights) if self.flip(0.8) else set()
        if not self.is_open and "sequence_lens" in self.others and self.flip(0.2):
            self.constants.add("sequence_lens")

    def draw_sizes(self):
        """Steps, a batch, and all inputs that have these."""
        self.steps, self.batch = int(self.draw.integers(1, 7)), int(self.draw.choice([1, 2, 3, 5, 16]))
        state = [self.directions, self.batch, self.hidden]
        drawn = {
            "X": self.random(self.steps, self.batch, self.inputs) * 3,
            "sequence_lens": self.draw.integers(0, self.steps + 1, self.batch).astype(numpy.int32),
            "initial_h": self.random(*state),
            "initial_c": self.random(*state),
        }
        self.values = {**self.weights, **{name: drawn[name] for name in self.others}}

    def shape(self, name, batch_first):
        """As the model declares it."""
        shape = list(self.feeds(batch_first)[name].shape)
        if self.is_open and name in self.others:
            batch = 0 if name == "sequence_lens" or batch_first else 1
            shape[batch] = "N"
            if name == "X":
                shape[1 - batch] = "S"
        return shape

    def model(self, for_reference=False):
        """For the reference as it wants it: with layout 0, hidden_size and names in ONNX's letters."""
        names = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"][: 8 if self.op == "LSTM" else 6]
        inputs = [name if name in self.values else "" for name in names]
        while not inputs[-1]:
            inputs.pop()
        outputs = list(self.outputs)
        while not outputs[-1]:
            outputs.pop()
        attributes = dict(self.attributes)
        batch_first = self.batch_first and not for_reference
        if batch_first:
            attributes["layout"] = 1
        if for_reference:
            attributes["hidden_size"] = self.hidden
            if "activations" in attributes:
                attributes["activations"] = [kind_of(name) for name in attributes["activations"]]
        node = helper.make_node(self.op, inputs, outputs, **attributes)
        given = self.feeds(batch_first)
        graph = helper.make_graph(
            [node], "g",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(v.dtype), self.shape(name, batch_first)
                )
                for name, v in given.items()
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name],
            [numpy_helper.from_array(self.values[name], name) for name in sorted(self.constants)],
        )  # fmt: skip
        opset = 14 if batch_first or self.flip() else 7
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

    def feeds(self, batch_first):
        given = {name: v for name, v in self.values.items() if name not in self.constants}
        if batch_first:
            for name in ("X", "initial_h", "initial_c"):
                if name in given:
                    given[name] = numpy.ascontiguousarray(given[name].swapaxes(0, 1))
        return given

    def as_drawn(self, name, value):
        """A result with layout 1 as layout 0 has it."""
        if not self.batch_first:
            return value
        return value.transpose(1, 2, 0, 3) if name == "Y" else value.swapaxes(0, 1)


def reference_session(variant):
    """ONNX Runtime's; it has all variants, but layout 0 only."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = variant.model(for_reference=True).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Recurrent(unittest.TestCase):
    def test_variants(self):
        for seed in range(SEED, SEED + MODELS):
            variant = Variant(seed)
            with self.subTest(seed=seed, op=variant.op, inputs=sorted(variant.values), **variant.attributes):
                session = reference_session(variant)
                names = [output.name for output in session.get_outputs()]
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "model.onnx")
                    onnx.save(variant.model(), path)
                    compiled = fettle.compile(path)
                for _ in range(3 if variant.is_open else 1):
                    expected = dict(zip(names, session.run(names, variant.feeds(False))))
                    if all(abs(value).max() <= 100 for value in expected.values()):
                        self.compare(variant, compiled, expected)
                    variant.draw_sizes()

    def compare(self, variant, compiled, expected):
        """Not of states that grow from step to step: they make errors grow, too."""
        made = compiled.run(**variant.feeds(variant.batch_first))
        for name, want in expected.items():
            got = variant.as_drawn(name, made[name])
            self.assertEqual(got.shape, want.shape)
            numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    unittest.main()
