"""Names of ONNX Runtime's package that Fettle has no counterpart of. Using one says why, and what to do instead."""

from ._errors import NotImplemented, made

_SPARSE = "sparse tensors are not supported; give the dense one"
_ADAPTERS = "adapters are not applied; export the model with the adapter's weights in it"
_CONTEXT = "models with compiled parts for an execution provider (EPContext) are not read or written"
_PROVIDERS = "libraries of execution providers cannot be loaded; Fettle compiles for the CPU"
_ALLOCATORS = "a compiled model has its memory laid out beforehand, and no allocator to choose"

# Name → why. docs/onnxruntime.md shows this table.
REASONS = {
    "SparseTensor": _SPARSE,
    "AdapterFormat": _ADAPTERS,
    "LoraAdapter": _ADAPTERS,
    "ModelCompiler": "it makes models with compiled parts; `fettle compile` makes a library, which a session opens",
    "OrtEpContextData": _CONTEXT,
    "OrtEpContextDataBuffer": _CONTEXT,
    "OrtExternalInitializerInfo": "it says where ModelCompiler keeps weights; `fettle compile` keeps them in the library",
    "OrtSyncStream": "the CPU has no streams to wait for",
    "SessionIOBinding": "session.io_binding() makes one",
    "register_execution_provider_library": _PROVIDERS,
    "unregister_execution_provider_library": _PROVIDERS,
    "create_and_register_allocator": _ALLOCATORS,
    "create_and_register_allocator_v2": _ALLOCATORS,
}
_FUNCTIONS = {name for name in REASONS if name[0].islower()}


def _refused(name):
    def refuse(*args, **kwargs):
        raise made(NotImplemented, f"{name}: {REASONS[name]}")

    if name in _FUNCTIONS:
        refuse.__name__ = refuse.__qualname__ = name
        refuse.__doc__ = REASONS[name]
        return refuse
    return type(name, (), {"__doc__": REASONS[name], "__init__": refuse, "__module__": "fettle.onnxruntime"})


globals().update({name: _refused(name) for name in REASONS})
__all__ = list(REASONS)
