"""Builds ONNX files node by node. Each node runs as it is added, so weights can be scaled by what they really produce."""

import contextlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

EXPECTED_VARIANCE = (0.1, 10.0)


class Builder:
    """One model under construction. Values are named as torch.onnx names them: /scope/Op_output_0."""

    def __init__(self, name, opset, seed):
        self.name = name
        self.opset = opset
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.values = {}  # of every value, on the sample inputs
        self.n_parameters = 0
        self.variances = []  # of the activations that were checked
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self._scopes, self._counts = [], {}

    @contextlib.contextmanager
    def scope(self, name):
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def _unique(self, op_type):
        name = "/" + "/".join([*self._scopes, op_type])
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return f"{name}_{count}" if count else name

    def input(self, name, sample, shape=None):
        """sample: what it holds while the model is built; shape: as the file declares it, names for open dimensions."""
        self.inputs.append(helper.make_tensor_value_info(name, _type(sample), shape or sample.shape))
        self.values[name] = sample
        return name

    def output(self, name, value, shape=None):
        """Gives a value the name of an output."""
        for node in self.nodes:
            node.input[:] = [name if used == value else used for used in node.input]
            node.output[:] = [name if made == value else made for made in node.output]
        sample = self.values[name] = self.values.pop(value)
        self.outputs.append(helper.make_tensor_value_info(name, _type(sample), shape or sample.shape))

    def parameter(self, name, array):
        """An initializer that training would have set; counted."""
        self.n_parameters += array.size
        return self.buffer(name, array)

    def buffer(self, name, array):
        """An initializer that is not counted."""
        array = np.ascontiguousarray(array)
        if array.dtype == np.float32:
            array = _without_denormals(array)
        full = ".".join([*(s.replace("/", ".") for s in self._scopes), name])
        self.initializers.append(numpy_helper.from_array(array, full))
        self.values[full] = array
        return full

    def normal(self, shape, deviation):
        return self.random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)

    def constant(self, value, dtype=np.float32):
        array = np.asarray(value, dtype=dtype)
        name = self._unique("Constant")
        tensor = numpy_helper.from_array(array, "")
        self.nodes.append(helper.make_node("Constant", [], [name + "_output_0"], name=name, value=tensor))
        self.values[name + "_output_0"] = array
        return name + "_output_0"

    def ints(self, *values):
        return self.constant(values, np.int64)

    def op(self, op_type, *inputs, n_outputs=1, **attributes):
        """Adds a node; returns the name of its output, or a list of names if it has several."""
        name = self._unique(op_type)
        outputs = [f"{name}_output_{i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs, name=name, **attributes))
        arrays = [self.values[value] if value else None for value in inputs]
        self.values.update(zip(outputs, self.run(op_type, arrays, n_outputs, **attributes)))
        return outputs[0] if n_outputs == 1 else outputs

    def run(self, op_type, inputs, n_outputs=1, **attributes):
        """What a node would give for these arrays, by ONNX Runtime; None stands for an input left out."""
        feeds = {f"i{k}": array for k, array in enumerate(inputs) if array is not None}
        node = helper.make_node(op_type, ["" if array is None else f"i{k}" for k, array in enumerate(inputs)],
                                [f"o{k}" for k in range(n_outputs)], **attributes)
        graph = helper.make_graph(
            [node], "node", [helper.make_tensor_value_info(k, _type(v), v.shape) for k, v in feeds.items()],
            [onnx.ValueInfoProto(name=f"o{k}") for k in range(n_outputs)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    def check(self, value, gain=1.0):
        """Asserts that an activation, of deviation `gain`, neither vanished nor exploded."""
        variance = float(np.var(self.values[value])) / gain**2
        self.variances.append(variance)
        low, high = EXPECTED_VARIANCE
        if not low <= variance <= high:
            raise AssertionError(f"{self.name}: {value} has variance {variance:.3g}")
        return value

    def finish(self, n_parameters=None):
        """The model. Asserts the published number of parameters, and that no activation holds a denormal or a NaN.

        A softmax may: of scores that a mask lowers by 100 some of ONNX Runtime's kernels give e^-100, others zero."""
        if n_parameters is not None and self.n_parameters != n_parameters:
            raise AssertionError(f"{self.name} has {self.n_parameters} parameters, not {n_parameters}")
        tiny = np.finfo(np.float32).tiny
        softmaxes = {name for node in self.nodes if node.op_type == "Softmax" for name in node.output}
        for name, value in self.values.items():
            if value.dtype == np.float32:
                if not np.isfinite(value).all():
                    raise AssertionError(f"{self.name}: {name} is not finite")
                if name not in softmaxes and ((value != 0) & (np.abs(value) < tiny)).any():
                    raise AssertionError(f"{self.name}: {name} holds denormals")
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8,
                                  producer_name="fettle-make-models")
        return model


def _type(array):
    return {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64,
            np.dtype(np.int32): TensorProto.INT32, np.dtype(np.bool_): TensorProto.BOOL}[array.dtype]


def _without_denormals(array):
    return np.where(np.abs(array) < 1e-30, np.float32(0), array)


def rounded(array):
    """Measured scales with 8 bits of mantissa, so that another machine's last bits do not change the file."""
    mantissa, exponent = np.frexp(np.asarray(array, np.float64))
    return np.ldexp(np.round(mantissa * 256) / 256, exponent).astype(np.float32)


def power_of(g, x):
    """Mean square of a value."""
    return float(rounded(np.mean(np.square(g.values[x]))))
