"""What a run is given, held against the model's inputs as ONNX Runtime does it."""

import numpy

from ..onnx_types import type_of_array, type_of_value
from ._errors import Fail, InvalidArgument, made
from ._values import OrtValue, array_of_list, tensor_dtype

_BOTH = "Please fix either the inputs/outputs or the model."


class Feeds:
    """inputs, overridable: (name, type, shape or None) of each."""

    def __init__(self, inputs, overridable):
        self._inputs = {name: (type_, shape) for name, type_, shape in (*inputs, *overridable)}
        self._required = [name for name, type_, _ in inputs if not type_.startswith("optional(")]
        self._optional = [name for name, type_, _ in inputs if type_.startswith("optional(")]

    def require(self, feed):
        """ValueError where an input is missing."""
        names = list(feed.keys())
        missing = [name for name in self._required if name not in feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")

    def converted(self, feed):
        """The feed with arrays in place of lists of numbers and of OrtValues, and None for optionals that it leaves out.
        InvalidArgument, Fail or RuntimeError where ONNX Runtime raises it."""
        values = {name: self._value(name, value) for name, value in feed.items()}
        return {**values, **{name: None for name in self._optional if name not in values}}

    def _value(self, name, value):
        if name not in self._inputs:
            raise made(InvalidArgument, f"Invalid input name: {name}")
        type_, shape = self._inputs[name]
        if isinstance(value, OrtValue):
            value = value._value
        if value is None:
            if type_.startswith("optional("):
                return None
            raise made(Fail, f"Non-zero status code returned while running the model. Missing Input: {name}")
        content = type_.removeprefix("optional(").removesuffix(")") if type_.startswith("optional(") else type_
        if content.startswith("seq("):
            return _sequence(name, value, content)
        if content.startswith("map("):
            return _map(value, content)
        return _tensor(name, value, content, shape)


def _refuse_type(actual, expected):
    raise made(InvalidArgument, f"Unexpected input data type. Actual: ({actual}) , expected: ({expected})")


def _tensor(name, value, type_, shape):
    if isinstance(value, list):
        value = array_of_list(value, tensor_dtype(type_))
    elif isinstance(value, dict):
        _refuse_type(f"({type_of_value(value)})", f"({type_})")
    elif isinstance(value, (tuple, str, bytes)):
        raise RuntimeError(f"Input must be a list of dictionaries or a single numpy array for input '{name}'.")
    elif isinstance(value, (int, float, numpy.generic)) and shape == []:
        value = array_of_list(value, tensor_dtype(type_))
    elif not isinstance(value, numpy.ndarray):
        raise RuntimeError(f"Unable to handle object of type {type(value)}")
    try:
        actual = type_of_array(value)
    except KeyError:
        raise RuntimeError(f"Numpy_type {value.dtype} can't be converted to MLDataType.") from None
    if actual != type_:
        _refuse_type(actual, type_)
    _check_shape(name, value, shape)
    if type_ == "tensor(string)" and value.dtype.kind == "O":
        return _texts(value)
    return value


def _texts(array):
    """What is no text in an array of objects becomes one."""
    if all(isinstance(text, str) for text in array.flat):
        return array
    texts = numpy.empty(array.shape, object)
    texts.flat = [text if isinstance(text, str) else str(text) for text in array.flat]
    return texts


def _check_shape(name, array, shape):
    """shape: None, or [] where ONNX Runtime looks at no ranks."""
    if not shape:
        return
    if array.ndim != len(shape):
        raise made(InvalidArgument, f"Invalid rank for input: {name} Got: {array.ndim} Expected: {len(shape)} {_BOTH}")
    wrong = [
        f" index: {axis} Got: {got} Expected: {expected}\n"
        for axis, (got, expected) in enumerate(zip(array.shape, shape)) if isinstance(expected, int) and got != expected
    ]  # fmt: skip
    if wrong:
        raise made(
            InvalidArgument, f"Got invalid dimensions for input: {name} for the following indices\n{''.join(wrong)} {_BOTH}"
        )


def _sequence(name, value, type_):
    element = type_[len("seq(") : -1]
    if isinstance(value, numpy.ndarray):
        raise made(InvalidArgument, f"input with name: '{name}' expected to be of type: 3 but received a tensor")
    if not isinstance(value, list):
        raise RuntimeError(f"Unable to handle object of type {type(value)}")
    if element.startswith("map("):
        return [_map(one, element) for one in value]
    elements = [one if isinstance(one, numpy.ndarray) else array_of_list(one, tensor_dtype(element)) for one in value]
    for one in elements:
        if type_of_array(one) != element:
            raise RuntimeError(f"a sequence of {element} was given a {type_of_array(one)}")
    return elements


def _map(value, type_):
    if not isinstance(value, dict):
        raise RuntimeError(f"Unable to handle object of type {type(value)} as {type_}")
    is_text = type_.startswith("map(string")
    if any(isinstance(key, str) != is_text for key in value):
        _refuse_type(f"({type_of_value(value)})", f"({type_})")
    return value
