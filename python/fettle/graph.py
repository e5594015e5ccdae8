"""Models built in Python, node after node, of ONNX's operators."""

import functools
import inspect
import operator as _operator
import os

import numpy

from . import _fettle
from .errors import Error
from .kernel import _bits, _utf8


def _dtype_name(dtype):
    """As Fettle writes it: "float32" of numpy.float32, numpy.dtype("float32"), "float32" …"""
    if isinstance(dtype, str):
        if dtype in ("object", "str"):
            return "string"
        return {"float": "float32", "double": "float64"}.get(dtype, dtype)
    if dtype is str:
        return "string"
    name = numpy.dtype(dtype)
    return "string" if name.kind in "OUST" else name.name


def _content(array, what):
    """(dtype, data) as the module takes a constant."""
    if array.dtype.kind in "OUST":
        return "string", (_utf8(array, what), list(array.shape))
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = array.copy(order="C")
    return array.dtype.name, _bits(array)


def _array(value):
    """Of numbers without a type of their own: whole numbers are int64, others float32."""
    if isinstance(value, (numpy.ndarray, numpy.generic)) or hasattr(value, "__dlpack__"):
        return _on_cpu(value)
    array = numpy.asarray(value)
    if array.size == 0 and array.dtype == numpy.float64:
        return array.astype(numpy.int64)  # []
    return array.astype({"f": numpy.float32, "i": numpy.int64}.get(array.dtype.kind, array.dtype), copy=False)


def _on_cpu(value):
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return numpy.asarray(value)
    try:
        return numpy.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):  # bfloat16, say
        return numpy.asarray(value)


def _kind_of(value):
    if isinstance(value, (bool, numpy.bool_, int, numpy.integer)):
        return "int"
    if isinstance(value, (float, numpy.floating)):
        return "float"
    return "string" if isinstance(value, (str, bytes)) else None


def _text(value):
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def _attribute(op, name, value, kind):
    """(kind, value) as the module takes it. kind: what ONNX's table has; None where there is no such operator."""
    if isinstance(value, Graph):
        return "graph", value._base
    if isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, (numpy.generic, str))):
        return "dtype", _dtype_name(value)
    if kind == "int" and isinstance(value, str):
        return "dtype", _dtype_name(value)
    if isinstance(value, numpy.ndarray) or (kind == "tensor" and not isinstance(value, Value)):
        if kind in (None, "tensor"):
            return "tensor", _content(_array(value), f"{op}'s attribute {name}")
        value = value.tolist()
    scalar = _kind_of(value)
    if scalar == "string":
        return scalar, _text(value)
    if scalar:
        return scalar, (int if scalar == "int" else float)(value)
    if isinstance(value, (list, tuple)):
        kinds = {_kind_of(item) for item in value}
        if kinds <= {"int"}:
            return "ints", [int(item) for item in value]
        if kinds <= {"int", "float"}:
            return "floats", [float(item) for item in value]
        if kinds == {"string"}:
            return "strings", [_text(item) for item in value]
    raise Error("E606", f"{op}'s attribute \"{name}\" is given a {type(value).__name__}, which no attribute is")


class _Operator:
    """What ONNX says of an operator in an opset."""

    def __init__(self, name, described):
        self.name = name
        self.since, self.inputs, self.outputs, attributes = described
        self.kinds = {attribute: kind for attribute, kind, _ in attributes}
        self.required = [attribute for attribute, _, is_required in attributes if is_required]

    def formal(self, i):
        if i < len(self.inputs):
            return self.inputs[i]
        return self.inputs[-1] if self.inputs and self.inputs[-1][3] == "variadic" else None

    def _formals(self, formals):
        lines = []
        for name, _, types, option in formals:
            shown = ", ".join(t.removeprefix("tensor(").removesuffix(")") if t.startswith("tensor(") else t for t in types)
            lines.append(f"    {name}{f' ({option})' if option else ''}: {shown}")
        return "\n".join(lines) or "    none"

    @property
    def doc(self):
        attributes = "\n".join(f"    {name}: {kind}{', must be given' if name in self.required else ''}"
                               for name, kind in self.kinds.items())  # fmt: skip
        return (f"{self.name}, as ONNX has it since opset {self.since}.\n\nInputs\n{self._formals(self.inputs)}\n"
                f"Outputs (`outputs=n` of them)\n{self._formals(self.outputs)}\n"
                f"Attributes\n{attributes or '    none'}")  # fmt: skip

    @property
    def signature(self):
        Parameter = inspect.Parameter
        parameters, optional = [], False
        for name, _, _, option in self.inputs:
            if option == "variadic":
                parameters.append(Parameter(name, Parameter.VAR_POSITIONAL))
                break
            optional = optional or option == "optional"
            default = None if optional else Parameter.empty
            parameters.append(Parameter(name, Parameter.POSITIONAL_ONLY, default=default))
        taken = {parameter.name for parameter in parameters}
        keywords = [("outputs", 1), ("name", None)] + [(name, None) for name in self.kinds if name not in taken]
        for name, default in keywords:
            default = Parameter.empty if name in self.required else default
            if name.isidentifier() and name not in taken:
                taken.add(name)
                parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default))
        return inspect.Signature(parameters)


@functools.cache
def _operator_of(domain, name, opset):
    described = _fettle._operator(domain, name, opset)
    return described and _Operator(name, described)


class Value:
    """A tensor of a graph that is being built.

    `dtype` and `shape` are inferred when they are asked for; an extent that is open is text. Arithmetic, comparisons and
    `@` add nodes: x + 1, 2 * x, x @ w, x < y.
    """

    __slots__ = ("_graph", "_index")
    __array_ufunc__ = None  # numpy's arrays leave operators to values

    def __init__(self, graph, index):
        self._graph, self._index = graph, index

    @property
    def graph(self):
        """The graph that it belongs to."""
        return self._graph

    @property
    def name(self):
        """Its name within the graph."""
        return self._graph._base._name(self._index)

    @property
    def dtype(self):
        """Its element type, as numpy names it."""
        return self._graph._base._dtype(self._index, True)

    @property
    def shape(self):
        """Its extents: numbers, or text where one is open."""
        return self._graph._base._shape(self._index)

    def __repr__(self):
        dtype = self._graph._base._dtype(self._index, False)
        return f"<fettle.Value {self.name}{': ' + dtype if dtype else ''}>"

    def __bool__(self):
        raise TypeError("a value of a graph has no content while the graph is built; Where or If choose when it runs")

    def __iter__(self):
        raise TypeError("a value of a graph cannot be iterated; Split gives its parts")

    def _with(self, op, *inputs):
        graphs = {id(value._graph): value._graph for value in inputs if isinstance(value, Value)}
        if len(graphs) > 1:
            raise Error("E709", f"the values are of two graphs: say which one gets the node, as in body.{op}(x, y)")
        return self._graph.node(op, inputs)

    def __ne__(self, other):
        return self._graph.Not(self._with("Equal", self, other))

    __hash__ = object.__hash__

    def __neg__(self):
        return self._with("Neg", self)

    def __abs__(self):
        return self._with("Abs", self)

    def __invert__(self):
        return self._with("Not", self)


def _add_operators():
    both = {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "matmul": "MatMul", "pow": "Pow",
            "and": "And", "or": "Or", "xor": "Xor"}  # fmt: skip
    one = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
    for python, onnx in (both | one).items():
        setattr(Value, f"__{python}__", lambda self, other, onnx=onnx: self._with(onnx, self, other))
    for python, onnx in both.items():
        setattr(Value, f"__r{python}__", lambda self, other, onnx=onnx: self._with(onnx, other, self))


_add_operators()


class Graph:
    """A model that is built of ONNX's operators, for `fettle.compile`.

    >>> import fettle, numpy
    >>> g = fettle.Graph()
    >>> x = g.input("x", "float32", ["N", 4])
    >>> g.output("y", g.Relu(x @ g.constant(numpy.eye(4, dtype="float32"))))
    >>> fettle.compile(g)(numpy.float32([[1, -2, 3, -4]])).tolist()
    [[1.0, 0.0, 3.0, 0.0]]

    Each operator of the opset is a method by its ONNX name: inputs by position (None: left out), attributes by keyword.
    `outputs=n` asks for n outputs, and gives a tuple where n > 1. Arrays and numbers as inputs become constants. A Graph
    as an attribute is a body of If, Loop or Scan, which may use values of the graph around it.
    """

    def __init__(self, name="graph", *, opset=None):
        self._base = _fettle.GraphBase(name, opset)

    @property
    def name(self):
        """The graph's name."""
        return self._base.name

    @property
    def opset(self):
        """The version of ONNX's operators."""
        return self._base.opset

    def input(self, name, dtype=None, shape=None):
        """An input of the model. Extents are numbers, names of sizes, or None. A body may leave type and shape open."""
        if shape is not None:
            shape = [e if e is None or isinstance(e, str) else _operator.index(e) for e in shape]
        return Value(self, self._base._input(name, None if dtype is None else _dtype_name(dtype), shape))

    def constant(self, value, name=None):
        """A constant. An array's memory is shared until the graph has been compiled, and must not change before."""
        return Value(self, self._base._constant(name or "", *_content(_array(value), name or "the constant")))

    def output(self, name, value):
        """Makes the value an output of the model, under this name. Of a body, outputs go by their order."""
        if not isinstance(value, Value):
            raise TypeError(f"an output is a fettle.Value, not {type(value).__name__}")
        self._base._output(name, value._graph._base, value._index)

    def save(self, path):
        """Writes the graph as `fettle convert` does: each command, and `fettle.compile`, reads the file."""
        _fettle._save_graph(self._base._source(), os.fsdecode(path))

    def node(self, op, inputs=(), *, domain="", outputs=1, name=None, **attributes):
        """Adds a node: its output, or a tuple of `outputs` of them."""
        known = _operator_of("" if domain == "ai.onnx" else domain, op, self._opset_of(domain))
        given = [self._given(op, known, i, inputs) for i in range(len(inputs))]
        kinds = known.kinds if known else {}
        attributes = [(key, *_attribute(op, key, value, kinds.get(key)))
                      for key, value in attributes.items() if value is not None]  # fmt: skip
        made = self._base._node(op, domain, given, outputs, attributes, name or "")
        values = tuple(Value(self, index) for index in made)
        return values[0] if outputs == 1 else values

    def host_call(self, name, inputs, outputs, **parameters):
        """Adds a call of the function that `fettle.host_calls.register` has under this name when the model runs.

        outputs: (dtype, shape) of each array that it gives; shapes are numbers. A list of values is returned. A complex array is
        a pair of values, its parts. parameters: what JSON can say, which the function gets by keyword.
        """
        from . import host_calls
        flat, dtypes_in = [], []
        for given in inputs:
            parts = given if isinstance(given, tuple) else (given,)
            flat += parts
            dtype = parts[0].dtype
            dtypes_in.append({"float32": "complex64", "float64": "complex128"}[dtype] if len(parts) == 2 else dtype)
        wholes = [(_dtype_name(dtype), list(shape)) for dtype, shape in outputs]
        text = "".join(part + "\0" for part in host_calls.described(name, dtypes_in, [dtype for dtype, _ in wholes], parameters))
        bytes_ = self.constant(numpy.frombuffer(text.encode(), numpy.uint8))
        parted = [({"complex64": "float32", "complex128": "float64"}.get(dtype, dtype), shape)
                  for dtype, shape in wholes for _ in range(2 if dtype.startswith("complex") else 1)]  # fmt: skip
        made = self.node("HostCall", [bytes_, *flat], domain="fettle", outputs=len(parted), name=name,
                         dtypes=[_fettle._dtype_text(dtype) for dtype, _ in parted],
                         ranks=[len(shape) for _, shape in parted], dims=[extent for _, shape in parted for extent in shape])
        values = iter((made,) if len(parted) == 1 else made)
        return [(next(values), next(values)) if dtype.startswith("complex") else next(values) for dtype, _ in wholes]

    def _opset_of(self, domain):
        return self.opset if domain in ("", "ai.onnx") else 1 << 30

    def _given(self, op, known, i, inputs):
        value = inputs[i]
        if value is None:
            return None
        if not isinstance(value, Value):
            value = self.constant(self._like_others(known, i, value, inputs))
        return value._graph._base, value._index

    def _like_others(self, known, i, value, inputs):
        """Numbers are of the type of the values that must be of one type with them."""
        if isinstance(value, (numpy.ndarray, numpy.generic)) or hasattr(value, "__dlpack__"):
            return value
        formal = known and known.formal(i)
        for k, other in enumerate(inputs if formal and formal[1] else ()):
            if isinstance(other, Value) and known.formal(k) and known.formal(k)[1] == formal[1]:
                return self._of_type(value, other.dtype)
        return value

    @staticmethod
    def _of_type(value, dtype):
        from .kernel import _numpy_dtype
        wanted, given = _numpy_dtype(dtype), numpy.asarray(value)
        if given.dtype.kind == "f" and wanted.kind in "iub":
            raise Error("E605", f"{value} is no {dtype}, which the other input is")
        return given.astype(wanted)

    def __getattr__(self, name):
        if name.startswith("_") or not (known := _operator_of("", name, self.opset)):
            raise AttributeError(f"opset {self.opset} of ONNX has no operator {name}", name=name, obj=self)

        def add(*inputs, outputs=1, name=None, **attributes):
            return self.node(known.name, inputs, outputs=outputs, name=name, **attributes)

        add.__name__ = add.__qualname__ = known.name
        add.__doc__, add.__signature__ = known.doc, known.signature
        return add

    def __dir__(self):
        return [*super().__dir__(), *_fettle._operator_names("", self.opset)]

    def __str__(self):
        return str(self._base)

    def _repr_html_(self):
        from .display import text
        return text(self)

    def __repr__(self):
        return f"<fettle.Graph {self.name}, opset {self.opset}>"
