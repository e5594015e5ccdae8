"""Where ONNX Runtime's sessions and values are from."""

from .._binding import IOBinding  # noqa: F401
from .._refused import OF_CAPI, AdapterFormat, ModelCompiler, SparseTensor  # noqa: F401
from .._session import InferenceSession  # noqa: F401
from .._values import OrtDevice, OrtDeviceVendorId, OrtValue, copy_tensors  # noqa: F401

Session = InferenceSession
globals().update(OF_CAPI)
