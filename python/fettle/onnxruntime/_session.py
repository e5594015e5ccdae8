"""Sessions: a model that runs."""

import contextlib
import os
import threading
import time

import numpy

from .. import _fettle
from ..errors import Error
from ..forms import Forms
from ..kernel import _numpy_dtype
from ..model import _source
from ..onnx_types import NAME_OF_NUMPY
from ._binding import IOBinding
from ._environment import CPU, checked_providers, thread_pool_sizes
from ._errors import (Fail, InvalidArgument, InvalidProtobuf, ModelLoadCanceled, NoSuchFile, NotImplemented,
                      UnsupportedModel, made, of_loading, of_running)
from ._feeds import Feeds
from ._options import ModelMetadata, NodeArg, RunOptions, SessionOptions
from ._profile import Profile
from ._values import CPU_MEMORY, OrtEpDevice, OrtValue, numpy_type, require_cpu


class OrtEpAssignedNode:
    """A node of the model's file."""

    def __init__(self, name, op_type, domain):
        self.name, self.op_type, self.domain = name, op_type, domain


class OrtEpAssignedSubgraph:
    """What one execution provider computes: here, all of the model."""

    def __init__(self, ep_name, nodes):
        self.ep_name, self._nodes = ep_name, nodes

    def get_nodes(self):
        return list(self._nodes)


def _named_shape(shape, known_names):
    """A shape of Fettle's as the file would have it: an extent that is no plain size of an input has no name."""
    return [extent if isinstance(extent, int) or extent in known_names else None for extent in shape]


def _merged(declared, inferred):
    """ONNX Runtime's shape of an output: what the file says, and what follows of the inputs where it says nothing."""
    if declared is None or len(declared) != len(inferred):
        return inferred
    return [i if isinstance(i, int) or d is None else d for d, i in zip(declared, inferred)]


def _description_of_library(model, name):
    """What a compiled library says of itself, as `_describe_model` has it."""

    def listed(tensors, is_output, order):
        values = {
            tensor: (tensor, f"tensor({NAME_OF_NUMPY[_numpy(dtype)]})", list(shape)) for tensor, dtype, shape in tensors
        }
        values |= {name: (name, kind, None) for name, kind, output, _, _ in model.structures if output == is_output}
        return [values[name] for name in order]

    return {
        "producer": "", "producer_version": "", "domain": "", "description": "", "graph_name": name, "ir_version": 0,
        "graph_description": "", "version": 0, "opsets": {}, "metadata": {}, "overridable": [], "nodes": [],
        "inputs": listed(model.inputs, False, model._signature.input_order),
        "outputs": listed(model.outputs, True, model._signature.output_order),
    }  # fmt: skip


def _as_onnx_runtime_writes(description):
    """Types have no spaces in them, and files of the first versions of the format list every initializer as an input."""
    described = {
        part: [(name, type_.replace(", ", ","), shape) for name, type_, shape in description[part]]
        for part in ("inputs", "outputs", "overridable")
    }
    if description["ir_version"] < 4:
        described["overridable"] = []
    return {**description, **described}


def _numpy(dtype):
    return numpy.dtype(object) if dtype == "string" else numpy_type(_numpy_dtype(dtype))


class InferenceSession:
    """A model from a path, or from the bytes of its file: ONNX, or a library that `fettle compile` wrote."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._source = self._model_path = os.fspath(path_or_bytes)
            self._model_bytes = None
        elif isinstance(path_or_bytes, bytes):
            self._source = self._model_bytes = path_or_bytes
            self._model_path = None
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if path_or_bytes == "":
            raise TypeError("Unable to load from a path without a name")
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options is no SessionOptions, but {type(sess_options)}")
        self._enable_fallback = int(kwargs.get("enable_fallback", 1)) == 1
        self._sess_options = sess_options or SessionOptions()
        if providers is None and self._sess_options.has_providers():
            providers = list(self._sess_options._providers)
        self._use_providers(providers, provider_options)
        self._profile = Profile(self._sess_options.profile_file_prefix) if self._sess_options.enable_profiling else None
        begin = time.monotonic_ns()
        self._load()
        if self._profile:
            self._profile.add("Session", "session_initialization", begin, time.monotonic_ns())

    # What it is made of.

    def _use_providers(self, providers, provider_options):
        try:
            self._provider_options = checked_providers(providers, provider_options)
        except (ValueError, RuntimeError) as error:
            if not self._enable_fallback:
                raise
            print(f"EP Error {error} when using {providers}\nFalling back to ['{CPU}'] and retrying.")
            self._provider_options = {CPU: {}}
            self._enable_fallback = False

    def _load(self):
        options, path = self._sess_options, self._source if isinstance(self._source, str) else None
        self._refuse(options, path)
        try:
            if path is not None and _fettle._is_library_path(path):
                self._open_library(path)
            else:
                self._open_file(options, path)
        except Error as error:
            raise of_loading(error, self._source) from error

    def _refuse(self, options, path):
        """What cannot be honoured, and whose being ignored would be noticed."""
        if options._is_cancelled:
            raise made(ModelLoadCanceled, "Graph loading canceled due to user request.")
        if options.optimized_model_filepath:
            raise made(
                NotImplemented,
                f"optimized_model_filepath = {options.optimized_model_filepath!r}: Fettle makes machine code of a model, "
                "and no other ONNX file; `fettle compile MODEL -o OUT.so` writes a library, which a session opens",
            )
        if path is not None and not os.path.exists(path):
            raise made(NoSuchFile, f"Load model from {path} failed:Load model {path} failed. File doesn't exist")
        if path is not None and os.path.isdir(path):
            raise made(InvalidProtobuf, f"Load model from {path} failed:Protobuf parsing failed. It is a folder.")
        is_ort = self._source[4:8] == b"ORTM" if path is None else path.endswith(".ort")
        if is_ort or options._entries.find("session.load_model_format").upper() == "ORT":
            raise made(UnsupportedModel, "models in ONNX Runtime's own format are not read; give the ONNX file")

    def _open_library(self, path):
        self._forms = Forms(_source(path, None), **self._how_it_runs())
        model = self._forms.open()
        name = os.path.basename(path).partition(".")[0]
        self._describe(_as_onnx_runtime_writes(_description_of_library(model, name)), model)

    def _open_file(self, options, path):
        source = self._with_options(options)
        description = _as_onnx_runtime_writes(_fettle._describe_model(source))
        self._forms = Forms(source, description, **self._how_it_runs())
        self._describe(description, self._forms.open_if_sizes_do())

    def _with_options(self, options):
        """The model with the extents and initializers that options say."""
        folder = options._entries.find("session.model_external_initializers_file_folder_path", os.curdir)
        source = _source(self._source, folder)
        initializers = options._initializers
        if not (options._named_dims or options._denoted_dims or initializers or options._files):
            return source
        given = {}
        for name, (value, is_required) in initializers.items():
            number = OrtValue._of(value).element_type()
            data = [str(text).encode() for text in value.flat] if number == 8 else value.tobytes()
            given[name] = (number, list(value.shape), data, not is_required)
        return _fettle._model_with(
            source, named_dims=options._named_dims, denoted_dims=options._denoted_dims, initializers=given,
            files=options._files,
        )  # fmt: skip

    def _how_it_runs(self):
        options = self._sess_options
        threads = options.intra_op_num_threads if options.use_per_session_threads else thread_pool_sizes[0]
        flushes = options._entries.find("session.set_denormal_as_zero", "0") == "1"
        return {"threads": max(0, threads), "keep_denormals": not flushes}

    def _describe(self, description, model):
        self._description = description
        self._inputs = [NodeArg(name, type_, shape or []) for name, type_, shape in description["inputs"]]
        self._overridable = [NodeArg(name, type_, shape or []) for name, type_, shape in description["overridable"]]
        known = {extent for arg in self._inputs for extent in arg.shape if isinstance(extent, str)}
        inferred = {name: _named_shape(shape, known) for name, _, shape in model.outputs} if model else {}
        self._outputs = []
        for name, type_, shape in description["outputs"]:
            if name in inferred:
                shape = _merged(shape, inferred[name])
            self._outputs.append(NodeArg(name, type_, shape or []))
        self._output_names = [arg.name for arg in self._outputs]
        self._positions_by_name = {name: i for i, name in enumerate(self._output_names)}
        self._feeds = Feeds(description["inputs"], description["overridable"])
        self._model_meta = ModelMetadata(description)
        is_plain = model is not None and not model.structures and not self._profile
        self._quick = model if is_plain and [n for n, _, _ in model.outputs] == self._output_names else None
        self._quick_names = [name for name, _, _ in model.inputs] if model is not None else []

    # What it says of itself.

    def get_session_options(self):
        return self._sess_options

    def get_inputs(self):
        return self._inputs

    def get_outputs(self):
        return self._outputs

    def get_overridable_initializers(self):
        return self._overridable

    def get_modelmeta(self):
        return self._model_meta

    def get_input_memory_infos(self):
        return [CPU_MEMORY for _ in self._inputs]

    def get_output_memory_infos(self):
        return [CPU_MEMORY for _ in self._outputs]

    def get_input_epdevices(self):
        return [OrtEpDevice(self.get_providers()[0]) for _ in self._inputs]

    def get_providers(self):
        return list(self._provider_options)

    def get_provider_options(self):
        return {name: dict(options) for name, options in self._provider_options.items()}

    def set_providers(self, providers=None, provider_options=None):
        """All of them are Fettle's code for this CPU: what is compiled stays."""
        self._use_providers(providers, provider_options)

    def get_provider_graph_assignment_info(self):
        key = "session.record_ep_graph_assignment_info"
        if self._sess_options._entries.find(key) != "1":
            raise made(Fail, f'Session configuration entry \'{key}\' must be set to "1" to retrieve EP graph assignment '
                             "information.")  # fmt: skip
        nodes = [OrtEpAssignedNode(*node) for node in self._description["nodes"]]
        return [OrtEpAssignedSubgraph(self.get_providers()[0], nodes)]

    def enable_fallback(self):
        self._enable_fallback = True

    def disable_fallback(self):
        self._enable_fallback = False

    def get_tuning_results(self):
        """None of an execution provider's: `fettle tune` writes its records to a database."""
        return []

    def set_tuning_results(self, results, *, error_on_invalid=False):
        if results and error_on_invalid:
            raise made(Fail, "results of an execution provider's tuning are not used; see docs/search.md")

    def set_ep_dynamic_options(self, options):
        """There are none."""

    def release_captured_graph(self, graph_annotation_id=0):
        """Nothing is captured."""

    # Profiling.

    def get_profiling_start_time_ns(self):
        return self._profile.start_ns if self._profile else 0

    def end_profiling(self):
        """Writes what was recorded, and returns the file's name; "" where there is nothing."""
        return self._profile.write() if self._profile else ""

    # Runs.

    def run(self, output_names, input_feed, run_options=None):
        """Arrays, lists, dicts and None, in the order of output_names, or of the model's outputs."""
        if self._quick is not None:
            results = self._run_quickly(input_feed, run_options)
            if results is not None:
                return results if not output_names else [results[i] for i in self._positions(output_names)]
        self._feeds.require(input_feed)
        chosen = self._positions(output_names)
        results = self._results(input_feed, run_options)
        return [results[i] for i in chosen]

    def _run_quickly(self, input_feed, run_options):
        """All outputs of arrays that lie as the model takes them. None: they are given otherwise, or wrong, or it fails."""
        try:
            if len(input_feed) != len(self._quick_names):
                return None
            arrays = [input_feed[name] for name in self._quick_names]
            if run_options is None:
                results = self._quick(*arrays)
            else:
                with self._forms.context(self._quick) as context, run_options._ends(context):
                    results = context(*arrays)
        except Exception:
            return None
        return list(results) if isinstance(results, tuple) else [results]

    def _run_into(self, inputs, places):
        """Whether the outputs were written where they are bound to, all of them, without a copy. False: run another way,
        which says what is wrong."""
        if self._quick is None or len(inputs) != len(self._quick_names):
            return False
        try:
            arrays = [inputs[name] for name in self._quick_names]
            self._quick(*arrays, out=tuple([places[name]._value for name in self._output_names]))
        except Exception:
            return False
        return len(places) == len(self._output_names)

    def _positions(self, output_names):
        if not output_names:
            return range(len(self._output_names))
        if isinstance(output_names, str):
            raise TypeError(f"run(): output_names is a list of names, not {output_names!r}")
        try:
            return [self._positions_by_name[name] for name in output_names]
        except KeyError:
            if not all(isinstance(name, str) for name in output_names):
                raise TypeError(f"run(): output_names is a list of names, not {output_names!r}") from None
            wrong = next(name for name in output_names if name not in self._positions_by_name)
            raise made(InvalidArgument, f"Invalid output name:{wrong}") from None

    def _results(self, input_feed, run_options):
        """All outputs, in the model's order."""
        if run_options is not None and not isinstance(run_options, RunOptions):
            raise TypeError(f"run(): run_options is no RunOptions, but {type(run_options)}")
        feeds = self._feeds.converted(input_feed)
        begin = time.monotonic_ns()

        def call(model, given):
            if run_options is None and self._profile is None:
                return model.run(**given)
            with self._forms.context(model) as context:
                return _run_in(context, given, run_options, self._profile)

        try:
            _, outputs = self._forms.run(feeds, call)
        except Error as error:
            raise of_running(error) from error
        if self._profile:
            self._profile.add("Session", "model_run", begin, time.monotonic_ns())
        return [outputs[name] for name in self._output_names]

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """callback(results, user_data, error) is called on another thread; error: "" or what was wrong."""
        if self._sess_options.intra_op_num_threads == 1:
            raise made(InvalidArgument, "intra op thread pool must have at least one thread for RunAsync")
        self._feeds.require(input_feed)

        def work():
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as refused:
                results, error = [], str(refused).split(" : ", 3)[-1]
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        self._feeds.require(input_dict_ort_values)
        feeds = {name: value._value for name, value in input_dict_ort_values.items()}
        results = self.run(output_names, feeds, run_options)
        types = {arg.name: arg.type for arg in self._outputs}
        return [OrtValue._of(x, types[n]) for n, x in zip(output_names or self._output_names, results)]

    def run_with_ortvaluevector(self, run_options, feed_names, feeds, fetch_names, fetches, fetch_devices):
        """feeds, fetches: lists of OrtValue; fetches is filled."""
        del fetch_devices
        made_ = self.run_with_ort_values(list(fetch_names), dict(zip(feed_names, feeds)), run_options)
        fetches[:] = made_

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._run(run_options)

    def create_ortvalue_from_shape_and_type(self, shape, element_type, device_type, device_id=0, vendor_id=-1):
        require_cpu(device_type)
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)


def _run_in(context, given, run_options, profile):
    """A run that `run_options.terminate = True` ends, and whose kernels are recorded."""
    if profile:
        profile.begin(context)
    try:
        with run_options._ends(context) if run_options is not None else contextlib.nullcontext():
            return context.run(**given)
    finally:
        if profile:
            profile.end(context)
