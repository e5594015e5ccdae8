"""What concerns the package rather than a session: providers, devices, versions, and settings of the process."""

import warnings
from collections.abc import Sequence

from .. import _fettle
from ._values import OrtEpDevice

# The version whose interface this package has: libraries compare it. get_build_info() says that it is Fettle.
VERSION = "1.31.1"
FETTLE, CPU = "FettleExecutionProvider", "CPUExecutionProvider"
_AVAILABLE = (FETTLE, CPU)
_ELSEWHERE = (
    "NvTensorRTRTXExecutionProvider", "TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "ROCMExecutionProvider", "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider",
    "QNNExecutionProvider", "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider",
    "CoreMLExecutionProvider", "ACLExecutionProvider", "DmlExecutionProvider", "RknpuExecutionProvider",
    "WebNNExecutionProvider", "WebGpuExecutionProvider", "XnnpackExecutionProvider", "CANNExecutionProvider",
    "AzureExecutionProvider",
)  # fmt: skip

thread_pool_sizes = [0, 0]  # of sessions that do not use threads of their own


def get_available_providers():
    """Both names mean the same: Fettle's code for this CPU."""
    return list(_AVAILABLE)


def get_all_providers():
    """All names that ONNX Runtime knows, and Fettle's."""
    return [*_ELSEWHERE, *_AVAILABLE]


def get_device():
    """What sessions run on: the CPU."""
    return "CPU"


def get_version_string():
    """The version of ONNX Runtime whose interface this is."""
    return VERSION


def get_build_info():
    """Fettle's version, and that of the interface."""
    return f"{_fettle.name_and_version()}, with the interface of ONNX Runtime {VERSION}"


def has_collective_ops():
    """There are none."""
    return False


def get_ep_devices():
    """The one device that there is."""
    return [OrtEpDevice(FETTLE)]


def set_global_thread_pool_sizes(intra_op_num_threads=0, inter_op_num_threads=0):
    """For sessions whose options have use_per_session_threads = False."""
    thread_pool_sizes[:] = [int(intra_op_num_threads), int(inter_op_num_threads)]


def set_default_logger_severity(severity):
    """Nothing is logged: what is refused is an exception."""
    if not 0 <= int(severity) <= 4:
        raise RuntimeError(f"Invalid logging severity {severity}; valid values are 0 to 4")


def set_default_logger_verbosity(verbosity):
    """Nothing is logged."""
    int(verbosity)


def set_seed(seed):
    """Operators of random numbers without a seed of their own have one that is fixed."""
    int(seed)


def enable_telemetry_events():
    """Nothing is reported to anybody."""


def disable_telemetry_events():
    """Nothing is reported to anybody."""


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """There is nothing to load."""


def print_debug_info():
    """Prints what get_build_info says."""
    print(get_build_info())


def checked_providers(providers, provider_options):
    """The names of those to be used with their options, in order; warns where one is not available. ValueError and
    RuntimeError where ONNX Runtime raises them."""
    if providers is None:
        return {name: {} for name in _AVAILABLE}
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is not None:
        if not isinstance(provider_options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(provider, str) for provider in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(options, dict) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, provider_options))
    else:
        pairs = [(provider, {}) if isinstance(provider, str) else provider for provider in providers]
        if not all(_is_pair(pair) for pair in pairs):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
    chosen = {}
    for name, options in pairs:
        if name not in _AVAILABLE:
            available = ", ".join(_AVAILABLE)
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. Available providers: '{available}'",
                stacklevel=4,
            )
        if name in chosen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
        else:
            chosen[name] = {str(key): str(value) for key, value in options.items()}
    for name in chosen:
        if name not in _AVAILABLE and name not in _ELSEWHERE:
            raise RuntimeError(f"Unknown Provider Type: {name}")
    used = {name: options for name, options in chosen.items() if name in _AVAILABLE}
    used.setdefault(CPU, {})
    return used


def _is_pair(given):
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], dict)


__all__ = [
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers",
    "get_build_info", "get_device", "get_ep_devices", "get_version_string", "has_collective_ops",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed",
]  # fmt: skip
