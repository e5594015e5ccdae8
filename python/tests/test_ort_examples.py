"""What ONNX Runtime's documentation shows, on models that its package carries where they are valid: the same on Fettle."""

import os
import unittest

import numpy
from both_runtimes import BOTH, FLOAT, INT, Both, Raised, helper, model_of, node, value
from onnxruntime import datasets


def classifier():
    """A logistic regression of two features and three classes, as converters of scikit-learn write it."""
    row = helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, []))
    linear = node(
        "LinearClassifier", ["float_input"], ["output_label", "scores"], domain="ai.onnx.ml", classlabels_ints=[0, 1, 2],
        coefficients=[0.4, 1.4, 0.4, -1.6, -1.7, -1.5], intercepts=[0.2, 1.1, -1.2], multi_class=1, post_transform="NONE",
    )  # fmt: skip
    nodes = [
        linear, node("Normalizer", ["scores"], ["normal"], domain="ai.onnx.ml", norm="L1"),
        node("ZipMap", ["normal"], ["output_probability"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]  # fmt: skip
    outputs = [
        value("output_label", INT, ["N"]),
        helper.make_value_info("output_probability", helper.make_sequence_type_proto(row)),
    ]
    return model_of(nodes, [value("float_input", FLOAT, ["N", 2])], outputs).SerializeToString()


class Examples(Both):
    def test_load_and_predict(self):
        x = numpy.random.default_rng(0).random((3, 4, 5), numpy.float32)

        def predicted(rt):
            sess = rt.InferenceSession(datasets.get_example("sigmoid.onnx"), providers=rt.get_available_providers())
            given, made = sess.get_inputs()[0], sess.get_outputs()[0]
            said = [given.name, given.shape, given.type, made.name, made.shape, made.type]
            return said + sess.run([made.name], {given.name: x})

        self.alike(predicted)

    def test_a_classifier(self):
        def predicted(rt):
            sess = rt.InferenceSession(classifier())
            said = [[a.name, a.shape, a.type] for a in sess.get_inputs() + sess.get_outputs()]
            x = numpy.array([[1, 2], [3, 4], [5, 6]], numpy.float32)
            return said + sess.run(None, {sess.get_inputs()[0].name: x})

        self.alike(predicted)

    def test_common_errors(self):
        sessions = {rt: rt.InferenceSession(classifier()) for rt in BOTH}
        name, outputs = sessions[BOTH[0]].get_inputs()[0].name, [a.name for a in sessions[BOTH[0]].get_outputs()]
        x = numpy.array([[1, 2], [3, 4], [5, 6]], numpy.float32)
        cases = [
            (outputs[:1], {name: x.astype(numpy.float64)}), (["misspelled"], {name: x}), (None, {"misspelled": x}),
            (None, {name: numpy.array([1.0, 2.0, 3.0, 4.0], numpy.float32)}),
            (None, {name: numpy.array([[1.0, 2.0, 3.0, 4.0]], numpy.float32)}),
            (None, {name: numpy.array([[[1.0, 2.0]], [[3.0, 4.0]]], numpy.float32)}),
        ]  # fmt: skip
        for i, (names, feed) in enumerate(cases):
            made = self.alike(lambda rt: sessions[rt].run(names, feed), i)
            self.assertIsInstance(made, Raised, i)

    def test_a_session_in_a_function_of_its_own(self):
        """Options, a binding to memory that is there, and a profile, as pages on performance have them."""

        def tuned(rt):
            options = rt.SessionOptions()
            options.intra_op_num_threads = 2
            options.execution_mode = rt.ExecutionMode.ORT_SEQUENTIAL
            options.graph_optimization_level = rt.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(self.folder, rt.__name__)
            sess = rt.InferenceSession(datasets.get_example("mul_1.onnx"), sess_options=options)
            x = numpy.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=numpy.float32)
            binding = sess.io_binding()
            binding.bind_cpu_input(sess.get_inputs()[0].name, x)
            binding.bind_output(sess.get_outputs()[0].name)
            sess.run_with_iobinding(binding)
            made = binding.copy_outputs_to_cpu()[0].copy()
            return [made, os.path.exists(sess.end_profiling())]

        self.alike(tuned)


if __name__ == "__main__":
    unittest.main()
