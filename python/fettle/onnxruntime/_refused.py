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
_KERNELS = "docs/operators.md says which operators there are, and `fettle check` which of a model's run"
_QUANTIZING = "quantizing makes models, and runs none: use ONNX Runtime's package, and give the model to a session"
_HELPER = "a helper of ONNX Runtime's package for itself"
# Likewise of its modules in `capi`.
REASONS_OF_CAPI = {
    "get_all_operator_schema": _KERNELS,
    "get_all_opkernel_def": _KERNELS,
    "get_registered_ep_kernel_defs": _KERNELS,
    "opkernel": _KERNELS,
    "schemadef": _KERNELS,
    "quantize_matmul_2bits": _QUANTIZING,
    "quantize_matmul_4bits": _QUANTIZING,
    "quantize_matmul_8bits": _QUANTIZING,
    "quantize_matmul_bnb4": _QUANTIZING,
    "quantize_qdq_matmul_2bits": _QUANTIZING,
    "quantize_qdq_matmul_4bits": _QUANTIZING,
    "pack_fp4_weights_for_cuda_moe_gemm": _QUANTIZING,
    "SparseBlockSparseView": _SPARSE,
    "SparseCooView": _SPARSE,
    "SparseCsrView": _SPARSE,
    "OrtCompiledModelCompatibility": _CONTEXT,
    "OrtDeviceEpIncompatibilityReason": _PROVIDERS,
    "get_compatibility_info_from_model": _CONTEXT,
    "get_compatibility_info_from_model_bytes": _CONTEXT,
    "get_hardware_device_ep_incompatibility_details": _PROVIDERS,
    "get_model_compatibility_for_ep_devices": _CONTEXT,
    "SessionObjectInitializer": "InferenceSession makes sessions",
    "get_session_initializer": "InferenceSession makes sessions",
    "is_dlpack_uint8_tensor": "OrtValue.from_dlpack tells booleans from bytes",
    "GetInitializerLocationFunc": _HELPER,
    "GetInitializerLocationWrapperFunc": _HELPER,
    "check_and_normalize_provider_args": _HELPER,
    "get_ort_device_type": _HELPER,
    "get_vendor_id_for_device_type": _HELPER,
    "make_get_initializer_location_func_wrapper": _HELPER,
}


def _refused(name, reason):
    def refuse(*args, **kwargs):
        raise made(NotImplemented, f"{name}: {reason}")

    if name[0].islower() and name not in ("opkernel", "schemadef"):
        refuse.__name__ = refuse.__qualname__ = name
        refuse.__doc__ = reason
        return refuse
    return type(name, (), {"__doc__": reason, "__init__": refuse, "__module__": "fettle.onnxruntime"})


globals().update({name: _refused(name, reason) for name, reason in REASONS.items()})
OF_CAPI = {name: _refused(name, reason) for name, reason in REASONS_OF_CAPI.items()}
__all__ = list(REASONS)
