"""StableHLO's bytecode as text, by jaxlib, which knows each of its versions."""

import ctypes
import logging
import threading

__all__ = ["connect"]

_kept = {}  # by thread: the text that it was given last


def text_of(code):
    """The program in MLIR's generic form."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, code)
        return module.operation.get_asm(print_generic_op_form=True)


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))
def _reader(code, code_bytes, text_bytes):
    try:
        text = text_of(ctypes.string_at(code, code_bytes)).encode()
    except Exception:
        logging.getLogger("fettle.jax").exception("a program cannot be read")
        return None
    kept = _kept[threading.get_ident()] = ctypes.create_string_buffer(text, len(text))
    text_bytes[0] = len(text)
    return ctypes.addressof(kept)


def connect(path):
    """Makes the plug-in at `path` read bytecode so."""
    ctypes.CDLL(str(path)).fettle_set_bytecode_reader(_reader)
