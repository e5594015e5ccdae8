"""Code that was written for ONNX Runtime runs on Fettle: the import is another, and all else is as it was."""

import pathlib
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import fettle.onnxruntime as onnxruntime


def classifier(path):
    """A small network of images, whose number is open."""
    random = numpy.random.default_rng(1)
    weights = {
        "kernel": random.standard_normal((8, 3, 3, 3)).astype(numpy.float32),
        "matrix": random.standard_normal((8, 10)).astype(numpy.float32),
    }
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["features"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["active"]),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["rows"]),
        helper.make_node("MatMul", ["rows", "matrix"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
    ]
    graph = helper.make_graph(
        nodes, "classifier",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)


def predictions(path, images):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return session.run(["probabilities"], {name: images})[0]


def predictions_in_place(path, images):
    """Inputs and outputs are bound to memory once, and used by every run."""
    session = onnxruntime.InferenceSession(path)
    given = onnxruntime.OrtValue.ortvalue_from_numpy(images)
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type([len(images), 10], numpy.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("images", given)
    binding.bind_ortvalue_output("probabilities", made)
    for _ in range(3):
        session.run_with_iobinding(binding)
    return made.numpy()


with tempfile.TemporaryDirectory() as folder:
    path = str(pathlib.Path(folder) / "classifier.onnx")
    classifier(path)
    images = numpy.random.default_rng(2).random((4, 3, 32, 32), numpy.float32)
    expected = predictions(path, images)
    numpy.testing.assert_allclose(expected.sum(axis=1), 1, rtol=1e-5)
    numpy.testing.assert_allclose(predictions_in_place(path, images), expected, rtol=1e-6)
    print("the likeliest of ten classes:", expected.argmax(axis=1).tolist())
