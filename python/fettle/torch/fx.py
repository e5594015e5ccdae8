"""FX graphs of ATen operators as graphs of Fettle.

`Walk` goes over a graph's nodes. What an operator becomes is a function in a table (`translates`), made of Fettle's own
operators. One that is not in the table, or whose arguments are not covered, is refused by name (`Unsupported`)."""

import functools
import inspect
import operator

import ml_dtypes
import numpy
import sympy
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._sympy import functions as symbolic

import fettle

Kind = ELEMENTWISE_TYPE_PROMOTION_KIND

# Element types: torch's, and their names.
DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.bool: "bool",
}

# Complex ones, and the type of their parts.
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}

_operators = {}  # OpOverload → its function, and the arguments that this takes
_complex_operators = {}  # the same, where an operand or a result is complex


class Unsupported(Exception):
    """The reason why an operator is left to torch."""


def translates(*names, table=_operators):
    """The function below stands for these operators: "add.Tensor" of aten, "prims::erfc.default", "higher_order::cond"."""

    def register(function):
        for name in names:
            space, _, name = name.rpartition("::")
            packet, _, overload = name.partition(".")
            overloads = getattr(getattr(torch.ops, space or "aten"), packet, None)
            found = overloads  # one of a higher order
            if not isinstance(overloads, torch._ops.HigherOrderOperator):
                found = getattr(overloads, overload or "default", None)
            if found is not None:  # torch of another version may lack it
                table[found] = (function, inspect.signature(function))
        return function

    return register


def translates_complex(*names):
    return translates(*names, table=_complex_operators)


def translation(overload):
    return _operators[overload][0]


def known():
    return set(_operators) | set(_complex_operators)


class Tensor:
    """A tensor of the FX graph: its value in Fettle's, and what torch says of it."""

    __slots__ = ("fake", "value")

    def __init__(self, value, fake):
        self.value, self.fake = value, fake

    dtype = property(lambda self: self.fake.dtype)
    shape = property(lambda self: tuple(self.fake.shape))
    rank = property(lambda self: self.fake.dim())


class Complex(Tensor):
    """A tensor of complex numbers: their real and imaginary parts are values of their own."""

    __slots__ = ("imaginary", "real")

    def __init__(self, real, imaginary, fake):
        self.real, self.imaginary, self.fake = real, imaginary, fake

    @property
    def value(self):
        raise Unsupported("complex numbers")


# What orders effects. Torch passes None for it.
TOKEN = object()


def is_complex(value):
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    return isinstance(value, (Complex, complex)) or (isinstance(value, torch.Tensor) and value.is_complex())


def numpy_dtype(dtype):
    name = DTYPES.get(dtype)
    if name is None:
        raise Unsupported(f"element type {dtype}")
    return numpy.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def array_of(tensor):
    """numpy's view of the same memory. While torch traces, operators would make none that are real."""
    with unset_fake_temporarily():
        tensor = tensor.detach().resolve_neg().contiguous()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()


def tensor_of(array):
    """Torch's view of numpy's memory."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def is_number(value):
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def expression(value):
    """sympy's expression of an integer."""
    return value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)


def axis_of(axis, rank):
    return axis + max(rank, 1) if axis < 0 else axis


class Builder:
    """What functions of operators make nodes with. `out` is what torch says of the node's result, or of its results."""

    def __init__(self):
        self.graph = fettle.Graph()
        self.out = None
        self.node = None
        self.checks = []  # (a scalar that is 1 where a call is wrong, what makes the error)
        self._constants = {}
        self._sizes = {}  # symbol → the value that it stands in, and the axis, or None: the value itself
        self._dims = {}

    # --- numbers

    def constant(self, value, dtype):
        """A scalar; equal ones are one."""
        key = (repr(value), dtype)
        if key not in self._constants:
            self._constants[key] = self.graph.constant(numpy.asarray(value, numpy_dtype(dtype)))
        return self._constants[key]

    def integers(self, values):
        key = tuple(values)
        if key not in self._constants:
            self._constants[key] = self.graph.constant(numpy.asarray(key, "int64").reshape(len(key)))
        return self._constants[key]

    def number(self, value, dtype):
        """A scalar of this type: a number, or a size."""
        if isinstance(value, torch.SymInt):
            if value.node.is_constant():
                return self.constant(int(value), dtype)
            return self.cast(self.graph.Squeeze(self.dims([value]), self.integers([0])), torch.int64, dtype)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise Unsupported(f"a number that sizes decide ({value})")
        return self.constant(value, dtype)

    # --- sizes

    def size_in(self, symbol, value, axis):
        self._sizes.setdefault(symbol, (value, axis))

    def has_size(self, symbol):
        return symbol in self._sizes

    def dims(self, values):
        """A shape, as a tensor of int64."""
        values = [int(v) if isinstance(v, torch.SymInt) and v.node.is_constant() else v for v in values]
        if all(isinstance(v, int) for v in values):
            return self.integers(values)
        parts = [self.integers([v]) if isinstance(v, int) else self._dim(expression(v)) for v in values]
        return parts[0] if len(parts) == 1 else self.graph.Concat(*parts, axis=0)

    def _dim(self, expr):
        if expr not in self._dims:
            self._dims[expr] = self._computed(expr)
        return self._dims[expr]

    def _computed(self, expr):
        g = self.graph
        if expr.is_Integer:
            return self.integers([int(expr)])
        if expr.is_Symbol:
            if expr not in self._sizes:
                raise Unsupported(f"the size {expr}, which no input tells")
            value, axis = self._sizes[expr]
            return value if axis is None else g.Shape(value, start=axis, end=axis + 1)
        parts = expr.args
        if expr.is_Pow and parts[1].is_Integer and parts[1] > 0:
            return self._folded(g.Mul, [parts[0]] * int(parts[1]))
        for kind, make in ((sympy.Add, g.Add), (sympy.Mul, g.Mul), (symbolic.Max, g.Max), (symbolic.Min, g.Min),
                           (sympy.Max, g.Max), (sympy.Min, g.Min)):  # fmt: skip
            if isinstance(expr, kind):
                return self._folded(make, parts)
        if isinstance(expr, (symbolic.FloorDiv, symbolic.CleanDiv)):  # sizes are not negative
            return g.Div(self._dim(parts[0]), self._dim(parts[1]))
        if isinstance(expr, (symbolic.Mod, symbolic.PythonMod)):
            return g.Mod(self._dim(parts[0]), self._dim(parts[1]))
        if isinstance(expr, sympy.Piecewise):
            made = None
            for value, condition in reversed(parts):
                made = self._dim(value) if made is None else g.Where(self._truth(condition), self._dim(value), made)
            return made
        raise Unsupported(f"the size {expr}")

    def _truth(self, condition):
        """Of sizes."""
        if isinstance(condition, (sympy.And, sympy.Or)):
            join = self.graph.And if isinstance(condition, sympy.And) else self.graph.Or
            return functools.reduce(join, map(self._truth, condition.args))
        for kind, name in ((sympy.Eq, "Equal"), (sympy.Lt, "Less"), (sympy.Le, "LessOrEqual"), (sympy.Gt, "Greater"),
                           (sympy.Ge, "GreaterOrEqual")):  # fmt: skip
            if isinstance(condition, kind):
                return self.graph.node(name, [self._dim(side) for side in condition.args])
        raise Unsupported(f"the condition {condition}")

    def _folded(self, make, parts):
        total = self._dim(parts[0])
        for part in parts[1:]:
            total = make(total, self._dim(part))
        return total

    # --- tensors

    def cast(self, value, dtype, to):
        return value if dtype == to else self.graph.Cast(value, to=DTYPES[to])

    def as_type(self, x, dtype):
        """A tensor or a number, in this type."""
        if isinstance(x, Tensor):
            numpy_dtype(dtype)
            return self.cast(x.value, x.dtype, dtype)
        return self.number(x, dtype)

    def promoted(self, *args, kind=Kind.DEFAULT):
        """Operands in the type that torch computes in, and that type."""
        numpy_dtypes = [a.fake if isinstance(a, Tensor) else a for a in args]
        computed, result = elementwise_dtypes(*numpy_dtypes, type_promotion_kind=kind)
        dtype = computed if kind is Kind.ALWAYS_BOOL else result
        numpy_dtype(dtype)
        return [self.as_type(a, dtype) for a in args], dtype

    def reshape(self, value, shape):
        """Where one extent is open and the others are numbers, it is what is left."""
        shape = list(shape)
        open_ = [i for i, e in enumerate(shape) if not isinstance(e, int)]
        if len(open_) == 1 and all(shape[:open_[0]] + shape[open_[0] + 1:]):
            shape[open_[0]] = -1
        return self.graph.Reshape(value, self.dims(shape), allowzero=1)

    def transpose(self, value, perm):
        return value if list(perm) == sorted(perm) else self.graph.Transpose(value, perm=list(perm))

    @staticmethod
    def numel(x):
        return functools.reduce(operator.mul, x.shape, 1)

    def check(self, wrong, error):
        """Has a call raise what `error` makes where any of these truths holds."""
        flat = self.graph.Reshape(self.graph.Cast(wrong, to="int32"), self.integers([-1]))
        any_wrong = self.graph.ReduceMax(flat, self.integers([0]), keepdims=0)  # the least integer where there are no elements
        self.checks.append((self.graph.Max(any_wrong, self.constant(0, torch.int32)), error))

    def indices(self, index, extent, negative=False):
        """As int64; a call whose indices lie outside raises, as in eager mode. negative: counted from the end, too."""
        g, value = self.graph, self.as_type(index, torch.int64)
        end = self.number(extent, torch.int64)
        begin = g.Neg(end) if negative else self.constant(0, torch.int64)
        text = f"{_name(self.node)}: an index lies outside of an axis of {extent}"
        self.check(g.Or(g.Less(value, begin), g.GreaterOrEqual(value, end)), functools.partial(IndexError, text))
        return value

    def parts_of_pairs(self, value, axis):
        return [self.graph.Gather(value, self.constant(i, torch.int64), axis=axis) for i in (0, 1)]

    def zeros(self, shape, dtype, fill=0):
        return self.graph.Expand(self.constant(fill, dtype), self.dims(shape))

    def uses(self, index):
        """Whether anyone wants the node's result of this number."""
        return any(user.target is not operator.getitem or user.args[1] == index for user in self.node.users)


class Input:
    """An input of the compiled model: the FX graph's of this number, and what torch says of it; a number itself without a fake."""

    def __init__(self, index, fake=None):
        self.index, self.fake = index, fake
        self.is_number = fake is None


class Walk:
    """Translates the graph of `module`. `constants`: index of an input → the tensor that it always is.

    `refused` has the nodes that are left to torch, and why; only without any is `graph` whole."""

    def __init__(self, module, constants):
        self.module = module
        self.builder = Builder()
        self.graph = self.builder.graph
        self.inputs, self.outputs = [], []  # of the model: Input; indices into `results`
        self.results = []  # of the FX graph: fakes, and what is none
        self.orders = []  # of each output's axes in memory, or None: as they are
        # Index into `results` → what it is a view of: ("a", index of an input, its fake), or ("y", index of a result, its fake)
        self.views = {}
        self.sizes = {}  # names of open sizes → options of fettle.compile
        self.refused = {}
        self._stand_ins = 0
        self._values = {}
        self._constants = constants
        placeholders = module.graph.find_nodes(op="placeholder")
        for index, node in enumerate(placeholders):
            self._placeholder(index, node)
        self._number_inputs(placeholders)
        for node in module.graph.nodes:
            if node.op not in ("placeholder", "output"):
                self._visit(node)
        self._finish(module.graph.output_node())
        self.errors = [error for _, error in self.builder.checks]
        if self.errors:
            self.graph.output("check", self._first_error())

    # --- inputs

    def _placeholder(self, index, node):
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            self._values[node] = fake
            return
        if any(user.target is torch.ops.higher_order.with_effects and user.args[0] is node for user in node.users):
            self._values[node] = TOKEN
            return
        if index in self._constants:
            self._values[node] = self._constant(self._constants[index], fake)
            return
        self._values[node] = self._input(f"x{index}", fake)
        if self._values[node]:
            self.inputs.append(Input(index, fake))

    def _constant(self, tensor, fake):
        self._check(fake)
        if tensor.is_complex():
            with unset_fake_temporarily():
                parts = torch.view_as_real(tensor.detach().resolve_conj()).unbind(-1)
            return Complex(*(self.graph.constant(array_of(part)) for part in parts), fake)
        return Tensor(self.graph.constant(array_of(tensor)), fake)

    def _check(self, fake):
        if fake.is_sparse or fake.layout != torch.strided:
            raise Unsupported(f"a tensor whose layout is {fake.layout}")
        if fake.device.type != "cpu":
            raise Unsupported(f"a tensor on {fake.device}")
        numpy_dtype(PARTS.get(fake.dtype, fake.dtype))

    def _input(self, name, fake):
        """None where no model can take it: what needs it is refused."""
        try:
            self._check(fake)
        except Unsupported:
            return None
        shape = []
        for axis, extent in enumerate(fake.shape):
            if isinstance(extent, int) or extent.node.is_constant():
                shape.append(int(extent))
                continue
            expr = extent.node.expr
            shape.append(str(expr) if expr.is_Symbol else f"{name}_{axis}")
            self._open(shape[-1], extent)
        pair = [2] if fake.is_complex() else []
        value = self.graph.input(name, DTYPES[PARTS.get(fake.dtype, fake.dtype)], shape + pair)
        self._tells_sizes(value, fake)
        return Complex(*self.builder.parts_of_pairs(value, fake.dim()), fake) if pair else Tensor(value, fake)

    def _open(self, name, extent):
        """Kernels are made for the size that was seen."""
        hint = extent.node.hint if extent.node.has_hint() else None
        if hint is not None and hint > 0:
            self.sizes[name] = {"tune_at": int(hint)}

    def _number_inputs(self, placeholders):
        """A size that no tensor has is an input itself."""
        for index, node in enumerate(placeholders):
            number = node.meta.get("val")
            if not isinstance(number, torch.SymInt) or not number.node.expr.is_Symbol:
                continue
            symbol = number.node.expr
            if self.builder.has_size(symbol) or not self._is_needed(symbol):
                continue
            self.builder.size_in(symbol, self.graph.input(f"n{index}", "int64", [1]), None)
            self.inputs.append(Input(index))

    def _is_needed(self, symbol):
        return any(symbol in extents for extents in map(_symbols, self.module.graph.nodes))

    # --- nodes

    def _visit(self, node):
        try:
            self._values[node] = self._translated(node)
        except Unsupported as reason:
            self.refused[node] = f"{_name(node)}: {reason}"
        except fettle.Error as error:
            self.refused[node] = f"{_name(node)}: {str(error).splitlines()[0]}"
        if node in self.refused:
            self._values[node] = self._as_inputs(node, node.meta.get("val"))

    def _as_inputs(self, node, fake):
        """What stands for results of a node that is refused, so that the walk goes on."""
        if isinstance(fake, (list, tuple)):
            return [self._as_inputs(node, part) for part in fake]
        if not isinstance(fake, torch.Tensor):
            return fake
        self._stand_ins += 1
        return self._input(f"r{self._stand_ins}", fake)

    def _translated(self, node):
        fake = node.meta.get("val")
        if node.op == "get_attr":
            tensor = operator.attrgetter(node.target)(self.module)
            if not isinstance(tensor, torch.Tensor):
                raise Unsupported("an attribute that is no tensor")
            return self._constant(tensor, fake if isinstance(fake, torch.Tensor) else tensor)
        if node.op != "call_function":
            raise Unsupported("no operator")
        if node.target is operator.getitem and isinstance(self._values.get(node.args[0]), (list, tuple)):
            value = self._values[node.args[0]][node.args[1]]
            if value is None:
                raise Unsupported("a result that was left out")
            return value
        if node.target is torch.ops.aten._local_scalar_dense.default and isinstance(fake, torch.SymInt):
            self._number_of_data(self._argument(node.args[0]), fake)
        if is_number(fake):
            return fake  # what sizes make; its expression says how
        if node.target not in _operators and node.target not in _complex_operators:
            raise Unsupported("not known to Fettle")
        for part in fake if isinstance(fake, (list, tuple)) else [fake]:
            if isinstance(part, torch.Tensor):
                self._check(part)
        args = torch.fx.map_arg(node.args, self._argument)
        kwargs = torch.fx.map_arg(node.kwargs, self._argument)
        table = _complex_operators if is_complex([fake, args, list(kwargs.values())]) else _operators
        if node.target not in table:
            raise Unsupported("complex numbers" if table is _complex_operators else "not known to Fettle")
        function, signature = table[node.target]
        self.builder.out, self.builder.node = fake, node
        try:
            signature.bind(self.builder, *args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"arguments that are not covered ({error})") from None
        made = function(self.builder, *args, **kwargs)
        if isinstance(fake, (list, tuple)):
            made = list(made) + [None] * (len(fake) - len(made))
            return [self._wrapped(value, part) for value, part in zip(made, fake)]
        return self._wrapped(made, fake)

    def _number_of_data(self, x, number):
        """A whole number that an element tells."""
        if x.dtype.is_floating_point or not number.node.expr.is_Symbol:
            raise Unsupported("a number that data tell")
        self.builder.size_in(number.node.expr, self.builder.reshape(self.builder.as_type(x, torch.int64), [1]), None)

    def _tells_sizes(self, value, fake):
        """A tensor tells the sizes that it is the first to have."""
        for axis, extent in enumerate(fake.shape):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                self.builder.size_in(extent.node.expr, value, axis)

    def _argument(self, node):
        value = self._values[node]
        if value is None:
            raise Unsupported(f"its operand {node.name} is none that models take")
        return value

    def _wrapped(self, value, fake):
        if isinstance(value, tuple):
            return Complex(*value, fake)
        if value is None or value is TOKEN:
            return value
        self._tells_sizes(value, fake)
        return Tensor(value, fake)

    # --- outputs

    def _first_error(self):
        """0, or the number of an error that a call must raise, counted from 1."""
        g, number = self.graph, None
        for count, (wrong, _) in enumerate(self.builder.checks, 1):
            own = g.Mul(wrong, self.builder.constant(count, torch.int32))
            number = own if number is None else g.Max(number, own)
        return number

    def _finish(self, node):
        results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        values = [self._values.get(result) if isinstance(result, torch.fx.Node) else result for result in results]
        self._find_views(values)
        for index, value in enumerate(values):
            if not isinstance(value, Tensor) or index in self.views:
                self.results.append(value.fake if isinstance(value, Tensor) else None if value is TOKEN else value)
                continue
            order = _memory_order(value.fake)
            parts = [value.real, value.imaginary] if isinstance(value, Complex) else [value.value]
            parts = [part if order is None else self.graph.Transpose(part, perm=order) for part in parts]
            if len(parts) == 2:  # pairs
                parts = [self.graph.Unsqueeze(part, self.builder.integers([value.rank])) for part in parts]
                made = self.graph.Concat(*parts, axis=value.rank)
            else:
                made = self.graph.Identity(*parts)
            self.graph.output(f"y{index}", made)
            self.outputs.append(index)
            self.orders.append(order)
            self.results.append(value.fake)


    def _find_views(self, values):
        """Torch tells by sizes, strides and places in memory which elements a view of an input or of another result has."""
        memories = {}
        for index, node in enumerate(self.module.graph.find_nodes(op="placeholder")):
            if isinstance(node.meta.get("val"), torch.Tensor):
                memories.setdefault(_memory(node.meta["val"]), ("a", index, node.meta["val"]))
        outputs = [(index, value.fake) for index, value in enumerate(values) if isinstance(value, Tensor)]
        for index, fake in outputs:  # what is all of its memory may have views
            if _is_whole(fake):
                memories.setdefault(_memory(fake), ("y", index, fake))
        for index, fake in outputs:
            kind, of, base = memories.get(_memory(fake), ("y", index, fake))
            if (kind, of) == ("y", index):
                continue
            if (fake.dtype, fake.is_conj(), fake.is_neg()) != (base.dtype, base.is_conj(), base.is_neg()):
                if _is_open(fake):
                    raise Unsupported("a view of open sizes, of a tensor of another type, as a result")
                continue  # torch makes such views itself
            self.views[index] = (kind, of, base)


def _memory(fake):
    return StorageWeakRef(fake.untyped_storage())


def _is_open(fake):
    return any(isinstance(value, torch.SymInt) for value in (*fake.shape, *fake.stride(), fake.storage_offset()))


def _is_whole(fake):
    """Whether no element of the memory is left out, and none is there twice."""
    offset = fake.storage_offset()
    return isinstance(offset, int) and offset == 0 and dense_order(fake.shape, fake.stride()) is not None


def _name(node):
    return str(node.target) if node.op == "call_function" else f"{node.op} {node.target}"


def _symbols(node):
    """Of the sizes that a node's results and numbers have."""
    found = set()

    def look(value):
        if isinstance(value, (list, tuple)):
            for part in value:
                look(part)
        elif isinstance(value, torch.Tensor):
            for extent in value.shape:
                look(extent)
        elif isinstance(value, torch.SymInt):
            found.update(value.node.expr.free_symbols)

    if node.op not in ("placeholder", "output"):
        look(node.meta.get("val"))
    return found


def hint(value):
    """A size as it was seen while tracing: what it says must not decide what is computed."""
    return value.node.hint if isinstance(value, torch.SymInt) else value


def dense_order(extents, strides):
    """Axes from the outermost in memory on, or None where the tensor has gaps, or none that are known."""
    extents, strides = [hint(e) for e in extents], [hint(s) for s in strides]
    if None in extents or None in strides:
        return None
    order = sorted(range(len(extents)), key=lambda axis: (-strides[axis], axis))
    count = 1
    for axis in reversed(order):
        if extents[axis] != 1 and strides[axis] != count:
            return None
        count *= extents[axis]
    return order if count else None


def _memory_order(fake):
    """The order of a result's axes in memory, where it is dense, and not in its own order."""
    order = dense_order(fake.shape, fake.stride())
    moved = [axis for axis in order or [] if hint(fake.shape[axis]) != 1]
    return None if moved == sorted(moved) else order
