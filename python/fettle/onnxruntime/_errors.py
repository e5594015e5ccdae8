"""ONNX Runtime's exceptions, and which of them each of Fettle's errors becomes."""

import os
import pathlib

from .. import _fettle

_MODULE = "fettle.onnxruntime.capi.onnxruntime_pybind11_state"
# By ONNX Runtime's numbers.
_CODES = (
    (1, "FAIL", "Fail"), (2, "INVALID_ARGUMENT", "InvalidArgument"), (3, "NO_SUCHFILE", "NoSuchFile"),
    (4, "NO_MODEL", "NoModel"), (5, "ENGINE_ERROR", "EngineError"), (6, "RUNTIME_EXCEPTION", "RuntimeException"),
    (7, "INVALID_PROTOBUF", "InvalidProtobuf"), (8, "MODEL_LOADED", "ModelLoaded"),
    (9, "NOT_IMPLEMENTED", "NotImplemented"), (10, "INVALID_GRAPH", "InvalidGraph"), (11, "EP_FAIL", "EPFail"),
    (12, "MODEL_LOAD_CANCELED", "ModelLoadCanceled"), (13, "MODEL_REQUIRES_COMPILATION", "ModelRequiresCompilation"),
    (14, "NOT_FOUND", "NotFound"), (15, "DEVICE_RESET", "DeviceReset"),
)  # fmt: skip

CLASSES = {}
for _number, _text, _name in _CODES:
    CLASSES[_name] = type(_name, (Exception,), {
        "__module__": _MODULE, "__doc__": f"{_text}, {_number} in ONNX Runtime.", "_prefix": f"{_number} : {_text}",
    })  # fmt: skip
globals().update(CLASSES)


class UnsupportedModel(CLASSES["NotImplemented"], CLASSES["InvalidGraph"], CLASSES["Fail"]):
    """ONNX Runtime raises one of the three where it does not know or does not have an operator, a type or a version."""


class InvalidModel(CLASSES["InvalidGraph"], CLASSES["InvalidArgument"], CLASSES["Fail"]):
    """ONNX Runtime raises one of the three where types, shapes, attributes or names in a model contradict each other."""


def made(kind, text):
    """An exception of that class, with the text as ONNX Runtime begins it."""
    return kind(f"[ONNXRuntimeError] : {kind._prefix} : {text}")


_OF_MODELS = {
    "E602": CLASSES["InvalidProtobuf"], "E603": UnsupportedModel, "E604": UnsupportedModel, "E605": InvalidModel,
    "E606": InvalidModel, "E607": CLASSES["Fail"], "E608": CLASSES["Fail"], "E609": UnsupportedModel,
    "E704": CLASSES["Fail"], "E706": CLASSES["InvalidProtobuf"], "E709": CLASSES["InvalidArgument"],
}  # fmt: skip


def of_loading(error, source):
    """What a fettle.Error becomes where a model cannot be loaded; source: its path, or its bytes."""
    path = source if isinstance(source, str) else None
    begin = "" if path is None else f"Load model from {path} failed:"
    if error.code in ("E601", "E701") and path is not None and not os.path.exists(path):
        return made(CLASSES["NoSuchFile"], f"{begin}Load model {path} failed. File doesn't exist")
    if error.code == "E602" and _fettle._lacks_graph(source if path is None else pathlib.Path(path).read_bytes()):
        return made(CLASSES["InvalidArgument"], f"{begin}No graph was found in the protobuf. {error}")
    return made(_OF_MODELS.get(error.code, CLASSES["Fail"]), f"{begin}{error}")


def of_running(error):
    """Likewise where a call fails."""
    return made(CLASSES["Fail"], f"Non-zero status code returned while running the model. {error}")


__all__ = list(CLASSES)
