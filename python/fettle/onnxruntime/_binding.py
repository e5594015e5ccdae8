"""Inputs and outputs that are bound to memory before a run, and stay bound."""

import numpy

from ..onnx_types import type_of_value
from ._values import OrtValue, OrtValueVector, array_at, numpy_type, require_cpu

_LARGE = 1 << 16  # bytes


class IOBinding:
    """Of one session. Outputs are written where they are bound to, or to memory of their own."""

    def __init__(self, session):
        self._session = session
        self._inputs, self._outputs, self._results = {}, {}, []

    def _require_input(self, name):
        if name not in self._session._feeds._inputs:
            raise RuntimeError(f"Error when binding input: Failed to find input name in the mapping: {name}")

    def bind_cpu_input(self, name, arr_on_cpu):
        """The array is read when the session runs."""
        if name not in self._session._feeds._inputs:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        if not isinstance(arr_on_cpu, numpy.ndarray):
            raise RuntimeError("Unable to create OrtValue from the given python object")
        self._inputs[name] = arr_on_cpu

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """The memory at buffer_ptr, which must stay."""
        del device_id
        require_cpu(device_type, f"input {name}")
        self._require_input(name)
        self._inputs[name] = array_at(buffer_ptr, element_type, shape)

    def bind_ortvalue_input(self, name, ortvalue):
        self._require_input(name)
        self._inputs[name] = ortvalue._value

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """Without buffer_ptr each run gives memory of its own."""
        del device_id
        require_cpu(device_type, f"output {name}")
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        numpy_type(element_type)
        self._outputs[name] = OrtValue._of(array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name, ortvalue):
        self._outputs[name] = ortvalue

    def synchronize_inputs(self):
        """The CPU's memory needs none."""

    def synchronize_outputs(self):
        """The CPU's memory needs none."""

    def get_outputs(self):
        return list(self._results)

    def get_outputs_as_ortvaluevector(self):
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self):
        return [result._value for result in self._results]

    def clear_binding_inputs(self):
        self._inputs.clear()

    def clear_binding_outputs(self):
        self._outputs.clear()
        self._results = []

    def _is_large(self):
        """Whether all outputs are bound to memory, and to so much that a copy takes longer than to hand it over."""
        places = self._outputs.values()
        return None not in places and sum(getattr(place._value, "nbytes", 0) for place in places) >= _LARGE

    def _run(self, run_options):
        if not self._outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        if run_options is None and self._is_large() and self._session._run_into(self._inputs, self._outputs):
            self._results = list(self._outputs.values())
            return
        try:
            results = self._session.run(list(self._outputs), self._inputs, run_options)
        except Exception as error:
            raise RuntimeError(f"Error in execution: {str(error).split(' : ', 3)[-1]}") from error
        self._results = [_placed(name, made, self._outputs[name]) for name, made in zip(self._outputs, results)]


def _placed(name, made, place):
    """The result, in the memory of `place` where there is one."""
    if place is None:
        return OrtValue._of(made)
    held = place._value
    if not isinstance(made, numpy.ndarray) or not isinstance(held, numpy.ndarray):
        place._value, place._type = made, type_of_value(made)
        return place
    if held.dtype == made.dtype and held.shape == made.shape:
        numpy.copyto(held, made)
        return place
    if place.data_type() != type_of_value(made):
        raise RuntimeError(
            f"Error in execution: Unexpected output data type. Actual: ({place.data_type()}) , "
            f"expected: ({type_of_value(made)})"
        )
    raise RuntimeError(
        f"Error in execution: output {name} is bound to memory of shape {place.shape()}, and has {list(made.shape)}"
    )
