"""Values that live between runs: tensors on the CPU, lists, maps, or nothing; and where they live."""

import ctypes
import enum
import operator

import numpy

from ..onnx_types import NAME_OF_NUMPY, NUMBER_OF_NAME, NUMPY_OF_NAME, NUMPY_OF_NUMBER, type_of_array, type_of_value
from ._options import OrtAllocatorType, OrtDeviceMemoryType, OrtHardwareDeviceType, OrtMemType

_DEVICE_TYPES = {"cpu": 0, "gpu": 1, "cuda": 1, "dml": 1, "webgpu": 1, "npu": 3, "cann": 3}


class OrtDeviceVendorId(enum.IntEnum):
    """Vendors of devices, by their PCI numbers."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


def require_cpu(device_type, what="a value"):
    """device_type: "cpu"; any other is one that ONNX Runtime's package for CPUs refuses, too."""
    if device_type not in _DEVICE_TYPES:
        raise Exception("Unsupported device type: " + device_type)
    if device_type != "cpu":
        raise RuntimeError(f"Can't allocate memory on the device {device_type}: {what} lies in the memory of the CPU")


class OrtDevice:
    """A device's kind and number. Values live on OrtDevice.make("cpu", 0)."""

    def __init__(self, name, device_id, vendor_id=0):
        if name not in _DEVICE_TYPES:
            raise Exception("Unsupported device type: " + str(name))
        self._name, self._id, self._vendor = name, operator.index(device_id), vendor_id

    @staticmethod
    def make(ort_device_name, device_id, vendor_id=-1):
        return OrtDevice(ort_device_name, device_id, max(0, int(vendor_id)))

    def device_id(self):
        return self._id

    def device_type(self):
        return _DEVICE_TYPES[self._name]

    def device_vendor_id(self):
        return self._vendor

    def device_mem_type(self):
        return 0


class OrtMemoryInfo:
    """Memory of an allocator; that of this package is the CPU's."""

    def __init__(self, name, allocator_type, device_id, mem_type):
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0

    @classmethod
    def create_v2(cls, name, device_type, vendor_id, device_id, mem_type, alignment, allocator_type):
        del device_type, alignment
        made = cls(name, allocator_type, device_id, OrtMemType.DEFAULT)
        made.device_mem_type, made.device_vendor_id = mem_type, vendor_id
        return made


CPU_MEMORY = OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


class OrtHardwareDevice:
    """The processor."""

    def __init__(self):
        self.type, self.device_id, self.vendor_id, self.vendor, self.metadata = OrtHardwareDeviceType.CPU, 0, 0, "", {}


class OrtEpDevice:
    """Where an execution provider runs."""

    def __init__(self, ep_name):
        self.ep_name, self.ep_vendor, self.ep_metadata, self.ep_options = ep_name, "Fettle", {}, {}
        self.device = OrtHardwareDevice()

    def memory_info(self, mem_type):
        del mem_type
        return CPU_MEMORY

    def create_sync_stream(self):
        raise RuntimeError("the CPU has no streams to wait for")


def numpy_type(element_type):
    """Of numpy's type, or of ONNX's number of one."""
    if isinstance(element_type, (int, numpy.integer)) and not isinstance(element_type, bool):
        if int(element_type) not in NUMPY_OF_NUMBER:
            raise RuntimeError(f"ONNX has no element type of number {element_type}")
        return NUMPY_OF_NUMBER[int(element_type)]
    try:
        dtype = numpy.dtype(element_type)
    except TypeError as error:
        raise RuntimeError(f"Not a valid numpy type: {error}") from error
    if dtype not in NAME_OF_NUMPY and dtype.kind not in "US":
        raise RuntimeError(f"Numpy_type {dtype} can't be converted to MLDataType.")
    return dtype


def array_at(address, element_type, shape):
    """The array whose memory begins there; it is somebody else's."""
    dtype, shape = numpy_type(element_type), tuple(map(operator.index, shape))
    if dtype.hasobject:
        raise RuntimeError("Only binding of non-string Tensors is currently supported")
    count = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
    return numpy.frombuffer((ctypes.c_char * count).from_address(address), dtype).reshape(shape)


class _Capsule:
    """A DLPack capsule as an object that numpy takes."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **options):
        del options
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


class OrtValue:
    """An array, or a list or map as models give them. An array's memory is shared, not copied, where it is dense."""

    def __init__(self, value, _type=0):
        if _type == 0:
            raise ValueError("an OrtValue is made by one of ortvalue_from_numpy, ortvalue_from_shape_and_type, from_dlpack")
        self._value, self._type = value, _type

    @classmethod
    def _of(cls, value, type_=None):
        """type_: as ONNX writes it; None: the value tells."""
        return cls(value, type_)

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj, /, device_type="cpu", device_id=0, vendor_id=-1):
        del device_id, vendor_id
        require_cpu(device_type)
        if not isinstance(numpy_obj, numpy.ndarray) or numpy_obj.dtype.kind in "OUST":
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        dtype = numpy_type(numpy_obj.dtype.newbyteorder("="))
        return cls._of(numpy.ascontiguousarray(numpy_obj, dtype).reshape(numpy_obj.shape))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data, /, onnx_element_type):
        """The same bits as elements of another type of that size, as ONNX numbers it."""
        dtype = numpy_type(operator.index(onnx_element_type))
        if dtype.itemsize != data.dtype.itemsize:
            raise RuntimeError(f"Items size in the incoming array: {data.itemsize} specified by onnxtype: {dtype.itemsize}")
        return cls._of(numpy.ascontiguousarray(data).view(dtype).reshape(data.shape))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type, device_type="cpu", device_id=0, vendor_id=-1,
                                     memory_info=None):  # fmt: skip
        """Memory that nothing was written to; it holds zeros."""
        del device_id, vendor_id, memory_info
        require_cpu(device_type)
        if any(operator.index(extent) < 0 for extent in shape):
            raise RuntimeError(f"the extents {list(shape)} are not all >= 0")
        return cls._of(numpy.zeros(tuple(shape), numpy_type(element_type)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor):
        raise RuntimeError("sparse tensors are not supported; give the dense one")

    @classmethod
    def from_dlpack(cls, data, /):
        """Of an object with __dlpack__, or of its capsule; memory is shared."""
        if isinstance(data, OrtValue):
            return cls._of(data._tensor())
        source = data if hasattr(data, "__dlpack__") else _Capsule(data)
        if isinstance(source, _Capsule) and type(data).__name__ != "PyCapsule":
            raise TypeError(f"{type(data).__name__} is no object with __dlpack__, and no capsule")
        return cls._of(numpy.from_dlpack(source))

    def as_sparse_tensor(self):
        raise RuntimeError("the value is no sparse tensor")

    def _tensor(self):
        if not isinstance(self._value, numpy.ndarray):
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")
        return self._value

    def numpy(self):
        return self._tensor()

    def __array__(self, dtype=None, copy=None):
        array = self._tensor()
        return array.astype(dtype or array.dtype) if copy else numpy.asarray(array, dtype)

    def __dlpack__(self, **options):
        return self._tensor().__dlpack__(**{k: v for k, v in options.items() if v is not None})

    def __dlpack_device__(self):
        return (1, 0)

    def to_dlpack(self):
        """Of the class below this one in ONNX Runtime."""
        return self.__dlpack__()

    @property
    def _ortvalue(self):
        """That class, which programs that hand tensors on reach into; here both are one."""
        return self

    def _get_c_value(self):
        return self

    def data_ptr(self):
        return self._tensor().ctypes.data

    def device_name(self):
        return "cpu"

    def shape(self):
        return list(self._tensor().shape)

    def data_type(self):
        return self._type or type_of_value(self._value)

    def element_type(self):
        return NUMBER_OF_NAME[type_of_array(self._tensor())[len("tensor(") : -1]]

    def tensor_size_in_bytes(self):
        return self._tensor().nbytes

    def has_value(self):
        return self._value is not None

    def is_tensor(self):
        return isinstance(self._value, numpy.ndarray)

    def is_sparse_tensor(self):
        return False

    def is_tensor_sequence(self):
        return isinstance(self._value, list) and not self.data_type().startswith("seq(map")

    def update_inplace(self, data):
        """Copies an array, or another value's, into this one's memory."""
        if isinstance(data, OrtValue):
            data = data._tensor()
        elif not isinstance(data, numpy.ndarray):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        mine = self._tensor()
        if data.size != mine.size:
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        numpy.copyto(mine, data.reshape(mine.shape).astype(mine.dtype))


class OrtValueVector(list):
    """Values, one after the other."""

    def push_back(self, value):
        self.append(value)

    def push_back_batch(self, torch_tensors, data_ptrs, element_types, shapes, devices):
        """The memory at data_ptrs, which torch_tensors keep."""
        for tensor, address, kind, shape, _ in zip(torch_tensors, data_ptrs, element_types, shapes, devices):
            made = OrtValue._of(array_at(address, kind, shape))
            made._keeps = tensor
            self.append(made)

    def reserve(self, count):
        """Lists grow by themselves."""

    def shrink_to_fit(self):
        """Likewise."""

    def bool_tensor_indices(self):
        return [i for i, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def element_type_at(self, idx):
        return self[idx].element_type()

    def dlpack_at(self, index):
        return self[index].__dlpack__()

    def to_dlpacks(self, to_tensor):
        made = [value.__dlpack__() for value in self]
        return made if to_tensor is None else [to_tensor(capsule) for capsule in made]


def copy_tensors(src, dst, stream=None):
    """Copies each value into its counterpart."""
    del stream
    if len(src) != len(dst):
        raise RuntimeError("src and dst must be of equal length")
    for source, destination in zip(src, dst):
        destination.update_inplace(source)


def array_of_list(given, dtype):
    """An input that is given as a list of numbers, or of lists."""
    try:
        array = numpy.array(given, dtype)
        if dtype.hasobject and any(not isinstance(text, (str, bytes)) for text in array.flat):
            raise ValueError
        return array
    except (TypeError, ValueError, OverflowError):
        raise RuntimeError("Could not create tensor from given input list") from None


def tensor_dtype(type_):
    """numpy's of "tensor(float)", also within an optional."""
    return NUMPY_OF_NAME[type_.removeprefix("optional(").removeprefix("tensor(").rstrip(")")]


class OrtArenaCfg:
    """Sizes of an arena, which no compiled model has a use for."""

    def __init__(self, *values):
        names = (
            "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
            "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes",
        )  # fmt: skip
        given = values[0] if len(values) == 1 and isinstance(values[0], dict) else dict(zip(names, values))
        for name in names:
            setattr(self, name, given.get(name, -1))
