"""Random operators of random attributes, shapes and types, and random graphs of them, beside ONNX Runtime.

FETTLE_MODELS=2000 makes so many of each kind; a test's seed is the number of the model, so what failed can be made again:
PYTHONPATH=build/python-package FETTLE_FIRST=137 FETTLE_MODELS=1 build/python/bin/python python/tests/test_against_onnxruntime.py
"""

import os
import random
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fettle

FIRST = int(os.environ.get("FETTLE_FIRST", "0"))
MODELS = int(os.environ.get("FETTLE_MODELS", "0"))

TYPES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
    "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32, "bool": TensorProto.BOOL,
}  # fmt: skip
NUMBERS = [name for name in TYPES if name != "bool"]


class Maker:
    """One model: values with their shapes, all drawn from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numpy = numpy.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.values = [], [], [], []

    def whole(self, low, high):
        return self.random.randint(low, high)

    def one_of(self, *choices):
        return self.random.choice(choices)

    def shape(self, rank=None, most=20):
        return [self.whole(1, most) for _ in range(rank or self.whole(1, 4))]

    def input(self, shape, dtype="float32"):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, list(shape), dtype))
        self.values.append((name, list(shape)))
        return name

    def constant(self, content, dtype=None):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.ascontiguousarray(content, dtype), name))
        return name

    def weights(self, *shape):
        return self.constant(self.numpy.standard_normal(shape) * 0.4, numpy.float32)

    def add(self, op, inputs, shape=None, outputs=1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        if shape is not None:
            self.values.append((names[0], list(shape)))
        return names[0] if outputs == 1 else names

    def content(self, shape, dtype):
        if dtype == "bool":
            return self.numpy.random(shape) < 0.5
        if dtype.startswith("float"):
            return (self.numpy.standard_normal(shape) * 2).astype(dtype)
        return self.numpy.integers(1 if dtype.startswith("uint") else -9, 12, shape).astype(dtype)

    def model(self, outputs=None, opset=17):
        if outputs is None:
            used = {name for node in self.nodes for name in node.input}
            outputs = [name for node in self.nodes for name in node.output if name not in used]
        graph = helper.make_graph(
            self.nodes, "random", [helper.make_tensor_value_info(name, TYPES[dtype], shape) for name, shape, dtype in self.inputs],
            [onnx.ValueInfoProto(name=name) for name in outputs], self.constants)  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


# --- operators: each makes one model of a Maker


def convolution(m):
    rank, groups = m.one_of(1, 2, 2, 2, 3), m.one_of(1, 1, 1, 2, 3)
    channels, outputs = groups * m.whole(1, 9), groups * m.whole(1, 9)
    kernel = [m.whole(1, 5) for _ in range(rank)]
    dilations = [m.one_of(1, 1, 1, 2) for _ in range(rank)]
    auto_pad = m.one_of("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    attributes = {"strides": [m.one_of(1, 1, 2, 3) for _ in range(rank)], "group": groups, "auto_pad": auto_pad}
    if auto_pad == "NOTSET":
        attributes["pads"] = [m.whole(0, 3) for _ in range(2 * rank)]
    if not auto_pad.startswith("SAME"):
        attributes["dilations"] = dilations
    extents = [(k - 1) * d + m.whole(1, 16 if rank < 3 else 5) for k, d in zip(kernel, dilations, strict=True)]
    x = m.input([m.whole(1, 3), channels, *extents])
    y = m.add("Conv", [x, m.weights(outputs, channels // groups, *kernel), m.weights(outputs)], **attributes)
    m.add(m.one_of("Relu", "Sigmoid", "HardSwish", "Identity", "Neg"), [y])


def transposed_convolution(m):
    rank, groups = m.one_of(1, 2, 2), m.one_of(1, 1, 2)
    channels, outputs = groups * m.whole(1, 7), m.whole(1, 7)
    kernel, strides = [m.whole(1, 5) for _ in range(rank)], [m.one_of(1, 2, 3) for _ in range(rank)]
    attributes = {"strides": strides, "group": groups, "dilations": [m.one_of(1, 1, 2) for _ in range(rank)]}
    attributes["pads"] = [m.whole(0, min(2, kernel[k % rank] - 1)) for k in range(2 * rank)]
    attributes["output_padding"] = [m.whole(0, stride - 1) for stride in strides]
    x = m.input([m.whole(1, 2), channels, *[m.whole(4, 12) for _ in range(rank)]])
    m.add("ConvTranspose", [x, m.weights(channels, outputs, *kernel), m.weights(outputs * groups)], **attributes)


def pooling(m):
    rank = m.one_of(1, 2, 2, 3)
    kernel = [m.whole(1, 4) for _ in range(rank)]
    attributes = {"kernel_shape": kernel, "strides": [m.whole(1, 3) for _ in range(rank)]}
    auto_pad = m.one_of("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER")
    if auto_pad == "NOTSET":
        attributes |= {"pads": [m.whole(0, kernel[k % rank] - 1) for k in range(2 * rank)]}
    else:
        attributes["auto_pad"] = auto_pad
    op = m.one_of("MaxPool", "AveragePool")
    if op == "AveragePool":
        attributes["count_include_pad"] = m.whole(0, 1)
    x = m.input([m.whole(1, 2), m.whole(1, 20), *[k + m.whole(1, 13 if rank < 3 else 5) for k in kernel]])
    m.add(op, [x], **attributes)


def reduction(m):
    op = m.one_of("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")
    shape = m.shape(most=14)
    axes = sorted(m.random.sample(range(len(shape)), m.whole(1, len(shape))))
    dtype = m.one_of("float32", "float32", "float64") if op != "ReduceMax" else m.one_of("float32", "int32", "uint8", "float16")
    m.add(op, [m.input(shape, dtype)], axes=axes, keepdims=m.whole(0, 1))


def extreme_place(m):
    shape = m.shape()
    x = m.input(shape, m.one_of("float32", "float64", "int32", "uint8"))
    m.add(m.one_of("ArgMax", "ArgMin"), [x], axis=m.whole(-len(shape), len(shape) - 1), keepdims=m.whole(0, 1),
          select_last_index=m.whole(0, 1))  # fmt: skip


def two_operands(m):
    shape, dtype = m.shape(), m.one_of(*NUMBERS)
    other = [extent if m.random.random() < 0.6 else 1 for extent in shape][m.whole(0, len(shape) - 1) :]
    op = m.one_of("Add", "Sub", "Mul", "Div", "Less", "GreaterOrEqual", "Equal")
    if op == "Div" and not dtype.startswith("float"):
        divisor = m.content(other, dtype)
        m.add(op, [m.input(shape, dtype), m.constant(numpy.where(divisor == 0, 1, divisor), dtype)])
    else:
        m.add(op, [m.input(shape, dtype), m.input(other, dtype)])


def power(m):
    # Of integers what ONNX Runtime works out in double precision and cuts off: small results alone.
    shape = m.shape()
    base, exponent = m.one_of("float32", "float64", "int32", "int64"), m.one_of("float32", "float64", "int32", "int64")
    x = m.input(shape, base)
    if base.startswith("float"):
        x = m.add("Abs", [x])
    other = [extent if m.random.random() < 0.6 else 1 for extent in shape][m.whole(0, len(shape) - 1) :]
    least = -2 if base.startswith("float") else 0
    exponents = m.numpy.integers(least, 6, m.one_of(other, [], other)).astype(exponent)
    if m.random.random() < 0.5:
        m.add("Pow", [x, m.constant(exponents, exponent)])
    else:  # known when the model is run
        m.add("Pow", [x, m.add("Where", [m.add("Equal", [x, x]), m.constant(exponents, exponent), m.constant(exponents + 1, exponent)])])


def one_operand(m):
    op, attributes = m.one_of(
        ("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Elu", {"alpha": 0.7}), ("Selu", {}), ("Celu", {"alpha": 0.5}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("ThresholdedRelu", {"alpha": 0.5}), ("Softsign", {}), ("Softplus", {}),
        ("Tanh", {}), ("Sigmoid", {}), ("Exp", {}), ("Erf", {}), ("Sin", {}), ("Cos", {}), ("Floor", {}), ("Ceil", {}),
        ("Round", {}), ("Sign", {}), ("Neg", {}), ("Abs", {}), ("Shrink", {"lambd": 0.5, "bias": 0.1}))  # fmt: skip
    m.add(op, [m.input(m.shape())], **attributes)


def normalization(m):
    shape = m.shape(m.whole(2, 4), 14)
    op = m.one_of("Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN")
    axis = m.whole(-len(shape), len(shape) - 1)
    if op == "LRN":
        m.add(op, [m.input(m.shape(4, 10))], size=m.one_of(1, 3, 5), alpha=0.01, beta=0.6)
    elif op.endswith("oftmax"):
        m.add(op, [m.input(shape)], axis=axis)
    elif op == "LayerNormalization":
        inner = shape[1:]
        m.add(op, [m.input(shape), m.weights(*inner), m.weights(*inner)], axis=1)
    elif op == "InstanceNormalization":
        shape = m.shape(4, 9)
        m.add(op, [m.input(shape), m.weights(shape[1]), m.weights(shape[1])])
    else:
        spread = m.constant(abs(m.numpy.standard_normal(shape[1])) + 0.1, numpy.float32)
        m.add(op, [m.input(shape), m.weights(shape[1]), m.weights(shape[1]), m.weights(shape[1]), spread])


def product(m):
    rows, columns, inner = m.whole(1, 40), m.whole(1, 40), m.whole(1, 40)
    if m.random.random() < 0.5:
        dtype = m.one_of("float32", "float64", "int32")
        batch = m.shape(m.whole(1, 2), 4)[m.whole(0, 1) :]
        m.add("MatMul", [m.input([*batch, rows, inner], dtype), m.input([inner, columns], dtype)])
        return
    left, right = m.whole(0, 1), m.whole(0, 1)
    x = m.input([inner, rows] if left else [rows, inner])
    w = m.weights(*([columns, inner] if right else [inner, columns]))
    bias = m.weights(*m.one_of([columns], [1, columns], [rows, 1], [1]))
    m.add("Gemm", [x, w, bias], transA=left, transB=right, alpha=0.7, beta=0.3)


def padding(m):
    shape, mode = m.shape(), m.one_of("constant", "reflect", "edge")
    pads = [m.whole(0, 9) for _ in range(2 * len(shape))]
    if mode == "reflect":
        pads = [min(n, shape[k % len(shape)] - 1) for k, n in enumerate(pads)]
    m.add("Pad", [m.input(shape, m.one_of("float32", "int32", "uint8")), m.constant(pads)], mode=mode)


def slices(m):
    shape = m.shape()
    axes = m.random.sample(range(len(shape)), m.whole(1, len(shape)))
    steps = [m.one_of(-3, -2, -1, 1, 1, 2, 3, 5) for _ in axes]
    starts = [m.whole(-shape[axis], shape[axis] - 1) for axis in axes]
    ends = [m.one_of(-100, 100, m.whole(-shape[axis], shape[axis])) for axis in axes]
    x = m.input(shape, m.one_of(*TYPES))
    m.add("Slice", [x, m.constant(starts), m.constant(ends), m.constant(axes), m.constant(steps)])


def rearrangement(m):
    shape, dtype = m.shape(), m.one_of(*TYPES)
    op = m.one_of("Transpose", "Tile", "Concat", "Gather", "Expand", "DepthToSpace", "SpaceToDepth")
    axis = m.whole(-len(shape), len(shape) - 1)
    if op == "Transpose":
        m.add(op, [m.input(shape, dtype)], perm=m.random.sample(range(len(shape)), len(shape)))
    elif op == "Tile":
        m.add(op, [m.input(shape, dtype), m.constant([m.whole(1, 3) for _ in shape])])
    elif op == "Concat":
        m.add(op, [m.input(shape, dtype), m.input(shape, dtype)], axis=axis)
    elif op == "Gather":
        places = m.numpy.integers(-shape[axis], shape[axis], m.shape(m.whole(1, 2), 5))
        m.add(op, [m.input(shape, dtype), m.constant(places)], axis=axis)
    elif op == "Expand":
        m.add(op, [m.input([n if m.random.random() < 0.5 else 1 for n in shape], dtype), m.constant(shape)])
    else:
        size = m.one_of(2, 3)
        images = [m.whole(1, 2), m.whole(1, 5), m.whole(1, 9), m.whole(1, 20)]
        if op == "DepthToSpace":
            images[1] *= size * size
            m.add(op, [m.input(images)], blocksize=size, mode=m.one_of("DCR", "CRD"))
        else:
            m.add(op, [m.input([*images[:2], images[2] * size, images[3] * size])], blocksize=size)


def resizing(m):
    shape = [1, m.whole(1, 12), m.whole(2, 14), m.whole(2, 14)]
    where = m.one_of("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
    attributes = {
        "mode": m.one_of("nearest", "linear", "cubic"), "coordinate_transformation_mode": where,
        "nearest_mode": m.one_of("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
    }  # fmt: skip
    if m.random.random() < 0.5:
        sizes = m.constant([*shape[:2], m.whole(1, 30), m.whole(1, 30)])
        m.add("Resize", [m.input(shape), "", "", sizes], **attributes)
    else:
        # ONNX Runtime takes the corners of the rounded extent, the standard those of the extent before.
        scales = [m.one_of(2, 3) if where == "align_corners" else m.one_of(2, 3, 4, 0.5, 1.5) for _ in range(2)]
        m.add("Resize", [m.input(shape), "", m.constant([1, 1, *scales], numpy.float32)], **attributes)


OPERATORS = [
    convolution, transposed_convolution, pooling, reduction, extreme_place, two_operands, one_operand, normalization, product,
    padding, slices, rearrangement, resizing, power,
]  # fmt: skip


# --- graphs


def graph(m):
    """Up to a dozen operators on an image, each of what others made; what nobody reads is an output."""
    m.input([m.one_of(1, 1, 2), m.one_of(1, 2, 3, 4, 8, 9, 16, 24), m.whole(4, 17), m.whole(4, 17)])
    for _ in range(m.whole(2, 12)):
        value, shape = m.values[-1] if m.random.random() < 0.65 else m.one_of(*m.values)
        m.one_of(*STEPS)(m, value, shape)


def step_elementwise(m, x, shape):
    # None that jumps: what rounds otherwise would be far off.
    op = m.one_of("Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "Abs", "Erf", "Softplus")
    m.add(op, [x], shape)


def step_pair(m, x, shape):
    others = [name for name, other in m.values if other == shape]
    m.add(m.one_of("Add", "Mul", "Sub", "Max"), [x, m.one_of(*others)], shape)


def step_choice(m, x, shape):
    # Where x is at the limit both sides are, but for other values.
    limit = m.constant(0.2, numpy.float32)
    other = m.one_of(limit, limit, *[name for name, other in m.values if other == shape and name.startswith("x")])
    condition = m.add(m.one_of("Greater", "LessOrEqual"), [x, limit])
    m.add("Where", [condition, x, other], shape)


def step_constant(m, x, shape):
    part = [n if m.random.random() < 0.5 else 1 for n in shape][m.whole(0, len(shape) - 1) :]
    m.add(m.one_of("Add", "Mul"), [x, m.weights(*part)], shape)


def step_reduce(m, x, shape):
    axis = m.whole(0, len(shape) - 1)
    reduced = [1 if k == axis else n for k, n in enumerate(shape)]
    mean = m.add(m.one_of("ReduceMean", "ReduceMax"), [x], reduced, axes=[axis], keepdims=1)
    if m.random.random() < 0.6:
        m.add("Sub", [x, mean], shape)


def step_softmax(m, x, shape):
    m.add("Softmax", [x], shape, axis=m.whole(-len(shape), len(shape) - 1))


def step_transpose(m, x, shape):
    order = m.random.sample(range(len(shape)), len(shape))
    m.add("Transpose", [x], [shape[d] for d in order], perm=order)


def step_slice(m, x, shape):
    axis, step = m.whole(0, len(shape) - 1), m.one_of(1, 2, -1, -2)
    if shape[axis] < 3:
        return
    start, end = (1, 1000) if step > 0 else (shape[axis] - 2, -1000)
    left = len(range(start, shape[axis], step)) if step > 0 else len(range(start, -1, step))
    sliced = [left if k == axis else n for k, n in enumerate(shape)]
    m.add("Slice", [x, *[m.constant([n]) for n in (start, end, axis, step)]], sliced)


def step_join(m, x, shape):
    axis = m.whole(0, len(shape) - 1)
    fits = [(name, other) for name, other in m.values
            if len(other) == len(shape) and all(other[k] == shape[k] for k in range(len(shape)) if k != axis)]  # fmt: skip
    name, other = m.one_of(*fits)
    joined = [n + other[axis] if k == axis else n for k, n in enumerate(shape)]
    if numpy.prod(joined) < 50000:
        m.add("Concat", [x, name], joined, axis=axis)


def step_pad(m, x, shape):
    pads = [m.whole(0, min(2, shape[k % len(shape)] - 1)) for k in range(2 * len(shape))]
    padded = [n + pads[k] + pads[k + len(shape)] for k, n in enumerate(shape)]
    if numpy.prod(padded) < 50000:
        m.add("Pad", [x, m.constant(pads)], padded, mode=m.one_of("constant", "reflect", "edge"))


def step_product(m, x, shape):
    columns = m.whole(1, 40)
    m.add("MatMul", [x, m.weights(shape[-1], columns)], [*shape[:-1], columns])


def step_convolution(m, x, shape):
    kernel, stride, outputs = m.one_of(1, 1, 3, 3, 5), m.one_of(1, 1, 1, 2), m.one_of(1, 2, 3, 4, 8, 16, 20)
    images = [(n + 2 * (kernel // 2) - kernel) // stride + 1 for n in shape[2:]]
    depthwise = stride == 1 and m.random.random() < 0.3
    weights = m.weights(shape[1], 1, kernel, kernel) if depthwise else m.weights(outputs, shape[1], kernel, kernel)
    outputs = shape[1] if depthwise else outputs
    m.add("Conv", [x, weights, m.weights(outputs)], [shape[0], outputs, *images], pads=[kernel // 2] * 4,
          strides=[stride, stride], group=shape[1] if depthwise else 1)  # fmt: skip


def step_pool(m, x, shape):
    if min(shape[2:]) < 3:
        m.add("GlobalAveragePool", [x], [*shape[:2], 1, 1])
        return
    stride = m.one_of(1, 2)
    images = [(n - 2) // stride + 1 for n in shape[2:]]
    m.add(m.one_of("MaxPool", "AveragePool"), [x], [*shape[:2], *images], kernel_shape=[2, 2], strides=[stride, stride])


def step_enlarge(m, x, shape):
    if numpy.prod(shape) > 9000:
        return
    scales = m.constant([1, 1, 2, 2], numpy.float32)
    m.add("Resize", [x, "", scales], [*shape[:2], 2 * shape[2], 2 * shape[3]], mode=m.one_of("nearest", "linear"))


STEPS = [
    step_elementwise, step_elementwise, step_pair, step_choice, step_constant, step_reduce, step_softmax, step_transpose,
    step_slice, step_join, step_pad, step_product, step_convolution, step_convolution, step_pool, step_enlarge,
]  # fmt: skip


class AgainstOnnxRuntime(unittest.TestCase):
    def compare(self, seed, make, threads):
        m = Maker(seed)
        make(m)
        said = onnxruntime.SessionOptions()
        said.log_severity_level = 4
        said.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            model = m.model()
            onnx.save(model, file.name)
            try:
                session = onnxruntime.InferenceSession(file.name, said, providers=["CPUExecutionProvider"])
                contents = {name: m.content(shape, dtype) for name, shape, dtype in m.inputs}
                wanted = session.run(None, contents)
            except Exception:  # noqa: BLE001, of a class of its own for each reason
                return False  # it has no such kernel
            found = fettle.compile(file.name, threads=threads).run(**contents)
        what = f"seed {seed}: {onnx.printer.to_text(model.graph)}"
        for output, want in zip(session.get_outputs(), wanted, strict=True):
            have = found[output.name]
            self.assertEqual((have.shape, have.dtype), (want.shape, want.dtype), what)
            if want.dtype.kind != "f":
                numpy.testing.assert_array_equal(have, want, what)
                continue
            finite = numpy.abs(want[numpy.isfinite(want)])
            near = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}[want.dtype.name]
            numpy.testing.assert_allclose(have, want, near, near * max(1.0, finite.max(initial=0)), err_msg=what)
        return True

    def compare_all(self, kinds, count):
        compared = 0
        for seed in range(FIRST, FIRST + (MODELS or count)):
            with self.subTest(seed=seed):
                compared += self.compare(seed, kinds[seed % len(kinds)], threads=1 + seed % 2)
        if not MODELS:
            self.assertGreater(compared, 0.9 * count)

    def test_operators(self):
        self.compare_all(OPERATORS, 420)

    def test_graphs(self):
        self.compare_all([graph], 150)


def windows(x, kernel, stride):
    found = numpy.lib.stride_tricks.sliding_window_view(x, kernel, (2, 3))[:, :, ::stride, ::stride]
    return found.max((-2, -1))


# ONNX Runtime loses some NaNs, which of them hangs on where they are; so numpy says what is right.
class PassesNaNsOn(unittest.TestCase):
    def check(self, make, seed):
        m = Maker(seed)
        wanted_of = make(m)
        contents = {name: m.content(shape, dtype) for name, shape, dtype in m.inputs}
        for content in contents.values():
            content[m.numpy.random(content.shape) < m.one_of(0.01, 0.1, 0.9)] = numpy.nan
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            model = m.model()
            onnx.save(model, file.name)
            found = list(fettle.compile(file.name, threads=1 + seed % 2).run(**contents).values())
        with numpy.errstate(all="ignore"):
            wanted = wanted_of(*contents.values())
        near = 1e-2 if wanted.dtype == numpy.float16 else 1e-5
        numpy.testing.assert_allclose(found[0], wanted, near, near, err_msg=f"seed {seed}: {onnx.printer.to_text(model.graph)}")

    def test_minima_and_maxima(self):
        def reduction(m):
            op = m.one_of("ReduceMax", "ReduceMin", "ArgMax", "ArgMin")
            shape, dtype = m.shape(most=m.one_of(9, 70)), m.one_of("float32", "float32", "float64", "float16")
            axis = m.whole(0, len(shape) - 1)
            if op.startswith("Arg"):
                m.add(op, [m.input(shape, dtype)], axis=axis, keepdims=0)
                return lambda x: getattr(x, op.lower())(axis)
            m.add(op, [m.input(shape, dtype)], axes=[axis], keepdims=0)
            return lambda x: getattr(x, op[6:].lower())(axis)

        def elementwise(m):
            op = m.one_of("Max", "Min")
            shape, dtype = m.shape(), m.one_of("float32", "float64", "float16")
            other = [extent if m.random.random() < 0.6 else 1 for extent in shape]
            m.add(op, [m.input(shape, dtype), m.input(other, dtype)])
            return numpy.maximum if op == "Max" else numpy.minimum

        def bounds(m):
            x = m.input(m.shape())
            if m.whole(0, 1):
                m.add("Relu", [x])
                return lambda x: numpy.maximum(x, 0)
            m.add("Clip", [x, m.constant(-1, numpy.float32), m.constant(1.5, numpy.float32)])
            return lambda x: numpy.clip(x, -1, 1.5)

        def pooling(m):
            kernel, stride = m.whole(2, 3), m.whole(1, 2)
            m.add("MaxPool", [m.input([1, m.whole(1, 20), m.whole(4, 20), m.whole(4, 20)])], kernel_shape=[kernel] * 2,
                  strides=[stride] * 2)  # fmt: skip
            return lambda x: windows(x, (kernel, kernel), stride)

        def softmax(m):
            shape = m.shape(most=40)
            axis = m.whole(0, len(shape) - 1)
            m.add("Softmax", [m.input(shape)], axis=axis)

            def wanted(x):
                e = numpy.exp(x - x.max(axis, keepdims=True))
                return e / e.sum(axis, keepdims=True)

            return wanted

        kinds = [reduction, elementwise, bounds, pooling, softmax]
        for seed in range(FIRST, FIRST + (MODELS or 60)):
            with self.subTest(seed=seed):
                self.check(kinds[seed % len(kinds)], seed)


if __name__ == "__main__":
    unittest.main()
