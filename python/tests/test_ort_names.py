"""fettle.onnxruntime has every name that ONNX Runtime's package has, or says why not; with the same defaults."""

import pathlib
import subprocess
import sys
import unittest

import onnxruntime
from both_runtimes import BOTH, Both, Raised, affine, of, outcome

import fettle.onnxruntime
from fettle.onnxruntime import _refused

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "onnxruntime.md"
ENUMERATIONS = (
    "GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtAllocatorType", "OrtMemType", "OrtDeviceMemoryType",
    "OrtMemoryInfoDeviceType", "OrtHardwareDeviceType", "OrtSparseFormat", "OrtCompileApiFlags",
    "OrtExecutionProviderDevicePolicy", "OrtDeviceVendorId",
)  # fmt: skip
# Modules that the package imports for itself.
OF_PYTHON = {
    "Any", "C", "Callable", "IntEnum", "Sequence", "annotations", "collections", "contextlib", "import_capi_exception", "np",
    "onnxruntime_validation", "os", "platform", "typing", "warnings", "weakref",
}  # fmt: skip


def names_of(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


class Names(Both):
    def test_names_of_the_package(self):
        self.assertEqual(names_of(onnxruntime) - OF_PYTHON - names_of(fettle.onnxruntime), set())
        for name in _refused.REASONS:
            self.assertTrue(hasattr(onnxruntime, name), name)
        modules = [
            [getattr(runtime.capi, name) for runtime in BOTH]
            for name in ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection")
        ]
        for real, ours in modules:
            self.assertEqual(names_of(real) - OF_PYTHON - names_of(ours), set(), real.__name__)
        for name in _refused.REASONS_OF_CAPI:
            self.assertTrue(any(hasattr(real, name) for real, _ in modules), name)
        state = fettle.onnxruntime.capi.onnxruntime_pybind11_state
        self.assertIsInstance(state.get_default_session_options(), fettle.onnxruntime.SessionOptions)
        self.assertEqual(len(state.get_hardware_devices()), 1)

    def test_names_of_classes(self):
        options = fettle.onnxruntime.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        session = of(fettle.onnxruntime, affine(), options=options)
        part = session.get_provider_graph_assignment_info()[0]
        device = fettle.onnxruntime.get_ep_devices()[0]
        # Fields of a class of C++ are of its class; in Python they are of its objects.
        objects = [
            session, session.io_binding(), session.get_modelmeta(), session.get_inputs()[0], part, part.get_nodes()[0],
            session.get_input_memory_infos()[0], device, device.device, options, fettle.onnxruntime.RunOptions(),
            fettle.onnxruntime.OrtDevice.make("cpu", 0), fettle.onnxruntime.OrtArenaCfg({"max_mem": 3}),
            fettle.onnxruntime.OrtValue.ortvalue_from_shape_and_type([1], "float32"),
            fettle.onnxruntime.capi.onnxruntime_pybind11_state.OrtValueVector(),
        ]  # fmt: skip
        for made in objects:
            name = type(made).__name__
            real = getattr(onnxruntime, name, None) or getattr(onnxruntime.capi.onnxruntime_pybind11_state, name)
            self.assertEqual(names_of(real) - names_of(made), set(), name)

    def test_exceptions(self):
        states = [runtime.capi.onnxruntime_pybind11_state for runtime in BOTH]
        kinds = {name for name in dir(states[0]) if isinstance(getattr(states[0], name), type)
                 and issubclass(getattr(states[0], name), Exception)}  # fmt: skip
        for name in kinds:
            ours = getattr(states[1], name)
            self.assertEqual((ours.__name__, ours.__mro__[1]), (name, Exception))
            self.assertTrue(ours.__module__.endswith("capi.onnxruntime_pybind11_state"), name)
        self.assertIs(fettle.onnxruntime.capi._pybind_state.Fail, states[1].Fail)
        self.assertIs(fettle.onnxruntime.capi.onnxruntime_inference_collection.OrtValue, fettle.onnxruntime.OrtValue)

    def test_enumerations(self):
        for name in ENUMERATIONS:

            def said(runtime):
                members = getattr(runtime, name).__members__
                return {key: int(member) for key, member in sorted(members.items())}

            self.alike(said, name)
        self.alike(lambda runtime: repr(runtime.GraphOptimizationLevel(99)))
        self.alike(lambda runtime: str(runtime.GraphOptimizationLevel.ORT_ENABLE_ALL))
        self.alike(lambda runtime: runtime.ExecutionMode.ORT_PARALLEL.name)

    def test_defaults(self):
        for name in ("SessionOptions", "RunOptions"):

            def said(runtime):
                made = getattr(runtime, name)()
                values = {key: getattr(made, key) for key in sorted(names_of(getattr(onnxruntime, name)))}
                return {k: str(v) for k, v in values.items() if not callable(v) or "." in str(v)[:40] and "<" not in str(v)}

            self.alike(said, name)

    def test_options_have_types(self):
        good = [
            ("intra_op_num_threads", 3), ("inter_op_num_threads", 2), ("enable_profiling", True), ("logid", "name"),
            ("log_severity_level", 3), ("log_verbosity_level", 1), ("enable_cpu_mem_arena", False),
            ("enable_mem_pattern", False), ("enable_mem_reuse", False), ("use_deterministic_compute", True),
            ("use_per_session_threads", False), ("profile_file_prefix", "p"), ("optimized_model_filepath", "o"),
        ]  # fmt: skip
        bad = [
            ("intra_op_num_threads", "a"), ("intra_op_num_threads", None), ("graph_optimization_level", 99),
            ("execution_mode", 0), ("logid", 3), ("nonsense", 3), ("profile_file_prefix", 3),
        ]  # fmt: skip
        for name, given in good + bad:

            def kept(runtime):
                options = runtime.SessionOptions()
                setattr(options, name, given)
                return getattr(options, name)

            self.assertEqual(isinstance(self.alike(kept, name), Raised), (name, given) in bad, (name, given))
        for name, given in (("logid", "a"), ("terminate", True), ("only_execute_path_to_fetches", True),
                            ("log_severity_level", 1), ("log_verbosity_level", 2), ("terminate", "a"), ("nonsense", 1)):

            def kept_of_a_run(runtime):
                options = runtime.RunOptions()
                setattr(options, name, given)
                return getattr(options, name)

            self.alike(kept_of_a_run, (name, given))

    def test_entries(self):
        for kind, add, get in (("SessionOptions", "add_session_config_entry", "get_session_config_entry"),
                               ("RunOptions", "add_run_config_entry", "get_run_config_entry")):

            def entry(runtime, asked="a"):
                options = getattr(runtime, kind)()
                getattr(options, add)("a", "b")
                return getattr(options, get)(asked)

            self.alike(entry)
            self.assertIsInstance(self.alike(lambda runtime: entry(runtime, "there is none")), Raised)
            self.assertIsInstance(self.alike(lambda runtime: getattr(getattr(runtime, kind)(), add)("a", 3)), Raised)

    def test_functions(self):
        works = [
            lambda runtime: runtime.get_device(), lambda runtime: runtime.get_version_string(),
            lambda runtime: runtime.__version__, lambda runtime: runtime.has_collective_ops(),
            lambda runtime: runtime.set_default_logger_severity(3), lambda runtime: runtime.set_default_logger_verbosity(0),
            lambda runtime: runtime.set_seed(7), lambda runtime: runtime.disable_telemetry_events(),
            lambda runtime: runtime.enable_telemetry_events(), lambda runtime: runtime.preload_dlls(),
            lambda runtime: len(runtime.get_ep_devices()), lambda runtime: runtime.SessionOptions().has_providers(),
            lambda runtime: "CPUExecutionProvider" in runtime.get_available_providers(),
            lambda runtime: set(onnxruntime.get_all_providers()) <= set(runtime.get_all_providers()),
        ]  # fmt: skip
        for i, work in enumerate(works):
            self.alike(work, i)
        self.assertIn("fettle", fettle.onnxruntime.get_build_info())
        self.assertEqual(fettle.onnxruntime.get_available_providers(), ["FettleExecutionProvider", "CPUExecutionProvider"])

    def test_packages_that_import_onnx_runtime(self):
        code = (
            "import fettle.onnxruntime; fettle.onnxruntime.install(); import onnxruntime as rt, onnxruntime.capi._pybind_state;"
            "from onnxruntime.capi.onnxruntime_pybind11_state import Fail;"
            "assert rt is fettle.onnxruntime and Fail is rt.capi._pybind_state.Fail;"
            "import sys; assert not any('site-packages/onnxruntime' in str(m) for m in sys.modules.values())"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
        with self.assertRaisesRegex(RuntimeError, "imported before"):
            fettle.onnxruntime.install()

    def test_the_page_says_why_a_name_is_refused(self):
        page = PAGE.read_text()
        state = fettle.onnxruntime.capi.onnxruntime_pybind11_state
        for name, reason in (*_refused.REASONS.items(), *_refused.REASONS_OF_CAPI.items()):
            self.assertIn(f"| `{name}` | {reason} |", page)
            made = outcome(lambda: getattr(state, name)())
            self.assertIsInstance(made, Raised, name)
            self.assertIn("NotImplemented", made.classes)
            self.assertIn(reason, str(made.error))


if __name__ == "__main__":
    unittest.main()
