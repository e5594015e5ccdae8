"""ONNX Runtime's interface on Fettle: `import fettle.onnxruntime as onnxruntime`. See docs/onnxruntime.md."""

import sys as _sys

from . import capi
from ._binding import IOBinding
from ._environment import (VERSION, disable_telemetry_events, enable_telemetry_events, get_all_providers,
                           get_available_providers, get_build_info, get_device, get_ep_devices, get_version_string,
                           has_collective_ops, preload_dlls, print_debug_info, set_default_logger_severity,
                           set_default_logger_verbosity, set_global_thread_pool_sizes, set_seed)
from ._options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtAllocatorType,
                       OrtCompileApiFlags, OrtDeviceMemoryType, OrtExecutionProviderDevicePolicy, OrtHardwareDeviceType,
                       OrtMemoryInfoDeviceType, OrtMemType, OrtSparseFormat, RunOptions, SessionOptions)
from ._refused import *  # noqa: F403
from ._session import InferenceSession, OrtEpAssignedNode, OrtEpAssignedSubgraph
from ._values import (OrtArenaCfg, OrtDevice, OrtDeviceVendorId, OrtEpDevice, OrtHardwareDevice, OrtMemoryInfo, OrtValue,
                      copy_tensors)
from .capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

__version__ = version = VERSION
__author__ = "Fettle"
package_name, cuda_version = "onnxruntime", ""


def install():
    """From now on `import onnxruntime` gives this package, in other people's code, too. RuntimeError: ONNX Runtime has been
    imported before."""
    kept = _sys.modules.get("onnxruntime", _sys.modules[__name__])
    if kept is not _sys.modules[__name__]:
        raise RuntimeError("onnxruntime has been imported before; install fettle.onnxruntime first")
    for name, module in list(_sys.modules.items()):
        if name == __name__ or name.startswith(__name__ + "."):
            _sys.modules["onnxruntime" + name[len(__name__) :]] = module
