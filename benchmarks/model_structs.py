"""Structs of the C interface of compiled models (src/rt/model_api.h), for ctypes."""

import ctypes

ABI_VERSION = 3


class Tensor(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("device", ctypes.c_int32), ("device_index", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("axis_names", ctypes.POINTER(ctypes.c_char_p)),
                ("capacity_bytes", ctypes.c_int64)]


class Options(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_uint32), ("threads", ctypes.c_int32), ("pin", ctypes.c_int32),
                ("spin_us", ctypes.c_int32), ("huge_pages", ctypes.c_int32), ("keep_denormals", ctypes.c_int32),
                ("host_team", ctypes.c_void_p), ("host_calls", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("device_index", ctypes.c_int32), ("no_graphs", ctypes.c_int32)]
