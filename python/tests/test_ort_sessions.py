"""fettle.onnxruntime beside ONNX Runtime: what sessions say of themselves, what they take, and what they give."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import threading
import time
import unittest

import numpy
import onnx
from both_runtimes import (BOOL, BOTH, FLOAT, INT, STRING, Both, Raised, affine, helper, model_of, node, numpy_helper, of,
                           outcome, value)

import fettle.onnxruntime

X = numpy.float32([[1, 2, 3], [-4, -5, -6]])


def texts(arguments):
    return [str(argument) for argument in arguments]


class Descriptions(Both):
    def test_inputs_outputs_and_initializers(self):
        def said(runtime):
            session = of(runtime, affine())
            return [texts(arguments) for arguments in (
                session.get_inputs(), session.get_outputs(), session.get_overridable_initializers()
            )]  # fmt: skip

        self.alike(said)

    def test_where_the_model_is_from(self):
        model = affine()
        helper.set_model_props(model, {"key": "of tests"})

        def said(runtime):
            meta = of(runtime, model).get_modelmeta()
            return [
                meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.graph_description, meta.version,
                meta.custom_metadata_map,
            ]  # fmt: skip

        self.alike(said)

    def test_shapes_that_follow(self):
        models = [
            model_of([node("Flatten", ["x"], ["y"]), node("Concat", ["y", "y"], ["z"], axis=0)],
                     [value("x", FLOAT, ["N", 3, "M"])], [value("y", FLOAT, None), value("z", FLOAT, None)]),
            model_of([node("Add", ["a", "b"], ["y"])], [value("a", FLOAT, ["N", 4]), value("b", FLOAT, ["N", 4])],
                     [value("y", FLOAT, None)]),
            model_of([node("Relu", ["x"], ["y"])], [value("x", FLOAT, [None, "N", 5])], [value("y", FLOAT, None)]),
            model_of([node("Relu", ["x"], ["y"])], [value("x", FLOAT, [])], [value("y", FLOAT, [])]),
            model_of([node("Relu", ["x"], ["y"])], [value("x", FLOAT, None)], [value("y", FLOAT, None)]),
        ]  # fmt: skip
        for i, model in enumerate(models):
            self.alike(lambda runtime: texts(
                of(runtime, model).get_inputs() + of(runtime, model).get_outputs()
            ), i)  # fmt: skip

    def test_extents_that_options_fix(self):
        model = model_of([node("Relu", ["x"], ["y"])], [value("x", FLOAT, ["N", "C"])], [value("y", FLOAT, None)])
        model.graph.input[0].type.tensor_type.shape.dim[1].denotation = "DATA_CHANNEL"

        def said(runtime):
            options = runtime.SessionOptions()
            options.add_free_dimension_override_by_name("N", 4)
            options.add_free_dimension_override_by_denotation("DATA_CHANNEL", 3)
            options.add_free_dimension_override_by_name("there is none", 3)
            session = of(runtime, model, options=options)
            x = numpy.ones((4, 3), numpy.float32)
            return [texts(session.get_inputs() + session.get_outputs()), session.run(None, {"x": x})]

        self.alike(said)
        for shape in ((5, 3), (4, 2)):

            def refused(runtime):
                options = runtime.SessionOptions()
                options.add_free_dimension_override_by_name("N", 4)
                options.add_free_dimension_override_by_denotation("DATA_CHANNEL", 3)
                return of(runtime, model, options=options).run(None, {"x": numpy.ones(shape, numpy.float32)})

            self.assertIsInstance(self.alike(refused), Raised)

    def test_initializers_of_old_files_are_constants(self):
        model = affine()
        model.ir_version = 3
        self.alike(lambda runtime: texts(of(runtime, model).get_overridable_initializers()))
        self.alike(lambda runtime: of(runtime, model).run(None, {"x": X}))
        self.alike(lambda runtime: of(runtime, model).run(None, {"x": X, "w": numpy.ones(3, numpy.float32)}))

    def test_nodes_by_provider(self):
        def said(runtime):
            options = runtime.SessionOptions()
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            parts = of(runtime, affine(), options=options).get_provider_graph_assignment_info()
            return sorted((n.name, n.op_type, n.domain) for part in parts for n in part.get_nodes())

        self.alike(said)
        self.alike(lambda runtime: of(runtime, affine()).get_provider_graph_assignment_info())

    def test_denormal_numbers(self):
        model = model_of([node("Mul", ["x", "x"], ["y"])], [value("x", FLOAT, [4])], [value("y", FLOAT, [4])])
        x = numpy.full(4, 1e-20, numpy.float32)
        squares = []
        for entry in (None, "0", "1"):
            def run(runtime, entry=entry):
                options = runtime.SessionOptions()
                if entry is not None:
                    options.add_session_config_entry("session.set_denormal_as_zero", entry)
                return of(runtime, model, options=options).run(None, {"x": x})

            squares.append(self.alike(run)[0])
        self.assertTrue(squares[0].all() and squares[1].all())

    def test_idle_threads_may_be_told_not_to_spin(self):
        for entry in ("0", "1"):
            def run(runtime, entry=entry):
                options = runtime.SessionOptions()
                options.intra_op_num_threads = 2
                options.add_session_config_entry("session.intra_op.allow_spinning", entry)
                said = options.get_session_config_entry("session.intra_op.allow_spinning")
                return [said, of(runtime, affine(), options=options).run(None, {"x": X})]

            self.alike(run)

    def test_a_wrong_shape_is_an_invalid_argument_that_names_the_input(self):
        for runtime in BOTH:
            session = of(runtime, affine())
            with self.assertRaises(runtime.capi.onnxruntime_pybind11_state.InvalidArgument) as raised:
                session.run(None, {"x": numpy.ones((2, 7, 5), numpy.float32)})
            self.assertIn("INVALID_ARGUMENT", str(raised.exception))
            self.assertIn("input: x", str(raised.exception))

    def test_what_else_a_session_says(self):
        def said(runtime):
            session = of(runtime, affine(), providers=["CPUExecutionProvider"])
            info = session.get_input_memory_infos()[0]
            return [
                session.get_session_options().log_severity_level, info.name, info.device_id, str(info.mem_type),
                len(session.get_output_memory_infos()), len(session.get_input_epdevices()), session.get_tuning_results(),
                session.set_tuning_results([]), session.set_ep_dynamic_options({"a": "b"}), session.enable_fallback(),
                session.disable_fallback(), session.get_profiling_start_time_ns() > 0, session.end_profiling(),
                session.release_captured_graph(),
            ]  # fmt: skip

        made = said(BOTH[1])
        self.same(made[:1] + made[2:], (lambda w: w[:1] + w[2:])(said(BOTH[0])))


class Feeds(Both):
    """What may be given, and what is refused how."""

    def test_feeds_of_a_tensor(self):
        sessions = {runtime: of(runtime, affine()) for runtime in BOTH}
        strided = numpy.arange(18, dtype=numpy.float32).reshape(3, 6)[:, ::2]
        given = [
            {"x": X}, {"x": strided}, {"x": strided[::-1]}, {"x": X[:0]}, {"x": X.tolist()},
            {"x": [[1, 2, 3]]}, {"x": X, "w": numpy.float32([5, 5, 5])}, {}, {"q": X}, {"x": X, "q": X},
            {"x": X.astype(numpy.float64)}, {"x": X[0]}, {"x": X[None]}, {"x": numpy.ones((2, 4), numpy.float32)},
            {"x": [[1.5, 2]]}, {"x": ((1.5, 2, 3),)}, {"x": 1.0}, {"x": numpy.float32(1)}, {"x": None}, {"x": "text"},
            {"x": {1: 2.0}}, {"x": X, "w": numpy.ones(4, numpy.float32)}, {"x": X.astype(numpy.complex64)},
            {"x": numpy.array([["a", "b", "c"]])}, [X], {"x": [[1], [2, 3]]}, {"x": numpy.asfortranarray(X)},
        ]  # fmt: skip
        for i, feed in enumerate(given):
            self.alike(lambda runtime: sessions[runtime].run(None, feed), i)

    def test_bytes_in_the_other_order(self):
        # ONNX Runtime takes them for this machine's.
        session = of(fettle.onnxruntime, affine())
        self.same(session.run(None, {"x": X.astype(">f4")}), session.run(None, {"x": X}))

    def test_which_outputs(self):
        sessions = {runtime: of(runtime, affine()) for runtime in BOTH}
        for names in (None, [], ["z"], ["z", "y"], ["z", "z"], ("y",), "z", ["nope"], [3]):
            self.alike(lambda runtime: sessions[runtime].run(names, {"x": X}), names)
            self.alike(lambda runtime: sessions[runtime].run(names, {"x": X.tolist()}), names)

    def test_other_types(self):
        def same(kind, shape=(2,)):
            return model_of([node("Identity", ["x"], ["y"])], [value("x", kind, shape)], [value("y", kind, shape)])

        integers = [[1, 2], [1.5, 2], ["a", "b"], [[1], [2, 3]], [numpy.int64(1), numpy.int64(2)], [None, None]]
        booleans = [[True, False], [1, 0], numpy.array([1, 0]), numpy.array([True, False])]
        strings = [
            numpy.array(["a", "bc"]), ["a", "bcd"], numpy.array(["ä", "b"], object), numpy.array([1, 2], object),
            numpy.array([1, 2]),
        ]  # fmt: skip
        scalars = [numpy.array(1, numpy.float32), numpy.ones(1, numpy.float32), [1.0], numpy.array(1), (1.0,)]
        for kind, shape, given in (
            (INT, [2], integers), (BOOL, [2], booleans), (STRING, ["N"], strings), (FLOAT, [], scalars)
        ):  # fmt: skip
            sessions = {runtime: of(runtime, same(kind, shape)) for runtime in BOTH}
            for x in given:
                self.alike(lambda runtime: sessions[runtime].run(None, {"x": x}), (kind, x))

    def test_numbers(self):
        # ONNX Runtime takes none.
        session = of(fettle.onnxruntime, model_of([node("Neg", ["x"], ["y"])], [value("x", FLOAT, [])], [value("y", FLOAT, [])]))
        for x in (2, 2.0, numpy.float32(2), numpy.float64(2)):
            for options in (None, fettle.onnxruntime.RunOptions()):
                self.same(session.run(None, {"x": x}, options), [numpy.array(-2, numpy.float32)])

    def test_sequences(self):
        sequence = helper.make_tensor_sequence_value_info
        model = model_of([node("SequenceInsert", ["s", "t"], ["y"]), node("SequenceLength", ["y"], ["n"])],
                         [sequence("s", FLOAT, ["K"]), value("t", FLOAT, [2])],
                         [sequence("y", FLOAT, None), value("n", INT, [])])  # fmt: skip
        sessions = {runtime: of(runtime, model) for runtime in BOTH}
        self.alike(lambda runtime: texts(sessions[runtime].get_inputs() + sessions[runtime].get_outputs()))
        t = numpy.float32([1, 2])
        for s in ([t], [], [t, t[:1], t], t, [t.astype(numpy.float64)], None):
            self.alike(lambda runtime: sessions[runtime].run(None, {"s": s, "t": t}), s)

    def test_optionals(self):
        optional = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2])))
        model = model_of([node("OptionalHasElement", ["o"], ["h"])], [optional], [value("h", BOOL, [])], opset=18)
        sessions = {runtime: of(runtime, model) for runtime in BOTH}
        self.alike(lambda runtime: texts(sessions[runtime].get_inputs()))
        for feed in ({}, {"o": None}, {"o": numpy.ones(2, numpy.float32)}):
            self.alike(lambda runtime: sessions[runtime].run(None, feed), feed)

    def test_maps(self):
        row = helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, []))
        rows = model_of([node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[1, 2])],
                        [value("x", FLOAT, ["N", 2])],
                        [helper.make_value_info("y", helper.make_sequence_type_proto(row))])  # fmt: skip
        sessions = {runtime: of(runtime, rows) for runtime in BOTH}
        self.alike(lambda runtime: texts(sessions[runtime].get_outputs()))
        self.alike(lambda runtime: sessions[runtime].run(None, {"x": X[:, :2].copy()}))
        words = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
        vector = model_of([node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])],
                          [helper.make_value_info("x", words)], [value("y", FLOAT, [1, None])])  # fmt: skip
        sessions = {runtime: of(runtime, vector) for runtime in BOTH}
        self.alike(lambda runtime: texts(sessions[runtime].get_inputs()))
        for x in ({"a": 1.0}, {"a": 1.0, "b": 2.0}, {1: 1.0}, [{"a": 1.0}], 3):
            self.alike(lambda runtime: sessions[runtime].run(None, {"x": x}), x)


class WhatACallDecides(Both):
    """ONNX Runtime looks at sizes and values when it runs. So does Fettle, where it has to compile again for them."""

    def test_an_extent_that_is_one_after_all(self):
        model = model_of([node("Add", ["a", "b"], ["y"])], [value("a", FLOAT, ["N", 4]), value("b", FLOAT, ["M", 4])],
                         [value("y", FLOAT, None)])  # fmt: skip
        sessions = {runtime: of(runtime, model) for runtime in BOTH}
        for n, m in ((3, 3), (3, 1), (1, 5), (3, 2)):
            feed = {"a": numpy.full((n, 4), 2, numpy.float32), "b": numpy.full((m, 4), 3, numpy.float32)}
            self.alike(lambda runtime: sessions[runtime].run(None, feed), (n, m))

    def test_names_of_extents_are_hints(self):
        model = model_of([node("Relu", ["a"], ["y"]), node("Relu", ["b"], ["z"])],
                         [value("a", FLOAT, ["N"]), value("b", FLOAT, ["N"])],
                         [value("y", FLOAT, None), value("z", FLOAT, None)])  # fmt: skip
        sessions = {runtime: of(runtime, model) for runtime in BOTH}
        feed = {"a": numpy.ones(3, numpy.float32), "b": numpy.ones(5, numpy.float32)}
        self.alike(lambda runtime: sessions[runtime].run(None, feed))

    def test_a_rank_that_only_the_call_tells(self):
        model = model_of([node("Relu", ["x"], ["y"])], [value("x", FLOAT, None)], [value("y", FLOAT, None)])
        sessions = {runtime: of(runtime, model) for runtime in BOTH}
        for shape in ((2, 3), (4,), (), (2, 3)):
            self.alike(lambda runtime: sessions[runtime].run(None, {"x": numpy.full(shape, -1, numpy.float32)}), shape)

    def test_a_shape_whose_rank_is_a_value(self):
        model = model_of([node("Reshape", ["x", "s"], ["y"])], [value("x", FLOAT, ["N"]), value("s", INT, [None])],
                         [value("y", FLOAT, None)])  # fmt: skip
        sessions = {runtime: of(runtime, model) for runtime in BOTH}
        x = numpy.arange(6, dtype=numpy.float32)
        for s in ([2, 3], [6], [3, 2, 1], [-1, 2], [4, 2]):
            self.alike(lambda runtime: sessions[runtime].run(None, {"x": x, "s": numpy.array(s)}), s)


class Loading(Both):
    def test_models_that_are_refused(self):
        def one(op="Relu", kind=FLOAT, inputs=("x",), opset=17, **attributes):
            return model_of([node(op, list(inputs), ["y"], **attributes)], [value("x", kind, [2, 3])],
                            [value("y", kind, [2, 3])], opset=opset)  # fmt: skip

        models = [one("Nope"), one(inputs=("q",)), one(kind=BOOL), one("MatMul", inputs=("x", "x")), one(alpha=1),
                  one(opset=99)]  # fmt: skip
        for i, model in enumerate(models):
            self.assertIsInstance(self.alike(lambda runtime: of(runtime, model)), Raised, i)

    def test_sources_that_are_refused(self):
        sources = [
            os.path.join(self.folder, "there_is_none.onnx"), self.saved(b"abcdef", "bad.onnx"), self.saved(b"", "empty.onnx"),
            self.folder, b"abcdef", b"", 3, None, ["x"],
        ]  # fmt: skip
        for source in sources:
            self.assertIsInstance(self.alike(lambda runtime: of(runtime, source)), Raised, source)
        self.assertIsInstance(self.alike(lambda runtime: runtime.InferenceSession(affine().SerializeToString(), "x")), Raised)

    def test_paths(self):
        import pathlib

        path = self.saved(affine())
        for source in (path, pathlib.Path(path)):
            self.alike(lambda runtime: runtime.InferenceSession(source).run(None, {"x": X}))

    def test_providers(self):
        source = affine().SerializeToString()
        cases = [
            dict(providers=["CPUExecutionProvider"]), dict(providers=["CUDAExecutionProvider"]),
            dict(providers=["CUDAExecutionProvider", "CPUExecutionProvider"]), dict(providers=["Foo"]),
            dict(providers=["Foo"], enable_fallback=0), dict(providers=[("CPUExecutionProvider", {"a": 1})]),
            dict(providers=["CPUExecutionProvider"], provider_options=[{"a": 1}]), dict(providers="CPUExecutionProvider"),
            dict(providers=["CPUExecutionProvider"] * 2), dict(providers={"CPUExecutionProvider"}, enable_fallback=0),
            dict(providers=[3], enable_fallback=0), dict(providers=["A"], provider_options=[], enable_fallback=0),
            dict(providers=["CPUExecutionProvider"], provider_options=[3], enable_fallback=0),
        ]  # fmt: skip
        for case in cases:
            self.alike(lambda runtime: runtime.InferenceSession(source, None, **case).get_providers(), case)
        with self.assertWarnsRegex(UserWarning, "Specified provider 'CUDAExecutionProvider' is not in available"):
            fettle.onnxruntime.InferenceSession(source, providers=["CUDAExecutionProvider"])
        session = fettle.onnxruntime.InferenceSession(source)
        self.assertEqual(session.get_providers(), ["FettleExecutionProvider", "CPUExecutionProvider"])
        session.set_providers([("FettleExecutionProvider", {"a": 1})])
        self.assertEqual(session.get_provider_options(), {"FettleExecutionProvider": {"a": "1"}, "CPUExecutionProvider": {}})

    def test_initializers_that_are_given(self):
        model = affine()
        del model.graph.input[1]
        source, given = model.SerializeToString(), numpy.float32([7, 8, 9])
        for name in ("w", "there is none"):

            def made(runtime):
                options, held = runtime.SessionOptions(), runtime.OrtValue.ortvalue_from_numpy(given)
                options.add_initializer(name, held)
                return of(runtime, source, options=options).run(None, {"x": X})

            self.alike(made, name)
        self.alike(lambda runtime: runtime.SessionOptions().add_initializer("w", given))

    def external(self):
        model, w = affine(), numpy.float32([4, 5, 6])
        del model.graph.input[1]
        onnx.external_data_helper.set_external_data(model.graph.initializer[0], "w.bin", 0, 12)
        model.graph.initializer[0].ClearField("raw_data")
        return model.SerializeToString(), w

    def test_external_data(self):
        source, w = self.external()
        self.saved(w.tobytes(), "w.bin")
        path = self.saved(source)
        self.alike(lambda runtime: of(runtime, path).run(None, {"x": X}))

        def by_value(runtime, name="w"):
            options, held = runtime.SessionOptions(), runtime.OrtValue.ortvalue_from_numpy(w)
            options.add_external_initializers([name], [held])
            return of(runtime, source, options=options).run(None, {"x": X})

        def by_file(runtime):
            options, held = runtime.SessionOptions(), w.tobytes()
            options.add_external_initializers_from_files_in_memory(["w.bin"], [held], [12])
            return of(runtime, source, options=options).run(None, {"x": X})

        def fixed(runtime):
            options = runtime.SessionOptions()
            options.add_free_dimension_override_by_name("N", 2)
            return of(runtime, path, options=options).run(None, {"x": X})

        def by_folder(runtime):
            options = runtime.SessionOptions()
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", self.folder)
            return of(runtime, source, options=options).run(None, {"x": X})

        for work in (by_value, by_file, fixed, by_folder):
            self.alike(work, work.__name__)
        self.assertIsInstance(self.alike(lambda runtime: by_value(runtime, "nope")), Raised)
        os.remove(os.path.join(self.folder, "w.bin"))
        self.assertIsInstance(self.alike(lambda runtime: of(runtime, path)), Raised)

    def test_a_load_that_is_cancelled(self):
        def cancelled(runtime):
            options = runtime.SessionOptions()
            options.set_load_cancellation_flag(True)
            return of(runtime, affine(), options=options)

        self.assertIsInstance(self.alike(cancelled), Raised)

    def test_what_is_refused_by_name(self):
        options = fettle.onnxruntime.SessionOptions()
        with self.assertRaisesRegex(fettle.onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented, "fettle.operator"):
            options.register_custom_ops_library("libcustom.so")
        options.optimized_model_filepath = "optimized.onnx"
        with self.assertRaisesRegex(fettle.onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented, "fettle compile"):
            of(fettle.onnxruntime, affine(), options=options)
        with self.assertRaisesRegex(fettle.onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented, "own format"):
            of(fettle.onnxruntime, self.saved(b"abcd", "model.ort"))


class Runs(Both):
    def test_eight_threads(self):
        session = of(fettle.onnxruntime, affine())
        feeds = [numpy.full((1 + i % 7, 3), i, numpy.float32) for i in range(400)]
        serial = [session.run(None, {"x": x}) for x in feeds]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for made, wanted in zip(pool.map(lambda x: session.run(None, {"x": x}), feeds), serial):
                for one, other in zip(made, wanted):
                    numpy.testing.assert_array_equal(one, other)

    def test_results_are_the_callers(self):
        session = of(fettle.onnxruntime, affine())
        first, _ = session.run(None, {"x": X})
        kept = first.copy()
        session.run(None, {"x": X * 3})
        numpy.testing.assert_array_equal(first, kept)
        first += 1

    def test_sessions_of_other_threads(self):
        made = []
        thread = threading.Thread(target=lambda: made.append(outcome(
            lambda: of(fettle.onnxruntime, affine()).run(None, {"x": X})
        )))  # fmt: skip
        thread.start()
        thread.join()
        self.same(made[0], of(BOTH[0], affine()).run(None, {"x": X}))

    def test_sessions_that_threads_make_at_once(self):
        wanted = of(BOTH[0], affine()).run(None, {"x": X})
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for made in pool.map(lambda _: of(fettle.onnxruntime, affine()).run(None, {"x": X}), range(12)):
                self.same(made, wanted)

    def test_options_of_a_run(self):
        sessions = {runtime: of(runtime, affine()) for runtime in BOTH}
        self.alike(lambda runtime: sessions[runtime].run(None, {"x": X}, runtime.RunOptions()))
        self.alike(lambda runtime: sessions[runtime].run(None, {"x": X}, {}))

        def terminated(runtime):
            options = runtime.RunOptions()
            options.terminate = True
            return sessions[runtime].run(None, {"x": X}, options)

        self.assertIsInstance(self.alike(terminated), Raised)

    def test_a_run_that_is_terminated(self):
        # A loop that would take very long.
        body = helper.make_graph(
            [node("Identity", ["c"], ["c1"]), node("MatMul", ["a", "b"], ["a1"])], "body",
            [value("i", INT, []), value("c", BOOL, []), value("a", FLOAT, [200, 200])],
            [value("c1", BOOL, []), value("a1", FLOAT, [200, 200])],
        )  # fmt: skip
        model = model_of([node("Loop", ["n", "", "x"], ["y"], body=body)],
                         [value("n", INT, []), value("x", FLOAT, [200, 200]), value("b", FLOAT, [200, 200])],
                         [value("y", FLOAT, [200, 200])])  # fmt: skip
        session = of(fettle.onnxruntime, model)
        options = fettle.onnxruntime.RunOptions()
        one = numpy.eye(200, dtype=numpy.float32)
        timer = threading.Timer(0.3, lambda: setattr(options, "terminate", True))
        timer.start()
        with self.assertRaisesRegex(fettle.onnxruntime.capi.onnxruntime_pybind11_state.Fail, "terminate flag"):
            session.run(None, {"n": numpy.array(2**62), "x": one, "b": one}, options)
        timer.join()
        options.terminate = False
        self.same(session.run(None, {"n": numpy.array(3), "x": one, "b": one}, options), [one])

    def test_runs_in_the_background(self):
        for runtime in BOTH:
            options = runtime.SessionOptions()
            options.intra_op_num_threads = 2
            session = of(runtime, affine(), options=options)
            done, said = threading.Event(), []

            def callback(results, user_data, error):
                said.append((results, user_data, error))
                done.set()

            session.run_async(["y"], {"x": X}, callback, "mine")
            self.assertTrue(done.wait(60))
            (results, user_data, error) = said.pop()
            self.same([results, user_data, error], [session.run(["y"], {"x": X}), "mine", ""])
            done.clear()
            session.run_async(None, {"x": X[:, :2].copy()}, callback, None)
            self.assertTrue(done.wait(60))
            self.assertRegex(said[0][2], "^Got invalid dimensions for input: x")
            with self.assertRaises(ValueError):
                session.run_async(None, {}, callback, None)

        def alone(runtime):
            options = runtime.SessionOptions()
            options.intra_op_num_threads = 1
            return of(runtime, affine(), options=options).run_async(None, {"x": X}, print, None)

        self.assertIsInstance(self.alike(alone), Raised)

    def test_threads(self):
        for threads in (1, 2):
            options = fettle.onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self.same(of(fettle.onnxruntime, affine(), options=options).run(None, {"x": X}),
                      of(BOTH[0], affine()).run(None, {"x": X}))  # fmt: skip

    def test_a_profile(self):
        for runtime in BOTH:
            options = runtime.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(self.folder, runtime.__name__)
            session = of(runtime, affine(), options=options)
            for _ in range(3):
                session.run(None, {"x": X})
            self.assertGreater(session.get_profiling_start_time_ns(), 0)
            path = session.end_profiling()
            self.assertTrue(path.startswith(options.profile_file_prefix) and path.endswith(".json"), path)
            with open(path) as file:
                events = json.load(file)
            for event in events:
                self.assertEqual(set(event), {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"})
            self.assertEqual(sum(event["name"] == "model_run" for event in events), 3)
            kernels = [event for event in events if event["cat"] == "Node" and event["name"].endswith("_kernel_time")]
            self.assertGreaterEqual(len(kernels), 3)
            self.assertTrue(all("op_name" in event["args"] and "provider" in event["args"] for event in kernels))


class Libraries(Both):
    def compiled(self, model):
        """A session of the library that the command makes of it."""
        command = os.path.join(os.path.dirname(os.environ["FETTLE_WORKER"]), "fettle")
        if not os.path.exists(command):
            self.skipTest("the command is not built")
        library = os.path.join(self.folder, "model.so")
        subprocess.run([command, "compile", self.saved(model), "-o", library], check=True, capture_output=True)
        return fettle.onnxruntime.InferenceSession(library)

    def test_a_compiled_library(self):
        session = self.compiled(affine())
        self.assertEqual(texts(session.get_inputs()), ["NodeArg(name='x', type='tensor(float)', shape=['N', 3])"])
        self.same(session.run(None, {"x": X}), of(BOTH[0], affine()).run(None, {"x": X}))
        self.assertEqual(session.get_modelmeta().graph_name, "model")
        self.assertIsInstance(outcome(lambda: session.run(None, {"x": X[:, :2].copy()})), Raised)

    def test_a_compiled_library_with_sequences(self):
        sequence = helper.make_tensor_sequence_value_info
        model = model_of([node("SequenceInsert", ["s", "t"], ["y"]), node("SequenceLength", ["y"], ["n"])],
                         [sequence("s", FLOAT, ["K"]), value("t", FLOAT, [2])],
                         [sequence("y", FLOAT, None), value("n", INT, [])])  # fmt: skip
        session, reference = self.compiled(model), of(BOTH[0], model)
        for made, wanted in ((session.get_inputs(), reference.get_inputs()), (session.get_outputs(), reference.get_outputs())):
            self.assertEqual(texts(made), texts(wanted))
        feed = {"s": [X[0]], "t": X[0, :2].copy()}
        self.same(session.run(None, feed), reference.run(None, feed))


if __name__ == "__main__":
    unittest.main()
