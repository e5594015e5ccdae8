"""Random models with open sizes, branches, loops, sequences and all types, beside ONNX Runtime.

    random_models.py --seed 1 --count 100 [--processes N] [--passes] [--keep FOLDER] [--only SEED]

Each model is made from its seed: operators on tensors whose extents are numbers or sizes that its inputs leave open,
with If, Loop and Scan around more of them. It is compiled once and run at several sizes. Where results differ by more
than rounding explains, the model is evaluated in double precision; a difference counts unless that, or ONNX Runtime
without its optimisations, sides with us. With --passes, models are compared with what they are without any pass over the
graph that can be left out: with each of these alone, and with all together. The last line counts models; the exit status
is 1 where one is wrong or refused."""

import argparse
import os
import pathlib
import random
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import fettle
from apart import run_apart
from exact import distance, in_double, wide
from typed_steps import BOOL, FLOAT, HALF, INT, INTEGERS, NUMPY, TypedSteps, has_elements, random_array

SIZES = ["N", "M"]


class NothingFits(Exception):
    """No value is what a step needs."""


class Tensor:
    """A value of the model that is being made: its dims are numbers, names of sizes, or None where data decide."""

    def __init__(self, name, kind, dims):
        self.name, self.kind, self.dims = name, kind, tuple(dims)


class Maker(TypedSteps):
    """Makes the nodes of one graph; `outer` are values of graphs around it, which it may read."""

    def __init__(self, rng, names, outer=(), depth=0, around=None):
        self.rng, self.names, self.depth = rng, names, depth
        self.exact = around.exact if around else set()
        self.has_steps = around.has_steps if around else []  # not empty: quantised values, or integers from floats
        self.nodes, self.initializers, self.values = [], [], list(outer)

    def name(self, what):
        self.names[0] += 1
        return f"{what}{self.names[0]}"

    def constant(self, array):
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(numpy.array(array), name))
        return name

    def ints(self, *values):
        return self.constant(numpy.array(values, numpy.int64))

    def add(self, op, inputs, kind, dims, outputs=1, **attrs):
        made = [self.name(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, **attrs))
        tensors = [Tensor(n, kind, dims) for n in made]
        self.values += tensors
        return tensors[0] if outputs == 1 else tensors

    def pick(self, accepts=lambda t: True):
        fitting = [t for t in self.values if accepts(t)]
        # Later values more often: chains grow.
        if not fitting:
            raise NothingFits
        return self.rng.choice(fitting[-6:] if self.rng.random() < 0.7 else fitting)

    def floats(self, rank=None, known=False):
        return lambda t: (
            t.kind == FLOAT and (rank is None or len(t.dims) == rank) and not (known and None in t.dims)
        )

    def like(self, t, op, *inputs, **attrs):
        return self.add(op, list(inputs), t.kind, t.dims, **attrs)

    # --- kinds of steps

    def unary(self):
        t = self.pick(self.floats())
        op = self.rng.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Exp", "Erf", "Softplus", "Identity", "Sqrt"])
        x = t.name
        if op == "Exp":
            x = self.like(t, "Tanh", x).name
        if op == "Sqrt":
            x = self.like(t, "Abs", x).name
        self.like(t, op, x)

    def binary(self):
        t = self.pick(self.floats())
        op = self.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
        others = [u for u in self.values if u.kind == FLOAT and u.dims == t.dims and None not in t.dims]
        if others and self.rng.random() < 0.6:
            other = self.rng.choice(others).name
        else:
            last = t.dims[-1] if t.dims and isinstance(t.dims[-1], int) and self.rng.random() < 0.5 else None
            shape = (last,) if last is not None else ()
            other = self.constant(self.array(shape))
        self.like(t, op, *self.rng.sample([t.name, other], 2))

    def array(self, shape):
        return numpy.random.default_rng(self.rng.randrange(1 << 30)).standard_normal(shape).astype(numpy.float32)

    def matmul(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 2 and isinstance(u.dims[-1], int) and u.dims[-1] > 0)
        width = self.rng.choice([1, 3, 8, 17])
        weights = self.constant(self.array((t.dims[-1], width)) / numpy.float32(max(1, t.dims[-1]) ** 0.5))
        self.add("MatMul", [t.name, weights], FLOAT, t.dims[:-1] + (width,))

    def product_of_two(self):
        t = self.pick(lambda u: self.floats(known=True)(u) and len(u.dims) == 3)
        back = self.add("Transpose", [t.name], FLOAT, (t.dims[0], t.dims[2], t.dims[1]), perm=[0, 2, 1])
        scores = self.add("MatMul", [t.name, back.name], FLOAT, (t.dims[0], t.dims[1], t.dims[1]))
        self.like(scores, "Softmax", scores.name, axis=-1)

    def transpose(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 2)
        perm = list(range(len(t.dims)))
        self.rng.shuffle(perm)
        self.add("Transpose", [t.name], FLOAT, [t.dims[p] for p in perm], perm=perm)

    def reduce(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 1)
        axis, keep = self.rng.randrange(len(t.dims)), self.rng.random() < 0.5
        dims = t.dims[:axis] + ((1,) if keep else ()) + t.dims[axis + 1 :]
        # Of nothing, ONNX does not define the others.
        defined = ["ReduceMean", "ReduceMax"] if has_elements(t.dims[axis]) else []
        op = self.rng.choice(["ReduceSum", "ReduceL2", *defined])
        self.add(op, [t.name, self.ints(axis)], FLOAT, dims, keepdims=int(keep))

    def softmax(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 1)
        self.like(t, "Softmax", t.name, axis=self.rng.randrange(len(t.dims)))

    def concat(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 1)
        axis = self.rng.randrange(len(t.dims))
        extent = t.dims[axis]
        extent = 2 * extent if isinstance(extent, int) else None
        self.add("Concat", [t.name, t.name], FLOAT, t.dims[:axis] + (extent,) + t.dims[axis + 1 :], axis=axis)

    def slice(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 1)
        axis = self.rng.randrange(len(t.dims))
        start, end, step = self.rng.choice([(0, 2, 1), (1, 1 << 40, 1), (-2, 1 << 40, 1), (0, 1 << 40, 2), (-1, -(1 << 40), -1)])
        dims = t.dims[:axis] + (None,) + t.dims[axis + 1 :]
        if (start, step) == (-1, -1):
            dims = t.dims
        self.add("Slice", [t.name, self.ints(start), self.ints(end), self.ints(axis), self.ints(step)], FLOAT, dims)

    def slice_by_data(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 1)
        axis = self.rng.randrange(len(t.dims))
        count = self.pick(self.floats())
        total = self.add("ReduceSum", [count.name], FLOAT, (), keepdims=0)
        # No large sum is near a whole number.
        small = self.add("Mul", [self.like(total, "Tanh", total.name).name, self.constant(numpy.float32(2.6))], FLOAT, ())
        whole = self.add("Cast", [self.like(small, "Abs", small.name).name], INT, (), to=INT)
        end = self.add("Reshape", [whole.name, self.ints(1)], INT, (1,))
        dims = t.dims[:axis] + (None,) + t.dims[axis + 1 :]
        self.add("Slice", [t.name, self.ints(0), end.name, self.ints(axis)], FLOAT, dims)

    def flatten(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 2 and isinstance(u.dims[-1], int) and u.dims[-1] > 0)
        self.add("Reshape", [t.name, self.ints(-1, t.dims[-1])], FLOAT, (None, t.dims[-1]))

    def unsqueeze(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) <= 3)
        axis = self.rng.randrange(len(t.dims) + 1)
        self.add("Unsqueeze", [t.name, self.ints(axis)], FLOAT, t.dims[:axis] + (1,) + t.dims[axis:])

    def where(self):
        t = self.pick(self.floats())
        condition = self.add("Greater", [t.name, self.constant(numpy.float32(0.1))], BOOL, t.dims)
        self.add("Where", [condition.name, t.name, self.constant(numpy.float32(-0.5))], FLOAT, t.dims)

    def non_zero(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) == 2)
        mask = self.add("Greater", [t.name, self.constant(numpy.float32(0.2))], BOOL, t.dims)
        self.add("Cast", [self.add("NonZero", [mask.name], INT, (2, None)).name], FLOAT, (2, None), to=FLOAT)

    def gather(self):
        t = self.pick(lambda u: self.floats()(u) and u.dims and isinstance(u.dims[-1], int) and u.dims[-1] > 1)
        picks = self.ints(*[self.rng.randrange(-t.dims[-1], t.dims[-1]) for _ in range(3)])
        self.add("Gather", [t.name, picks], FLOAT, t.dims[:-1] + (3,), axis=len(t.dims) - 1)

    def cumsum(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) >= 1)
        axis = self.constant(numpy.int64(self.rng.randrange(len(t.dims))))
        self.like(t, "CumSum", t.name, axis, exclusive=self.rng.randrange(2), reverse=self.rng.randrange(2))

    def quantize(self):
        t = self.pick(self.floats())
        self.has_steps.append(True)
        scale, zero = self.constant(numpy.float32(0.05)), self.constant(numpy.uint8(120))
        steps = self.add("QuantizeLinear", [t.name, scale, zero], TensorProto.UINT8, t.dims)
        self.values.remove(steps)
        self.add("DequantizeLinear", [steps.name, scale, zero], FLOAT, t.dims)

    # --- control flow

    def body(self, inputs, steps):
        made = Maker(self.rng, self.names, list(self.values) + inputs, self.depth + 1, self)
        for _ in range(steps):
            made.step()
        return made

    def finish(self, made, name, inputs, results):
        """A body whose results are copies, since a value from around is none."""
        outputs = []
        for t in results:
            copy = self.name("out")
            made.nodes.append(helper.make_node("Identity", [t.name], [copy]))
            outputs.append(helper.make_tensor_value_info(copy, t.kind, [d if isinstance(d, int) else None for d in t.dims]))
        infos = [helper.make_tensor_value_info(t.name, t.kind, [d if isinstance(d, int) else None for d in t.dims]) for t in inputs]
        return helper.make_graph(made.nodes, self.name(name), infos, outputs, made.initializers)

    def condition(self):
        total = self.add("ReduceSum", [self.pick(self.floats()).name], FLOAT, (), keepdims=0)
        return self.add("Greater", [total.name, self.constant(numpy.float32(0))], BOOL, ())

    def branch(self):
        condition = self.condition()
        bodies = [self.body([], self.rng.randrange(1, 4)) for _ in range(2)]
        picks = [m.pick(m.floats()) for m in bodies]
        if len(picks[0].dims) != len(picks[1].dims):
            picks[1] = bodies[1].pick(bodies[1].floats(rank=len(picks[0].dims)))
        dims = [a if a == b else None for a, b in zip(picks[0].dims, picks[1].dims)]
        graphs = [self.finish(m, "branch", [], [t]) for m, t in zip(bodies, picks)]
        self.add("If", [condition.name], FLOAT, dims, then_branch=graphs[0], else_branch=graphs[1])

    def loop(self):
        start = self.pick(self.floats())
        grows = self.rng.random() < 0.3 and len(start.dims) >= 1
        dims = ((None,) + start.dims[1:]) if grows else start.dims
        i = Tensor(self.name("i"), INT, ())
        go, kept = Tensor(self.name("go"), BOOL, ()), Tensor(self.name("kept"), FLOAT, dims)
        made = self.body([kept], self.rng.randrange(1, 3))
        made.values = [t for t in made.values if t.kind == FLOAT] or made.values
        if grows:
            last = made.add("Concat", [kept.name, start.name], FLOAT, dims, axis=0)
        else:
            factor = made.constant(numpy.float32(0.5))
            last = made.add("Mul", [made.add("Tanh", [kept.name], FLOAT, dims).name, factor], FLOAT, dims)
            fitting = [t for t in made.values if t.kind == FLOAT and t.dims == dims and None not in dims]
            if fitting:
                last = made.add("Add", [last.name, made.rng.choice(fitting).name], FLOAT, dims)
        row = None
        if self.rng.random() < 0.6 and not grows:
            row = made.add("Neg", [last.name], FLOAT, dims)
        graph = self.finish(made, "body", [i, go, kept], [go, last] + ([row] if row else []))
        # Of no rows ONNX Runtime takes extents for 0 that the body leaves open.
        fewest = 1 if row and not all(isinstance(d, int) for d in dims) else 0
        count = self.constant(numpy.int64(self.rng.choice([fewest, 1, 3, 7])))
        outputs = [self.name("loop")] + ([self.name("rows")] if row else [])
        self.nodes.append(helper.make_node("Loop", [count, "", start.name], outputs, body=graph))
        self.values.append(Tensor(outputs[0], FLOAT, dims))
        if row:
            self.values.append(Tensor(outputs[1], FLOAT, (None,) + dims))

    def scan(self):
        t = self.pick(lambda u: self.floats()(u) and len(u.dims) in (2, 3) and None not in u.dims)
        dims = t.dims[1:]
        state = self.add("ReduceSum", [t.name, self.ints(0)], FLOAT, dims, keepdims=0)
        inside = [Tensor(self.name("s"), FLOAT, dims), Tensor(self.name("x"), FLOAT, dims)]
        made = Maker(self.rng, self.names, list(self.values) + inside, self.depth + 1, self)
        summed = made.add("Add", [inside[0].name, inside[1].name], FLOAT, dims)
        kept = made.add("Tanh", [summed.name], FLOAT, dims)
        graph = self.finish(made, "scan", inside, [kept, summed])
        outputs = [self.name("scan"), self.name("scanned")]
        self.nodes.append(
            helper.make_node(
                "Scan", [state.name, t.name], outputs, body=graph, num_scan_inputs=1,
                scan_input_directions=[self.rng.randrange(2)], scan_output_directions=[self.rng.randrange(2)],
            )
        )  # fmt: skip
        self.values += [Tensor(outputs[0], FLOAT, dims), Tensor(outputs[1], FLOAT, t.dims)]

    def step(self):
        kinds = [
            self.unary, self.unary, self.binary, self.binary, self.matmul, self.transpose, self.reduce, self.softmax,
            self.concat, self.slice, self.unsqueeze, self.where, self.gather, self.cumsum, self.flatten, self.quantize,
            self.product_of_two, self.slice_by_data, self.non_zero,
        ]  # fmt: skip
        kinds += [self.typed_step] * 16
        if self.depth < 2:
            kinds += [self.branch, self.loop, self.scan]
        kind = self.rng.choice(kinds)
        try:
            kind()
        except NothingFits:
            pass


def make_model(seed):
    """The model, its inputs, and whether a step of quantisation may go the other way."""
    rng = random.Random(seed)
    maker = Maker(rng, [0])
    inputs = []
    for i in range(rng.randrange(1, 4)):
        dims = [rng.choice([*SIZES, 1, 3, 8, 19]) for _ in range(rng.choice([1, 2, 2, 3, 3, 4]))]
        kind = rng.choice([FLOAT] * 8 + list(NUMPY)) if i else FLOAT
        inputs.append(Tensor(f"x{i}", kind, dims))
    maker.values += inputs
    maker.exact |= {t.name for t in inputs}
    for _ in range(rng.randrange(3, 14)):
        maker.step()
    made = [t for t in maker.values[len(inputs) :] if t.kind in NUMPY]
    used = {name for node in maker.nodes for name in node.input}
    results = [t for t in made if t.name not in used] or made[-1:]
    infos = [helper.make_tensor_value_info(t.name, t.kind, list(t.dims)) for t in inputs]
    outputs = [helper.make_tensor_value_info(t.name, t.kind, [None] * len(t.dims)) for t in results[:6]]
    graph = helper.make_graph(maker.nodes, f"random{seed}", infos, outputs, maker.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return model, inputs, bool(maker.has_steps)


def feeds_of(seed, inputs):
    for trial, sizes in enumerate(({"N": 4, "M": 3}, {"N": 1, "M": 9}, {"N": 17, "M": 2})):
        rng = numpy.random.default_rng([seed, trial])
        yield {t.name: random_array(rng, t.kind, [sizes.get(d, d) for d in t.dims]) for t in inputs}


# Of the largest value. A step of quantisation may go the other way where a sum is rounded another way.
TOLERANCE, TOLERANCE_OF_HALVES, TOLERANCE_OF_STEPS = 2e-4, 1e-2, 0.2


class Differs(Exception):
    """Why results are wrong."""


class Judge:
    """Of one model: who is right where results differ."""

    def __init__(self, model, path, has_steps):
        self.model, self.path = model, path
        self.has_halves = HALF in set(_types(model.graph))
        self.tolerance = TOLERANCE_OF_STEPS if has_steps else TOLERANCE_OF_HALVES if self.has_halves else TOLERANCE
        self.has_steps, self.plain = has_steps, None

    def is_near(self, made, expected):
        exactly = expected.dtype.kind in "iub" and not self.has_steps
        return distance(made, expected) <= (0 if exactly else self.tolerance)

    def session(self, level):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI it cuts sums to 16 bits else
        return onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])

    def settle(self, name, made, expected, feed, other):
        """Raises where nobody sides with what was made."""
        try:
            exact = in_double(self.model).run([name], {k: wide(v) for k, v in feed.items()})[0]
            ours, theirs = distance(made, exact), distance(expected, exact)
            if self.is_near(made, exact) or ours <= 2 * theirs < numpy.inf:
                return
        except Exception:  # noqa: BLE001  (the evaluator lacks something)
            ours = theirs = numpy.nan
        self.plain = self.plain or self.session(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        if self.is_near(made, self.plain.run([name], feed)[0]):
            return
        raise Differs(
            f"wrong: {name}, {made.dtype}{list(made.shape)}: {distance(made, expected):.3g} off {other}, "
            f"{expected.dtype}{list(expected.shape)}; of double precision's result {ours:.3g}, {other} {theirs:.3g}"
        )


def _types(graph):
    for tensor in graph.initializer:
        yield tensor.data_type
    for value in graph.input:
        yield value.type.tensor_type.elem_type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "to":
                yield attribute.i
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _types(attribute.g)


def beside_onnxruntime(judge, seed, inputs, tell):
    """'ok', 'skipped', 'near' where rounding decides, or 'refused: …'. `tell` is told whose turn it is."""
    tell("onnxruntime")
    try:
        session = judge.session(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    except Exception as error:  # noqa: BLE001  (a model that is none)
        return f"skipped: {error}"
    compiled, near = None, False
    for feed in feeds_of(seed, inputs):
        tell("onnxruntime")
        try:
            want = session.run(None, feed)
        except Exception:  # noqa: BLE001  (sizes that do not go together)
            want = None
        tell("fettle")
        try:
            compiled = compiled or fettle.compile(judge.path)
            made = compiled.run(**feed)
        except fettle.Error as error:
            if want is None:
                continue
            return f"refused: {error}"
        if want is None:
            continue
        for output, expected in zip(session.get_outputs(), want):
            if not judge.is_near(made[output.name], expected):
                judge.settle(output.name, made[output.name], expected, feed, "ONNX Runtime")
                near = True
    return "near" if near else "ok"


def beside_no_passes(judge, seed, inputs, tell):
    """The same of each pass over the graph beside none."""
    tell("fettle")
    every = fettle.graph_passes
    feeds = list(feeds_of(seed, inputs))
    try:
        plain = fettle.compile(judge.path, without=every)
    except fettle.Error as error:
        return f"skipped: {error}"
    near = False
    for name in (*every, None):
        without = [other for other in every if name is not None and other != name]
        try:
            compiled = fettle.compile(judge.path, without=without)
        except fettle.Error as error:
            return f"refused: with {name or 'all passes'}: {error}"
        for feed in feeds:
            try:
                want = plain.run(**feed)
            except fettle.Error:  # sizes that do not go together
                continue
            made = compiled.run(**feed)
            for output, expected in want.items():
                if not judge.is_near(made[output], expected):
                    try:
                        judge.settle(output, made[output], expected, feed, f"without {name or 'passes'}")
                    except Differs as error:
                        raise Differs(f"{error}, with {name or 'all passes'}") from None
                    near = True
    return "near" if near else "ok"


def judge_model(seed, keep, passes, tell):
    model, inputs, has_steps = make_model(seed)
    folder = keep or tempfile.mkdtemp()
    path = os.path.join(folder, f"random{seed}.onnx")
    onnx.save(model, path)
    try:
        return (beside_no_passes if passes else beside_onnxruntime)(Judge(model, path, has_steps), seed, inputs, tell)
    except Differs as error:
        return str(error)
    finally:
        if not keep:
            os.remove(path)
            os.rmdir(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--passes", action="store_true", help="each pass over the graph beside none")
    parser.add_argument("--keep", help="a folder where the models stay")
    arguments = parser.parse_args()
    seeds = [arguments.only] if arguments.only is not None else range(arguments.seed, arguments.seed + arguments.count)
    counts, bad = {}, 0

    def judge(seed, tell):
        return judge_model(seed, arguments.keep, arguments.passes, tell)

    for seed, verdict, told, how in run_apart(seeds, judge, arguments.processes):
        if how and not (told and told[-1] == "onnxruntime"):
            verdict = f"wrong: {how} {verdict}"
        elif how:
            verdict = f"skipped: ONNX Runtime {how} {verdict}"
        kind = verdict.split(":", maxsplit=1)[0]
        counts[kind] = counts.get(kind, 0) + 1
        if kind in ("wrong", "refused"):
            bad += 1
            print(f"{seed}: {verdict}", flush=True)
        elif kind == "skipped" and arguments.only is not None:
            print(verdict)
    print(f"{len(seeds)} models: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
