"""Where ONNX Runtime's exceptions and options are from."""

from .._environment import *  # noqa: F403
from .._errors import *  # noqa: F403
from .._options import *  # noqa: F403
from .._refused import *  # noqa: F403
from .._refused import OF_CAPI
from .._session import InferenceSession, OrtEpAssignedNode, OrtEpAssignedSubgraph  # noqa: F401
from .._values import (OrtArenaCfg, OrtDevice, OrtEpDevice, OrtHardwareDevice, OrtMemoryInfo, OrtValue,  # noqa: F401
                       OrtValueVector, copy_tensors)

globals().update(OF_CAPI)
kNextPowerOfTwo, kSameAsRequested = ArenaExtendStrategy  # noqa: F405


def get_default_session_options():
    return SessionOptions()  # noqa: F405


def get_hardware_devices():
    return [OrtHardwareDevice()]
