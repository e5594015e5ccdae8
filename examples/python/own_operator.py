"""An operator of one's own: Swish of the domain com.example. What each element is suffices: models that have it load, it
joins the product before it, and a schedule is found for both."""

import pathlib
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper

import fettle
from fettle import te


@fettle.operator("com.example.Swish", pointwise=True)
def swish(x, *, beta=1.0):
    return te.compute(x.shape, lambda *i: x[i] * te.sigmoid(x[i] * beta), name="swish")


# Its own rule of shapes; attributes are keywords, and an input that may be left out is None.
@fettle.operator("com.example.RowMax", fusion="reduction", shape=lambda x, bias, **_: (x[0],))
def row_max(x, bias=None):
    k = te.reduce_axis(x.shape[1], "k")
    greatest = te.compute((x.shape[0],), lambda i: te.max(x[i, k], axis=k), name="greatest")
    if bias is None:
        return greatest
    return te.compute((x.shape[0],), lambda i: greatest[i] + bias[i], name="row_max")


def model(*nodes, outputs):
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [37, 129]),
              helper.make_tensor_value_info("b", TensorProto.FLOAT, [37])]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    w = helper.make_tensor("w", TensorProto.FLOAT, [129, 20], W.ravel())
    graph = helper.make_graph(list(nodes), "layer", values, made, [w])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                 helper.make_opsetid("com.example", 1)])


generator = numpy.random.default_rng(0)
W = generator.standard_normal((129, 20)).astype("float32")
x = generator.standard_normal((37, 129)).astype("float32")
b = generator.standard_normal(37).astype("float32")
layer = model(helper.make_node("MatMul", ["x", "w"], ["h"]),
              helper.make_node("Swish", ["h"], ["y"], domain="com.example", beta=0.5),
              helper.make_node("RowMax", ["x", "b"], ["greatest"], domain="com.example"),
              outputs=["y", "greatest"])
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "layer.onnx"
    onnx.save(layer, path)
    outputs = fettle.compile(path).run(x=x, b=b)
h = x @ W
numpy.testing.assert_allclose(outputs["y"], h / (1 + numpy.exp(-0.5 * h)), rtol=1e-4, atol=1e-4)
numpy.testing.assert_allclose(outputs["greatest"], x.max(1) + b, rtol=1e-6)

# A name stands for one operator.
try:
    fettle.operator("com.example.Swish")(lambda x: x)
    raise SystemExit("an operator was registered twice")
except fettle.Error as error:
    print(error)

# The same expression in a program, with a schedule of its own.
X = te.placeholder((37, 129), name="X")
schedule = fettle.default_schedule(te.create_func("swish", [X], [swish(X, beta=1.0)]))
print(schedule.show())
numpy.testing.assert_allclose(fettle.build(schedule)(x), x / (1 + numpy.exp(-x)), rtol=1e-5, atol=1e-6)
