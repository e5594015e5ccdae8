"""Options of sessions and of runs, and the enumerations and descriptions that go with them."""

import contextlib
import enum
import operator
import threading
import time

from ..errors import Error
from ._errors import Fail, NotImplemented, made


class _Enumeration(enum.Enum):
    """As ONNX Runtime's are: int(x) is the number, and a number makes one."""

    def __int__(self):
        return self.value

    __index__ = __int__

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


def _enumeration(name, **members):
    made = _Enumeration(name, members, module="fettle.onnxruntime.capi.onnxruntime_pybind11_state")
    made.__doc__ = "One of " + ", ".join(members) + "."
    return made


GraphOptimizationLevel = _enumeration(
    "GraphOptimizationLevel", ORT_DISABLE_ALL=0, ORT_ENABLE_BASIC=1, ORT_ENABLE_EXTENDED=2, ORT_ENABLE_LAYOUT=3,
    ORT_ENABLE_ALL=99,
)  # fmt: skip
ExecutionMode = _enumeration("ExecutionMode", ORT_SEQUENTIAL=0, ORT_PARALLEL=1)
ExecutionOrder = _enumeration("ExecutionOrder", DEFAULT=0, PRIORITY_BASED=1, MEMORY_EFFICIENT=2)
ArenaExtendStrategy = _enumeration("ArenaExtendStrategy", kNextPowerOfTwo=0, kSameAsRequested=1)
OrtAllocatorType = _enumeration("OrtAllocatorType", INVALID=-1, ORT_DEVICE_ALLOCATOR=0, ORT_ARENA_ALLOCATOR=1)
OrtMemType = _enumeration("OrtMemType", CPU_INPUT=-2, CPU_OUTPUT=-1, CPU=-1, DEFAULT=0)
OrtDeviceMemoryType = _enumeration("OrtDeviceMemoryType", DEFAULT=0, HOST_ACCESSIBLE=5)
OrtMemoryInfoDeviceType = _enumeration("OrtMemoryInfoDeviceType", CPU=0, GPU=1, FPGA=2, NPU=3)
OrtHardwareDeviceType = _enumeration("OrtHardwareDeviceType", CPU=0, GPU=1, NPU=2)
OrtSparseFormat = _enumeration(
    "OrtSparseFormat", ORT_SPARSE_UNDEFINED=0, ORT_SPARSE_COO=1, ORT_SPARSE_CSRC=2, ORT_SPARSE_BLOCK_SPARSE=4
)
OrtCompileApiFlags = _enumeration(
    "OrtCompileApiFlags", NONE=0, ERROR_IF_NO_NODES_COMPILED=1, ERROR_IF_OUTPUT_FILE_EXISTS=2
)
OrtExecutionProviderDevicePolicy = _enumeration(
    "OrtExecutionProviderDevicePolicy", DEFAULT=0, PREFER_CPU=1, PREFER_NPU=2, PREFER_GPU=3, MAX_PERFORMANCE=4,
    MAX_EFFICIENCY=5, MIN_OVERALL_POWER=6,
)  # fmt: skip


class _Option:
    """An attribute of one type; whole numbers may be of any kind."""

    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, options, owner=None):
        return self if options is None else options._values.get(self.name, self.default)

    def __set__(self, options, value):
        kind = type(self.default)
        if kind is int and not isinstance(value, (str, bytes, float)):
            value = operator.index(value)
        elif not isinstance(value, kind):
            raise TypeError(f"{self.name} is of type {kind.__name__}, and {value!r} is not")
        options._values[self.name] = value


class _Entries:
    """Texts by text keys."""

    __slots__ = ("_of", "_texts")

    def __init__(self, of):
        self._of, self._texts = of, {}

    def add(self, key, value):
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"keys and values of {self._of} are texts")
        self._texts[key] = value

    def get(self, key):
        if key not in self._texts:
            raise RuntimeError(f"{self._of} does not have configuration with key: {key}")
        return self._texts[key]

    def find(self, key, otherwise=""):
        return self._texts.get(key, otherwise)


class SessionOptions:
    """How a session is made. See docs/onnxruntime.md for which options have an effect."""

    __slots__ = (
        "__weakref__", "_entries", "_files", "_initializers", "_is_cancelled", "_named_dims", "_denoted_dims",
        "_providers", "_values",
    )  # fmt: skip

    enable_cpu_mem_arena = _Option(True)
    enable_mem_pattern = _Option(True)
    enable_mem_reuse = _Option(True)
    enable_profiling = _Option(False)
    execution_mode = _Option(ExecutionMode.ORT_SEQUENTIAL)
    execution_order = _Option(ExecutionOrder.DEFAULT)
    graph_optimization_level = _Option(GraphOptimizationLevel.ORT_ENABLE_ALL)
    inter_op_num_threads = _Option(0)
    intra_op_num_threads = _Option(0)
    log_severity_level = _Option(-1)
    log_verbosity_level = _Option(0)
    logid = _Option("")
    optimized_model_filepath = _Option("")
    profile_file_prefix = _Option("onnxruntime_profile_")
    use_deterministic_compute = _Option(False)
    use_per_session_threads = _Option(True)

    def __init__(self):
        self._values = {}
        self._entries = _Entries("SessionOptions")
        self._named_dims, self._denoted_dims = {}, {}
        self._initializers, self._files = {}, {}
        self._providers = []
        self._is_cancelled = False

    def add_session_config_entry(self, key, value):
        self._entries.add(key, value)

    def get_session_config_entry(self, key):
        return self._entries.get(key)

    def add_free_dimension_override_by_name(self, name, extent):
        """The open extent of that name is fixed."""
        self._named_dims[name] = operator.index(extent)

    def add_free_dimension_override_by_denotation(self, denotation, extent):
        """Likewise of all that denote it."""
        self._denoted_dims[denotation] = operator.index(extent)

    def add_initializer(self, name, value):
        """value: an OrtValue, in place of what the model has; its memory must stay until the session is made."""
        self._initializers[name] = (_array_of(value), False)

    def add_external_initializers(self, names, values):
        """The same of several, which the model keeps outside of its file."""
        if len(names) != len(values):
            raise made(Fail, "Expecting names and ort_values lists to have equal length")
        self._initializers.update((name, (_array_of(value), True)) for name, value in zip(names, values))

    def add_external_initializers_from_files_in_memory(self, file_names, buffers, lengths):
        """Contents of files that the model keeps initializers in."""
        if not len(file_names) == len(buffers) == len(lengths):
            raise made(Fail, "Expecting file_names, buffers and lengths to have equal length")
        for name, buffer, length in zip(file_names, buffers, lengths):
            self._files[name] = bytes(memoryview(buffer)[: operator.index(length)])

    def register_custom_ops_library(self, path):
        raise made(
            NotImplemented,
            f"{path}: libraries of ONNX Runtime's custom operators cannot be loaded; say what the operator computes with "
            "fettle.operator (docs/python.md), or give the model functions of its own",
        )

    def set_load_cancellation_flag(self, is_cancelled):
        """A session that is made from now on is refused. Compiling that has begun goes on."""
        self._is_cancelled = bool(is_cancelled)

    def add_provider(self, name, options):
        self._providers.append((name, dict(options)))

    def add_provider_for_devices(self, devices, options):
        self._providers.extend((device.ep_name, dict(options)) for device in devices)

    def has_providers(self):
        return bool(self._providers)

    def set_provider_selection_policy(self, policy):
        """There is one device: every policy selects it."""
        if not isinstance(policy, OrtExecutionProviderDevicePolicy):
            raise TypeError(f"{policy!r} is no OrtExecutionProviderDevicePolicy")

    def set_provider_selection_policy_delegate(self, delegate):
        """Likewise."""
        if not callable(delegate):
            raise TypeError(f"{delegate!r} cannot be called")

    def set_ep_context_data_read_func(self, read_func, max_data_size=0):
        raise made(NotImplemented, "models with compiled parts for an execution provider (EPContext) are not read")

    def clear_ep_context_data_read_func(self):
        """None can be set."""


def _array_of(value):
    array = getattr(value, "_value", None)
    if array is None:
        raise RuntimeError("The provided Python object must be an OrtValue")
    return array


class RunOptions:
    """How one run, or several, is made. `terminate` may be set from another thread: the runs that are under way end."""

    __slots__ = ("__weakref__", "_entries", "_lock", "_running", "_terminate", "_values")

    log_severity_level = _Option(-1)
    log_verbosity_level = _Option(0)
    logid = _Option("")
    only_execute_path_to_fetches = _Option(False)
    training_mode = _Option(False)

    def __init__(self):
        self._values = {}
        self._entries = _Entries("RunOptions")
        self._lock = threading.Lock()
        self._running = []
        self._terminate = False

    def add_run_config_entry(self, key, value):
        self._entries.add(key, value)

    def get_run_config_entry(self, key):
        return self._entries.get(key)

    def add_active_adapter(self, adapter):
        raise made(NotImplemented, "adapters are not applied; export the model with the adapter's weights in it")

    @property
    def terminate(self):
        return self._terminate

    @terminate.setter
    def terminate(self, value):
        if not isinstance(value, bool):
            raise TypeError(f"terminate is of type bool, and {value!r} is not")
        with self._lock:
            self._terminate = value
            if value and self._running:
                threading.Thread(target=self._end_all, daemon=True).start()

    def _end_all(self):
        """Until nothing runs any more: to cancel what is about to begin has no effect."""
        while True:
            with self._lock:
                if not (self._terminate and self._running):
                    return
                for context in self._running:
                    context.cancel()
            time.sleep(0.001)

    @contextlib.contextmanager
    def _ends(self, context):
        """Within, `terminate` ends what runs in the context. Fail where it does, or was set before."""
        with self._lock:
            if self._terminate:
                raise _terminated()
            self._running.append(context)
        try:
            yield
        except Error as error:
            raise _terminated() if self._terminate else error
        finally:
            with self._lock:
                self._running.remove(context)


def _terminated():
    return made(Fail, "Exiting due to terminate flag being set to true.")


class NodeArg:
    """An input or output: `name`, `type` ("tensor(float)") and `shape` (numbers, names, None)."""

    def __init__(self, name, type, shape):
        self.name, self.type, self.shape = name, type, shape

    def __str__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class ModelMetadata:
    """What the model's file says of where it is from."""

    def __init__(self, description):
        self.producer_name = description["producer"]
        self.graph_name = description["graph_name"]
        self.domain = description["domain"]
        self.description = description["description"]
        self.graph_description = description["graph_description"]
        self.version = description["version"]
        self.custom_metadata_map = dict(description["metadata"])


for _class in (SessionOptions, RunOptions, NodeArg, ModelMetadata):
    _class.__module__ = "fettle.onnxruntime.capi.onnxruntime_pybind11_state"

__all__ = [
    "ArenaExtendStrategy", "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "ModelMetadata", "NodeArg",
    "OrtAllocatorType", "OrtCompileApiFlags", "OrtDeviceMemoryType", "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "RunOptions", "SessionOptions",
]  # fmt: skip
