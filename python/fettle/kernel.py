"""Programs compiled into this process and called with numpy's arrays."""

import numpy

from . import _fettle
from .errors import Error


def empty(shape, dtype="float32"):
    """An array that kernels use in place: C order, aligned to 64 bytes. The contents are undefined.

    >>> import fettle
    >>> array = fettle.empty((2, 3), "float16")
    >>> array.shape, array.ctypes.data % 64
    ((2, 3), 0)
    """
    dtype = _numpy_dtype(dtype)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    raw = numpy.empty(count * dtype.itemsize + 64, numpy.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + count * dtype.itemsize].view(dtype).reshape(shape)


def aligned(array):
    """The array itself if kernels use it in place, else a copy that they do."""
    array = numpy.asarray(array)
    if array.flags.c_contiguous and array.ctypes.data % 64 == 0:
        return array
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _numpy_dtype(name):
    if name == "string":
        return numpy.dtype(object)
    try:
        return numpy.dtype(name)
    except TypeError:  # bfloat16, int4, float8_e4m3fn, …
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))


# Integers of less than a byte: models have their values in bytes, ml_dtypes only the low bits.
_NARROW = {"int4": numpy.int8, "int2": numpy.int8, "uint4": numpy.uint8, "uint2": numpy.uint8}


def _utf8(array, what):
    """The bytes of an array's strings, in a list."""
    texts = [text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text for text in array.ravel().tolist()]
    for text in texts:
        if not isinstance(text, bytes):
            raise Error("E705", f"{what} has an element of type {type(text).__name__}, which is no string")
    return texts


def _bits(array):
    """As the module takes it: types that the buffer protocol does not know as integers of their width."""
    if array.dtype.name in _NARROW:
        return array.astype(_NARROW[array.dtype.name])
    if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8", "float4")):
        return array.view(numpy.uint16 if array.dtype.itemsize == 2 else numpy.uint8)
    return array


class Kernel:
    """A compiled program. Call it with its inputs, by order or by name; it returns its output, or a tuple of them.

    Arrays of the right type in C order that are aligned to 64 bytes (fettle.empty, fettle.aligned) are used in place,
    others are copied. Constants are given once, by set_constants or when the kernel is built. The interpreter's lock is released while it runs; calls of one kernel wait for each other.
    """

    def __init__(self, base):
        self._base = base
        self.params = [base._param(i) for i in range(base.n_params)]
        self._index = {name: i for i, (name, *_) in enumerate(self.params)}
        self._inputs = [i for i, p in enumerate(self.params) if p[3] == "input"]
        self._outputs = [i for i, p in enumerate(self.params) if p[3] == "output"]
        self.copied = 0  # arrays that the last call copied

    @property
    def threads(self):
        """How many threads it runs on."""
        return self._base.threads

    @property
    def code_bytes(self):
        """The size of its machine code."""
        return self._base.code_bytes

    def _array(self, index, value, output=False):
        name, dtype, shape, _ = self.params[index]
        if output and not isinstance(value, numpy.ndarray):
            raise TypeError(f"output {name} is written to a numpy array")
        array = numpy.asarray(value)
        if array.dtype != _numpy_dtype(dtype) or array.shape != shape:
            raise Error("E705", f"parameter {name} is {dtype}{list(shape)}, and {array.dtype}{list(array.shape)} was given")
        if not array.flags.c_contiguous:
            if output:
                raise Error("E705", f"output {name} is not in C order")
            array = numpy.ascontiguousarray(array)
        if output and not array.flags.writeable:
            raise Error("E705", f"output {name} is read-only")
        return _bits(array)

    def _number(self, name):
        if name not in self._index:
            raise Error("E704", f"there is no parameter {name}: {', '.join(self._index)}")
        return self._index[name]

    def __call__(self, *args, out=None, **named):
        if len(args) > len(self._inputs):
            raise Error("E704", f"{len(args)} inputs were given, and there are {len(self._inputs)}")
        given = dict(zip(self._inputs, args))
        for name, value in named.items():
            index = self._number(name)
            if index in given:
                raise Error("E704", f"input {name} is given twice")
            if index not in self._inputs:
                raise Error("E704", f"{name} is no input: outputs are given as out=, constants by set_constants")
            given[index] = value
        missing = [self.params[i][0] for i in self._inputs if i not in given]
        if missing:
            raise Error("E704", f"input {missing[0]} is missing")
        if out is None:
            results = [empty(self.params[i][2], self.params[i][1]) for i in self._outputs]
        else:
            results = list(out) if isinstance(out, (tuple, list)) else [out]
            if len(results) != len(self._outputs):
                raise Error("E704", f"{len(results)} outputs were given, and there are {len(self._outputs)}")
        inputs = [(i, self._array(i, value)) for i, value in given.items()]
        outputs = [(i, self._array(i, result, output=True)) for i, result in zip(self._outputs, results)]
        self.copied = self._base._run(inputs, outputs)
        return results[0] if len(results) == 1 else tuple(results)

    def set_constants(self, **constants):
        """Gives constants their content; what the schedule does to constants alone is then done, once."""
        arrays = []
        for name, value in constants.items():
            index = self._number(name)
            if self.params[index][3] != "constant":
                raise Error("E704", f"{name} is no constant")
            arrays.append((index, self._array(index, value)))
        self._base._set(arrays)

    def time(self, seconds=0.3, flush_bytes=0):
        """Median and least seconds of a call on its own buffers, and the relative half-width of the median's interval. With
        flush_bytes, so much memory is written before each call, untimed: it begins with cold caches."""
        return self._base._time(seconds, flush_bytes)

    def __repr__(self):
        return f"<fettle.Kernel ({', '.join(p[0] for p in self.params)})>"


def build(program, target=None, threads=1, ints=(), constants=None, plain=False):
    """Compiles a Func, or a Schedule's program, into this process.

    threads     of its team; the calling thread is one of them
    ints        values of the integer parameters, in order
    constants   name → array; until they are given, constants hold numbers of no meaning
    plain       without lowering's optimisations: the reference
    """
    kernel = Kernel(_fettle._build(program, target, threads, list(ints), plain))
    if constants:
        kernel.set_constants(**constants)
    return kernel
