"""Where ONNX Runtime's exceptions and options are from."""

from .._environment import *  # noqa: F403
from .._errors import *  # noqa: F403
from .._options import *  # noqa: F403
from .._refused import *  # noqa: F403
from .._session import InferenceSession, OrtEpAssignedNode, OrtEpAssignedSubgraph  # noqa: F401
from .._values import (OrtArenaCfg, OrtDevice, OrtEpDevice, OrtHardwareDevice, OrtMemoryInfo, OrtValue,  # noqa: F401
                       OrtValueVector, copy_tensors)
