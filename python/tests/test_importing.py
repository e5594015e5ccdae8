"""What a model file may bring along, beside ONNX Runtime: functions of its own, and layers of ONNX Runtime's."""

import os
import tempfile
import unittest

import numpy
import onnx
from beside_onnxruntime import BOOL, FLOAT, INT, body, ints, node, random, reference_of, value
from onnx import TensorProto, helper, numpy_helper

import fettle

OWN, MICROSOFT = "own.domain", "com.microsoft"


class Importing(unittest.TestCase):
    def check(self, graph, *feeds, functions=(), ir_version=10):
        model = helper.make_model(
            graph,
            functions=functions,
            ir_version=ir_version,
            opset_imports=[
                helper.make_opsetid("", 18),
                helper.make_opsetid(OWN, 1),
                helper.make_opsetid(MICROSOFT, 1),
            ],
        )
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(model, path)
            reference, compiled = reference_of(path), fettle.compile(path)
            for given in feeds:
                made = compiled.run(**given)
                for output, want in zip(graph.output, reference.run(None, given)):
                    numpy.testing.assert_allclose(made[output.name], want, rtol=1e-4, atol=1e-5, err_msg=output.name)

    def test_functions_with_attributes_and_branches(self):
        """A block of a network, called twice, that calls another function, in opsets of their own."""
        of_13, of_18 = [helper.make_opsetid("", 13), helper.make_opsetid(OWN, 1)], [helper.make_opsetid("", 18)]
        slope = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
        leaky = node("LeakyRelu", ["a"], ["r"])
        leaky.attribute.append(slope)
        axes = node("Constant", [], ["axes"])
        axes.attribute.append(onnx.AttributeProto(name="value_ints", ref_attr_name="axes", type=onnx.AttributeProto.INTS))
        activation = helper.make_function(
            OWN, "Activation", ["x", "shift"], ["y"],
            [node("Add", ["x", "shift"], ["a"]), leaky, axes, node("ReduceMean", ["r", "axes"], ["m"], keepdims=1),
             node("Sub", ["r", "m"], ["y"])],
            of_18, ["axes"], [helper.make_attribute("slope", 0.25)])
        block = helper.make_function(
            OWN, "Block", ["x", "w", "skips"], ["y"],
            [node("MatMul", ["x", "w"], ["p"]), node("Activation", ["p", "x"], ["a"], domain=OWN, axes=[1]),
             node("If", ["skips"], ["y"], then_branch=body("then", [node("Add", ["a", "x"], ["t"])], [],
                                                           [value("t", FLOAT, None)]),
                  else_branch=body("else", [node("Softmax", ["a"], ["e"])], [], [value("e", FLOAT, None)]))],
            of_13)
        graph = helper.make_graph(
            [node("Block", ["x", "w", "c"], ["a"], domain=OWN, name="first"),
             node("Not", ["c"], ["d"]),
             node("Block", ["a", "w", "d"], ["y"], domain=OWN, name="second"),
             node("Activation", ["y", "x"], ["z"], domain=OWN, axes=[0, 1], slope=0.5)],
            "g", [value("x", FLOAT, ["n", 8]), value("c", BOOL, [])],
            [value("y", FLOAT, None), value("z", FLOAT, None)], [numpy_helper.from_array(random(8, 8), "w")])
        self.check(graph, *({"x": random(n, 8), "c": numpy.array(c)} for n in (1, 5) for c in (True, False)),
                   functions=[block, activation])

    def test_a_decoder_of_grouped_queries(self):
        """As exporters write it: how many keys there are comes from the mask's shape and content."""
        nodes = [
            node("ReduceSum", ["mask", "one"], ["counts"], keepdims=0),
            node("Sub", ["counts", "one"], ["last"]),
            node("Cast", ["last"], ["last32"], to=TensorProto.INT32),
            node("Shape", ["mask"], ["shape"]),
            node("Gather", ["shape", "one"], ["total"]),
            node("Cast", ["total"], ["total32"], to=TensorProto.INT32),
            node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "last32", "total32", "cos", "sin"],
                 ["y", "present_k", "present_v"], domain=MICROSOFT, num_heads=4, kv_num_heads=2, do_rotary=1),
        ]
        inputs = [value("q", FLOAT, ["b", "s", 64]), value("k", FLOAT, ["b", "s", 32]), value("v", FLOAT, ["b", "s", 32]),
                  value("past_k", FLOAT, ["b", 2, "p", 16]), value("past_v", FLOAT, ["b", 2, "p", 16]),
                  value("mask", INT, ["b", "t"])]
        outputs = [value(name, FLOAT, None) for name in ("y", "present_k", "present_v")]
        graph = helper.make_graph(nodes, "g", inputs, outputs,
                                  [numpy_helper.from_array(ints(1), "one"), numpy_helper.from_array(random(32, 8), "cos"),
                                   numpy_helper.from_array(random(32, 8) * 2, "sin")])

        def feed(batch, steps, past):
            return {"q": random(batch, steps, 64), "k": random(batch, steps, 32), "v": random(batch, steps, 32) + 1,
                    "past_k": random(batch, 2, past, 16), "past_v": random(batch, 2, past, 16) * 2,
                    "mask": numpy.ones((batch, steps + past), numpy.int64)}
        self.check(graph, feed(1, 5, 0), feed(2, 1, 5), feed(1, 3, 4))

    def test_attention_of_open_sizes(self):
        nodes = [
            node("MultiHeadAttention", ["q", "k", "v", "", "mask"], ["a"], domain=MICROSOFT, num_heads=2),
            node("Attention", ["a", "w", "b"], ["y"], domain=MICROSOFT, num_heads=2, unidirectional=1),
        ]
        inputs = [value("q", FLOAT, ["b", "s", 8]), value("k", FLOAT, ["b", "t", 8]), value("v", FLOAT, ["b", "t", 8]),
                  value("mask", TensorProto.INT32, ["b", "t"])]
        graph = helper.make_graph(nodes, "g", inputs, [value("y", FLOAT, None)],
                                  [numpy_helper.from_array(random(8, 24), "w"), numpy_helper.from_array(random(24), "b")])

        def feed(batch, steps, keys):
            mask = numpy.ones((batch, keys), numpy.int32)
            mask[:, keys - 1] = 0
            return {"q": random(batch, steps, 8), "k": random(batch, keys, 8), "v": random(batch, keys, 8), "mask": mask}
        self.check(graph, feed(1, 3, 5), feed(2, 4, 2))


if __name__ == "__main__":
    unittest.main()
