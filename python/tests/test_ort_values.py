"""fettle.onnxruntime beside ONNX Runtime: values, bindings, and devices."""

import unittest

import ml_dtypes
import numpy
from both_runtimes import BOTH, FLOAT, Both, Raised, helper, model_of, node, of, value
from onnx import TensorProto

import fettle.onnxruntime

TYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


def numbers():
    return numpy.arange(6, dtype=numpy.float32).reshape(2, 3)


def pair():
    return model_of(
        [node("Add", ["a", "b"], ["y"]), node("Mul", ["a", "b"], ["z"])],
        [value("a", FLOAT, ["N", 3]), value("b", FLOAT, ["N", 3])],
        [value("y", FLOAT, ["N", 3]), value("z", FLOAT, ["N", 3])],
    )  # fmt: skip


class Values(Both):
    def test_what_a_value_says(self):
        for dtype in TYPES:

            def said(runtime):
                x = numpy.ones((2, 3), dtype)
                made = runtime.OrtValue.ortvalue_from_numpy(x)
                return [
                    made.shape(), made.data_type(), made.element_type(), made.device_name(), made.tensor_size_in_bytes(),
                    made.has_value(), made.is_tensor(), made.is_sparse_tensor(), made.is_tensor_sequence(), made.numpy(),
                    made.data_ptr() == x.ctypes.data, numpy.shares_memory(made.numpy(), x), made.__dlpack_device__(),
                    numpy.asarray(made),
                ]  # fmt: skip

            self.alike(said, dtype)

    def test_values_that_are_made(self):
        bits = numbers().astype(ml_dtypes.bfloat16).view(numpy.uint16)
        makes = [
            lambda v: v.ortvalue_from_shape_and_type([2, 3], numpy.float32),
            lambda v: v.ortvalue_from_shape_and_type((2,), numpy.dtype("int64"), "cpu", 0),
            lambda v: v.ortvalue_from_shape_and_type([2, 3], TensorProto.BFLOAT16),
            lambda v: v.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16),
            lambda v: v.ortvalue_from_numpy_with_onnx_type(numbers(), TensorProto.BFLOAT16),
            lambda v: v.ortvalue_from_numpy(numbers()[:, ::2]),
            lambda v: v.ortvalue_from_shape_and_type([2, -3], numpy.float32),
            lambda v: v.ortvalue_from_shape_and_type([2], numpy.float32, "cuda"),
            lambda v: v.ortvalue_from_shape_and_type([2], numpy.float32, "nowhere"),
            lambda v: v.ortvalue_from_numpy(numbers(), "cuda", 0),
            lambda v: v.ortvalue_from_numpy([1, 2]),
            lambda v: v.ortvalue_from_numpy(numpy.array(["a"])),
            lambda v: v.ortvalue_from_numpy(numbers().astype(numpy.complex64)),
            lambda v: v.ortvalue_from_numpy(numpy.float32(1)),
            lambda v: v(numbers()),
        ]
        for i, make in enumerate(makes):

            def said(runtime):
                made = make(runtime.OrtValue)
                return [made.shape(), made.data_type(), made.element_type(), made.tensor_size_in_bytes()]

            self.alike(said, i)

    def test_updates_in_place(self):
        for data in (numbers() + 1, numbers()[:, ::-1], numbers()[:1], numbers().ravel(), [1.0]):

            def updated(runtime):
                x = numbers()
                made = runtime.OrtValue.ortvalue_from_numpy(x)
                made.update_inplace(data)
                return x

            self.alike(updated, data)

        def of_a_value(runtime):
            x = numbers()
            runtime.OrtValue.ortvalue_from_numpy(x).update_inplace(runtime.OrtValue.ortvalue_from_numpy(numbers() + 1))
            return x

        self.alike(of_a_value)

    def test_copies(self):
        # ONNX Runtime copies between devices alone.
        make, x = fettle.onnxruntime.OrtValue.ortvalue_from_numpy, numbers() * 0
        fettle.onnxruntime.copy_tensors([make(numbers())], [make(x)])
        self.same(x, numbers())

    def test_dlpack(self):
        def shared(runtime):
            x = numbers()
            made = runtime.OrtValue.from_dlpack(x)
            again = runtime.OrtValue.from_dlpack(made)
            capsule = runtime.OrtValue.from_dlpack(x.__dlpack__())
            below = runtime.OrtValue.from_dlpack(made._ortvalue.to_dlpack())  # as programs of that runtime reach into it
            view = numpy.from_dlpack(made)
            x[0, 0] = 7
            return [made.numpy(), again.numpy(), capsule.numpy(), below.numpy(), view, made.data_type(),
                    made._get_c_value().shape()]  # fmt: skip

        self.alike(shared)
        truth = fettle.onnxruntime.OrtValue.from_dlpack(numpy.array([True]))
        self.assertEqual(truth.data_type(), "tensor(bool)")
        self.assertIsInstance(self.alike(lambda runtime: runtime.OrtValue.from_dlpack(3)), Raised)

    def test_arrays_of_a_value(self):
        def made(runtime):
            x = runtime.OrtValue.ortvalue_from_numpy(numbers())
            return [numpy.array(x), numpy.asarray(x, dtype=numpy.float64), numpy.array(x, dtype=numpy.int32)]

        self.alike(made)

    def test_devices(self):
        def said(runtime):
            device = runtime.OrtDevice.make("cpu", 0)
            cuda = runtime.OrtDevice.make("cuda", 1)
            return [device.device_id(), device.device_type(), device.device_mem_type(), device.device_vendor_id(),
                    cuda.device_id(), cuda.device_type()]  # fmt: skip

        self.alike(said)
        self.assertIsInstance(self.alike(lambda runtime: runtime.OrtDevice.make("nowhere", 0)), Raised)


class Bindings(Both):
    def test_a_binding(self):
        def copies(arrays):
            return [array.copy() for array in arrays]

        def bound(runtime):
            x, out, session, said = numbers(), numpy.zeros((2, 3), numpy.float32), of(runtime, pair()), []
            binding = session.io_binding()
            binding.bind_cpu_input("a", x)
            binding.bind_ortvalue_input("b", runtime.OrtValue.ortvalue_from_numpy(x))
            binding.bind_output("y")
            binding.synchronize_inputs()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            said += [copies(binding.copy_outputs_to_cpu()), copies(v.numpy() for v in binding.get_outputs())]
            binding.bind_output("z", "cpu", 0, numpy.float32, out.shape, out.ctypes.data)
            session.run_with_iobinding(binding)
            said += [out.copy(), copies(binding.copy_outputs_to_cpu())]
            other = numpy.zeros((2, 3), numpy.float32)
            kept = runtime.OrtValue.ortvalue_from_numpy(other)
            binding.bind_ortvalue_output("y", kept)
            binding.bind_input("a", "cpu", 0, numpy.float32, [2, 3], x.ctypes.data)
            x += 1
            session.run_with_iobinding(binding, runtime.RunOptions())
            said += [out.copy(), other.copy(), len(binding.get_outputs_as_ortvaluevector())]
            binding.clear_binding_outputs()
            said += [binding.get_outputs()]
            binding.clear_binding_inputs()
            return said

        self.alike(bound)

    def test_what_a_binding_refuses(self):
        x = numbers()
        steps = [
            lambda b, s: s.run_with_iobinding(b),
            lambda b, s: b.bind_input("nope", "cpu", 0, numpy.float32, [2, 3], x.ctypes.data),
            lambda b, s: b.bind_cpu_input("nope", x),
            lambda b, s: b.bind_cpu_input("a", [1.0]),
            lambda b, s: b.bind_output("y", "cpu", 0, None, (2, 3), x.ctypes.data),
            lambda b, s: b.bind_output("y", "nowhere"),
            lambda b, s: (b.bind_output("nope"), s.run_with_iobinding(b)),
            lambda b, s: (b.bind_output("y"), s.run_with_iobinding(b)),
            lambda b, s: (b.bind_output("y"), b.bind_cpu_input("a", x.astype("f8")), b.bind_cpu_input("b", x),
                          s.run_with_iobinding(b)),
            lambda b, s: (b.bind_cpu_input("a", x), b.bind_cpu_input("b", x),
                          b.bind_output("y", "cpu", 0, numpy.float64, (2, 3), x.ctypes.data), s.run_with_iobinding(b)),
            lambda b, s: of(BOTH[1] if isinstance(s, BOTH[1].InferenceSession) else BOTH[0], pair()).run_with_iobinding(b),
        ]  # fmt: skip
        for i, step in enumerate(steps):

            def refused(runtime):
                session = of(runtime, pair())
                return step(session.io_binding(), session)

            self.assertIsInstance(self.alike(refused, i), Raised, i)

    def test_runs_of_values(self):
        def run(runtime, names=None, missing=False):
            a, b = (runtime.OrtValue.ortvalue_from_numpy(numbers() + i) for i in range(2))
            made = of(runtime, pair()).run_with_ort_values(names, {"a": a} if missing else {"a": a, "b": b})
            return [[v.numpy(), v.data_type()] for v in made]

        self.alike(run)
        self.alike(lambda runtime: run(runtime, ["z"]))
        self.assertIsInstance(self.alike(lambda runtime: run(runtime, missing=True)), Raised)

    def test_vectors_of_values(self):
        def run(runtime):
            session = of(runtime, pair())
            state = runtime.capi.onnxruntime_pybind11_state
            made = state.OrtValueVector()
            values = [runtime.OrtValue.ortvalue_from_numpy(numbers() + i) for i in range(2)]
            feeds = state.OrtValueVector()
            for one in values:
                feeds.push_back(getattr(one, "_ortvalue", one))
            device = runtime.OrtDevice.make("cpu", 0)
            session.run_with_ortvaluevector(
                runtime.RunOptions(), ["a", "b"], feeds, ["y"], made, [getattr(device, "_ort_device", device)]
            )
            return [one.numpy() for one in made]

        self.alike(run)

    def test_values_that_are_no_tensors(self):
        row = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
        model = model_of([node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[1, 2, 3])],
                         [value("x", FLOAT, ["N", 3])],
                         [helper.make_value_info("y", helper.make_sequence_type_proto(row))])  # fmt: skip

        def run(runtime):
            x = runtime.OrtValue.ortvalue_from_numpy(numbers())
            made = of(runtime, model).run_with_ort_values(None, {"x": x})[0]
            return [made.data_type(), made.is_tensor(), made.is_tensor_sequence(), made.has_value()]

        self.alike(run)

    def test_values_of_a_session(self):
        def made(runtime):
            one = of(runtime, pair()).create_ortvalue_from_shape_and_type([2, 3], numpy.float32, "cpu")
            return [one.shape(), one.data_type()]

        self.alike(made)


if __name__ == "__main__":
    unittest.main()
