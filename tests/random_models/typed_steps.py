"""Steps of random models over other types than single precision: integers, halves, double precision, truth values,
small floats, quantised operators, choices and scattering."""

import numpy
from onnx import TensorProto, helper

FLOAT, INT, BOOL, DOUBLE, HALF = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.FLOAT16,
)  # fmt: skip
INT8, UINT8, INT32 = TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32
FLOAT8 = TensorProto.FLOAT8E4M3FN
NUMPY = {
    FLOAT: numpy.float32, DOUBLE: numpy.float64, HALF: numpy.float16, BOOL: numpy.bool_, INT: numpy.int64,
    INT32: numpy.int32, TensorProto.INT16: numpy.int16, INT8: numpy.int8, TensorProto.UINT64: numpy.uint64,
    TensorProto.UINT32: numpy.uint32, TensorProto.UINT16: numpy.uint16, UINT8: numpy.uint8,
}  # fmt: skip
SIGNED = [INT, INT32, TensorProto.INT16, INT8]
UNSIGNED = [TensorProto.UINT64, TensorProto.UINT32, TensorProto.UINT16, UINT8]
INTEGERS = SIGNED + UNSIGNED
# What ONNX Runtime computes with, operator by operator.
ARITHMETIC = [INT, INT32, DOUBLE, FLOAT]
LARGEST = [INT, INT32, DOUBLE, FLOAT, TensorProto.UINT32, TensorProto.UINT64]
CHOSEN = [FLOAT, DOUBLE, INT, INT32, UINT8]
ORDERED = [FLOAT, DOUBLE, INT, INT32]


def random_array(rng, kind, shape):
    """rng: of numpy."""
    if kind == BOOL:
        return rng.integers(0, 2, shape).astype(numpy.bool_)
    if kind in INTEGERS:
        return rng.integers(0 if kind in UNSIGNED else -20, 50, shape).astype(NUMPY[kind])
    return rng.standard_normal(shape).astype(NUMPY[kind])


def has_elements(extent):
    """Whether it is above 0, whatever the sizes are: what is the largest of nothing, or its mean, ONNX does not say."""
    return extent is not None and extent != 0


class TypedSteps:
    """Of random_models.Maker. `exact` are the names of values that no rounding went into: their order is certain."""

    def of(self, kinds, rank=None):
        return lambda t: t.kind in kinds and None not in t.dims and (rank is None or len(t.dims) == rank)

    def number(self, kind, value):
        return self.constant(numpy.array(value, NUMPY[kind]))

    def cast(self):
        """Floats are clipped before they become integers, and moved off whole numbers, where rounding would decide."""
        t = self.pick(lambda u: u.kind in NUMPY and None not in u.dims)
        kind = self.rng.choice([k for k in NUMPY if k != t.kind])
        x, exact = t.name, t.name in self.exact
        if t.kind in (FLOAT, DOUBLE, HALF):
            exact = exact and kind in (FLOAT, DOUBLE) and t.kind != DOUBLE
            if kind in INTEGERS:
                low = 0 if kind in UNSIGNED else -100
                x = self.like(t, "Clip", x, self.number(t.kind, low), self.number(t.kind, 100)).name
                x = self.like(t, "Add", x, self.number(t.kind, 0.1234567)).name
                self.has_steps.append(True)
        elif t.kind in INTEGERS and kind in (HALF, FLOAT):
            low = 0 if t.kind in UNSIGNED else -100
            if t.kind in LARGEST:
                x = self.like(t, "Max", self.like(t, "Min", x, self.number(t.kind, 100)).name, self.number(t.kind, low)).name
        made = self.add("Cast", [x], kind, t.dims, to=kind)
        if exact:
            self.exact.add(made.name)

    def arithmetic(self):
        t = self.pick(self.of(ARITHMETIC + LARGEST))
        ops = ["Max", "Min"] + (["Add", "Sub", "Mul", "Div"] if t.kind in ARITHMETIC else [])
        op = self.rng.choice(ops)
        others = [u for u in self.values if u.kind == t.kind and u.dims == t.dims]
        if op != "Div" and self.rng.random() < 0.5:
            other = self.rng.choice(others).name
        else:
            other = self.number(t.kind, self.rng.choice([1, 2, 3, 7]))
        self.integers_stay_exact(t, self.like(t, op, t.name, other), other)

    def integers_stay_exact(self, t, made, other=None):
        if t.kind in INTEGERS and t.name in self.exact and (other is None or other.startswith("c") or other in self.exact):
            self.exact.add(made.name)

    def bits(self):
        t = self.pick(self.of(INTEGERS))
        op = self.rng.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Mod", "Abs"])
        if op == "Abs" and t.kind not in SIGNED:
            op = "BitwiseNot"
        if op in ("BitwiseNot", "Abs"):
            self.integers_stay_exact(t, self.like(t, op, t.name))
        else:
            self.integers_stay_exact(t, self.like(t, op, t.name, self.number(t.kind, self.rng.choice([3, 5, 12]))))

    def compare(self):
        t = self.pick(self.of(ORDERED))
        op = self.rng.choice(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"])
        threshold = self.number(t.kind, self.rng.choice([0, 1, 3]) if t.kind in INTEGERS else 0.34567)
        self.add(op, [t.name, threshold], BOOL, t.dims)

    def logic(self):
        t = self.pick(self.of([BOOL]))
        others = [u for u in self.values if u.kind == BOOL and u.dims == t.dims]
        op = self.rng.choice(["And", "Or", "Xor", "Not"])
        self.like(t, op, *([t.name] if op == "Not" else [t.name, self.rng.choice(others).name]))

    def choose(self):
        condition = self.pick(self.of([BOOL]))
        fitting = [u for u in self.values if u.kind in CHOSEN and u.dims == condition.dims]
        if not fitting:
            return
        t = self.rng.choice(fitting)
        self.like(t, "Where", condition.name, t.name, self.number(t.kind, 2))

    def top_k(self):
        t = self.pick(lambda u: self.of(ORDERED)(u) and u.dims)
        axis = self.rng.randrange(len(t.dims))
        most = t.dims[axis] if isinstance(t.dims[axis], int) else 1  # a size may be as small as that
        k = self.rng.randrange(1, most + 1)
        dims = t.dims[:axis] + (k,) + t.dims[axis + 1 :]
        values, places = self.add(
            "TopK", [t.name, self.ints(k)], t.kind, dims, outputs=2, axis=axis, largest=self.rng.randrange(2), sorted=1
        )
        places.kind = INT
        if t.name in self.exact:
            self.exact |= {values.name, places.name}
        else:
            self.values.remove(places)  # rounding decides between neighbours

    def arg(self):
        t = self.pick(lambda u: self.of(ORDERED)(u) and any(map(has_elements, u.dims)) and u.name in self.exact)
        axis = self.rng.choice([d for d, extent in enumerate(t.dims) if has_elements(extent)])
        keep = self.rng.randrange(2)
        dims = t.dims[:axis] + ((1,) if keep else ()) + t.dims[axis + 1 :]
        op = self.rng.choice(["ArgMax", "ArgMin"])
        made = self.add(op, [t.name], INT, dims, axis=axis, keepdims=keep, select_last_index=self.rng.randrange(2))
        self.exact.add(made.name)

    def reduce_integers(self):
        t = self.pick(lambda u: self.of([INT, INT32, DOUBLE])(u) and u.dims)
        axis = self.rng.randrange(len(t.dims))
        defined = ["ReduceMax", "ReduceMin"] if has_elements(t.dims[axis]) else []
        op = self.rng.choice(["ReduceSum", "ReduceProd", *defined])
        if op == "ReduceProd" and t.kind != DOUBLE:  # what comes of products that are too large is nowhere defined
            t = self.add("Sign", [t.name], t.kind, t.dims)
        made = self.add(op, [t.name, self.ints(axis)], t.kind, t.dims[:axis] + t.dims[axis + 1 :], keepdims=0)
        self.integers_stay_exact(t, made)

    def move(self):
        """What moves elements, of any type."""
        t = self.pick(lambda u: u.kind in NUMPY and u.kind not in (FLOAT, BOOL) and None not in u.dims and u.dims)
        axis = self.rng.randrange(len(t.dims))
        kind = self.rng.choice(["Transpose", "Concat", "Slice", "Gather"])
        if kind == "Transpose":
            perm = self.rng.sample(range(len(t.dims)), len(t.dims))
            made = self.add("Transpose", [t.name], t.kind, [t.dims[p] for p in perm], perm=perm)
        elif kind == "Concat":
            extent = 2 * t.dims[axis] if isinstance(t.dims[axis], int) else None
            made = self.add("Concat", [t.name, t.name], t.kind, t.dims[:axis] + (extent,) + t.dims[axis + 1 :], axis=axis)
        elif kind == "Slice":
            made = self.like(t, "Slice", t.name, self.ints(-1), self.ints(-(1 << 40)), self.ints(axis), self.ints(-1))
        else:
            made = self.add("Gather", [t.name, self.ints(0, -1)], t.kind, t.dims[:axis] + (2,) + t.dims[axis + 1 :], axis=axis)
        if t.name in self.exact:
            self.exact.add(made.name)

    def scatter(self):
        t = self.pick(lambda u: self.of([FLOAT, INT, INT32, DOUBLE])(u) and u.dims and isinstance(u.dims[0], int) and u.dims[0] > 0)
        rows = self.rng.sample(range(-t.dims[0], t.dims[0]), self.rng.randrange(1, t.dims[0] + 1))
        reduction = self.rng.choice(["none", "add", "max", "min"])
        if reduction == "none":
            rows = list({r % t.dims[0]: r for r in rows}.values())
        if any(not isinstance(d, int) for d in t.dims):
            return  # updates are as large as rows
        updates = self.constant(random_array(numpy.random.default_rng(self.rng.randrange(1 << 30)), t.kind, (len(rows), *t.dims[1:])))
        if self.rng.random() < 0.5:
            indices = self.constant(numpy.array(rows, numpy.int64)[:, None])
            self.like(t, "ScatterND", t.name, indices, updates, reduction=reduction)
        else:
            shape = (len(rows), *t.dims[1:])
            indices = numpy.array(rows, numpy.int64).reshape(-1, *[1] * (len(t.dims) - 1))
            indices = self.constant(numpy.ascontiguousarray(numpy.broadcast_to(indices, shape)))
            self.like(t, "ScatterElements", t.name, indices, updates, axis=0, reduction=reduction)

    def small_float(self):
        t = self.pick(self.of([FLOAT, HALF]))
        self.has_steps.append(True)
        small = self.add("Cast", [t.name], FLOAT8, t.dims, to=FLOAT8)
        self.values.remove(small)
        self.add("Cast", [small.name], t.kind, t.dims, to=t.kind)

    def half(self):
        t = self.pick(self.of([HALF, DOUBLE]))
        op = self.rng.choice(["Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Softmax", "Add", "Mul"])
        if op == "Softmax" and not t.dims:
            return
        self.like(t, op, *([t.name, t.name] if op in ("Add", "Mul") else [t.name]))

    # --- sequences

    def sequence_node(self, op, inputs, **attrs):
        name = self.name(op.lower())
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def sequence(self):
        """Elements of a tensor, or tensors of one type; then one of them, all of them, or how many there are."""
        t = self.pick(lambda u: self.of([FLOAT, INT])(u) and u.dims and isinstance(u.dims[0], int) and u.dims[0] > 0)
        if self.rng.random() < 0.5:
            keep = self.rng.randrange(2)
            made = self.sequence_node("SplitToSequence", [t.name], axis=0, keepdims=keep)
            count, dims = t.dims[0], ((1,) if keep else ()) + t.dims[1:]
        else:
            others = [u for u in self.values if u.kind == t.kind and u.dims == t.dims]
            made = self.sequence_node("SequenceConstruct", [t.name, self.rng.choice(others).name])
            if self.rng.random() < 0.5:
                made = self.sequence_node("SequenceInsert", [made, t.name, self.constant(numpy.int64(self.rng.randrange(-2, 3)))])
                count, dims = 3, t.dims
            else:
                count, dims = 2, t.dims
        if count > 1 and self.rng.random() < 0.3:
            made = self.sequence_node("SequenceErase", [made, self.constant(numpy.int64(self.rng.randrange(-count, count)))])
            count -= 1
        what = self.rng.choice(["at", "concat", "stack", "length"])
        if what == "at":
            self.add("SequenceAt", [made, self.constant(numpy.int64(self.rng.randrange(-count, count)))], t.kind, dims)
        elif what == "length":
            self.add("SequenceLength", [made], INT, ())
        elif what == "stack":
            self.add("ConcatFromSequence", [made], t.kind, (count, *dims), axis=0, new_axis=1)
        elif dims:
            self.add("ConcatFromSequence", [made], t.kind, (None, *dims[1:]), axis=0)

    # --- quantised operators

    def quantized(self, t, kind):
        """t in steps, with their scale and zero point."""
        self.has_steps.append(True)
        scale = self.number(FLOAT, self.rng.choice([0.02, 0.05, 0.1]))
        zero = self.number(kind, self.rng.choice([0, 3, 120]) if kind == UINT8 else self.rng.choice([0, -5, 7]))
        steps = self.add("QuantizeLinear", [t.name, scale, zero], kind, t.dims)
        self.values.remove(steps)
        return steps.name, scale, zero

    def quantized_weights(self, kind, shape, zero_points=1):
        rng = numpy.random.default_rng(self.rng.randrange(1 << 30))
        low, high = (0, 256) if kind == UINT8 else (-128, 128)
        weights = self.constant(rng.integers(low, high, shape).astype(NUMPY[kind]))
        scales = self.constant(rng.uniform(0.005, 0.02, zero_points).astype(numpy.float32) if zero_points > 1 else numpy.float32(0.01))
        zeros = numpy.zeros(zero_points, NUMPY[kind]) if zero_points > 1 else NUMPY[kind](0 if kind == INT8 else 128)
        return weights, scales, self.constant(zeros)

    def product_between_steps(self, op, kind, dims, x, weights, **attrs):
        """The product of what was dequantised, perhaps through a Relu, in steps again."""
        x = self.add("DequantizeLinear", x, FLOAT, ())
        weights = self.add("DequantizeLinear", weights, FLOAT, (), axis=0 if op == "Conv" else 1)
        made = [x, weights, self.add(op, [x.name, weights.name], FLOAT, dims, **attrs)]
        if self.rng.random() < 0.5:
            made.append(self.add("Relu", [made[-1].name], FLOAT, dims))
        scale, zero = self.number(FLOAT, 0.1), self.number(kind, 4)
        made.append(self.add("QuantizeLinear", [made[-1].name, scale, zero], kind, dims))
        for value in made:
            self.values.remove(value)
        self.add("DequantizeLinear", [made[-1].name, scale, zero], FLOAT, dims)

    def integer_product(self):
        t = self.pick(lambda u: self.floats(known=True)(u) and len(u.dims) == 2 and isinstance(u.dims[1], int) and u.dims[1] > 0)
        kind, width = self.rng.choice([UINT8, INT8]), self.rng.choice([1, 5, 16, 24])
        weights, w_scale, w_zero = self.quantized_weights(INT8 if kind == INT8 else self.rng.choice([UINT8, INT8]), (t.dims[1], width))
        steps, scale, zero = self.quantized(t, kind)
        dims = (t.dims[0], width)
        form = self.rng.choice(["integer", "quantised", "dequantised"])
        if form == "integer":
            self.add("MatMulInteger", [steps, weights, zero, w_zero], INT32, dims)
            return
        if form == "dequantised":
            self.product_between_steps("MatMul", kind, dims, [steps, scale, zero], [weights, w_scale, w_zero])
            return
        y_scale, y_zero = self.number(FLOAT, 0.1), self.number(kind, 4)
        made = self.add("QLinearMatMul", [steps, scale, zero, weights, w_scale, w_zero, y_scale, y_zero], kind, dims)
        self.values.remove(made)
        self.add("DequantizeLinear", [made.name, y_scale, y_zero], FLOAT, dims)

    def integer_convolution(self):
        t = self.pick(lambda u: self.floats(known=True)(u) and len(u.dims) == 4 and isinstance(u.dims[1], int) and u.dims[1] > 0)
        channels = self.rng.choice([1, 6, 12])
        per_channel = channels if self.rng.random() < 0.5 else 1
        weights, w_scale, w_zero = self.quantized_weights(INT8, (channels, t.dims[1], 3, 3), per_channel)
        steps, scale, zero = self.quantized(t, UINT8)
        dims = (t.dims[0], channels, *t.dims[2:])
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        form = self.rng.choice(["integer", "quantised", "dequantised"])
        if form == "integer":
            self.add("ConvInteger", [steps, weights, zero], INT32, dims, **window)
            return
        if form == "dequantised":
            self.product_between_steps("Conv", UINT8, dims, [steps, scale, zero], [weights, w_scale, w_zero], **window)
            return
        y_scale, y_zero = self.number(FLOAT, 0.1), self.number(UINT8, 100)
        made = self.add("QLinearConv", [steps, scale, zero, weights, w_scale, w_zero, y_scale, y_zero], UINT8, dims, **window)
        self.values.remove(made)
        self.add("DequantizeLinear", [made.name, y_scale, y_zero], FLOAT, dims)

    def dynamic_quantize(self):
        t = self.pick(lambda u: self.floats(known=True)(u))
        self.has_steps.append(True)
        steps, scale, zero = self.add("DynamicQuantizeLinear", [t.name], UINT8, t.dims, outputs=3)
        for made in (steps, scale, zero):
            self.values.remove(made)
        self.add("DequantizeLinear", [steps.name, scale.name, zero.name], FLOAT, t.dims)

    def typed_step(self):
        kind = self.rng.choice([
            self.cast, self.cast, self.arithmetic, self.arithmetic, self.bits, self.compare, self.logic, self.choose,
            self.top_k, self.arg, self.reduce_integers, self.move, self.move, self.scatter, self.small_float, self.half,
            self.integer_product, self.integer_convolution, self.dynamic_quantize, self.sequence, self.sequence,
        ])  # fmt: skip
        kind()
