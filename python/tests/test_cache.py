"""Compiled models that are kept: what is used again, and what is not."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import fettle


def model_with(weight, path, external=False):
    """y = x * weight, of 3."""
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
    w = numpy_helper.from_array(numpy.full(3, weight, "float32"), "w")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [value("x")], [value("y")], [w])
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(proto, path, save_as_external_data=external, size_threshold=0, location="w.bin")
    return path


# A stamp that is younger than this is not relied on.
SETTLED = 2.1
ONES = numpy.ones(3, "float32")


class Caches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"
        before = {name: os.environ.get(name) for name in ("FETTLE_CACHE", "FETTLE_CACHE_BYTES")}
        self.addCleanup(lambda: [os.environ.pop(n, None) if v is None else os.environ.update({n: v}) for n, v in before.items()])
        os.environ["FETTLE_CACHE"] = str(self.cache)
        os.environ.pop("FETTLE_CACHE_BYTES", None)
        self.path = model_with(2, self.folder / "model.onnx")

    def kept(self):
        return sorted((self.cache / "models").glob("*.so"))

    def run_model(self, source=None, wanted=2, **options):
        made = fettle.compile(source or self.path, threads=1, **options)(ONES)
        self.assertEqual(made.tolist(), [wanted] * 3)

    def stamps(self):
        return {path: (path.stat().st_ino, path.stat().st_size) for path in self.kept()}

    def test_a_model_is_compiled_once(self):
        self.run_model()
        before = self.stamps()
        self.assertEqual(len(before), 1)
        self.assertTrue(next(iter(before)).name.startswith("model-"))
        data = self.path.read_bytes()
        self.run_model()
        self.assertEqual(self.stamps(), before)
        copy = self.folder / "model" / "model.onnx"
        copy.parent.mkdir()
        copy.write_bytes(data)
        self.run_model(copy)  # the same content
        self.assertEqual(self.stamps(), before)
        for mode in self.cache, self.cache / "models":
            self.assertEqual(stat.S_IMODE(mode.stat().st_mode), 0o700)
        self.assertEqual({path.suffix for path in (self.cache / "models").iterdir()}, {".so"})

    def test_whatever_changes_the_code_is_another_model(self):
        self.run_model()
        for options in {"shapes": {"x": [3]}}, {"without": ["simplify"]}:
            before = len(self.kept())
            self.run_model(**options)
            self.run_model(**options)
            self.assertEqual(len(self.kept()), before + 1, options)
        fettle.compile(self.path, threads=2)(ONES)
        self.assertEqual(len(self.kept()), before + 2)

    def test_a_file_that_changed(self):
        time.sleep(SETTLED)
        self.run_model()
        self.run_model()
        self.assertEqual(len(list((self.cache / "models").glob("*.note"))), 1)
        size = self.path.stat()
        model_with(3, self.path)
        os.utime(self.path, ns=(size.st_atime_ns, size.st_mtime_ns))  # as if nothing had been
        self.assertEqual(self.path.stat().st_size, size.st_size)
        self.run_model(wanted=3)
        for weight in 4, 5, 6:  # within one tick of the clock, maybe
            model_with(weight, self.path)
            self.run_model(wanted=weight)

    def test_external_data_that_changed(self):
        folder = self.folder / "external"
        folder.mkdir()
        path = model_with(2, folder / "model.onnx", external=True)
        time.sleep(SETTLED)
        self.run_model(path)
        self.run_model(path)
        model = path.read_bytes()
        (folder / "w.bin").write_bytes(numpy.full(3, 7, "<f4").tobytes())
        self.assertEqual(path.read_bytes(), model)
        self.run_model(path, wanted=7)
        self.run_model(model, wanted=7, folder=folder)

    def test_graphs_and_bytes(self):
        def graph(weight):
            g = fettle.Graph("small")
            g.output("y", g.input("x", "float32", [3]) * numpy.full(3, weight, "float32"))
            return g

        self.run_model(graph(2))
        before = self.stamps()
        fettle.Graph().constant(1.0)  # others take numbers, too
        self.run_model(graph(2))
        self.assertEqual(self.stamps(), before)
        self.run_model(graph(3), wanted=3)
        self.assertEqual(len(self.kept()), 2)
        for _ in range(2):
            self.run_model(self.path.read_bytes())
        self.assertEqual(len(self.kept()), 3)

    def test_functions_of_a_file(self):
        path = self.folder / "f.tc"
        text = "def {}(float(N) x) -> (y) {{ y(i) = {} * x(i) }} "
        path.write_text(text.format("twice", 2) + text.format("more", 3))
        for _ in range(2):
            self.run_model(path, function="twice")
            self.run_model(path, wanted=3, function="more")
        self.assertEqual(len(self.kept()), 2)
        self.assertEqual({file.name.rsplit("-", 1)[0] for file in self.kept()}, {"f-twice", "f-more"})

    def test_what_is_damaged_is_compiled_anew(self):
        self.run_model()
        (file,) = self.kept()
        whole = file.read_bytes()
        middle = len(whole) // 2
        for damaged in b"", whole[:100], whole[:-1], whole[:middle] + b"!" + whole[middle + 1 :], b"x" * len(whole):
            file.unlink()
            file.write_bytes(damaged)
            self.run_model()
            self.assertEqual(len(file.read_bytes()), len(whole))
        note = self.cache / "models" / "broken.note"
        note.write_bytes(b"\xff")
        self.run_model()

    def test_it_has_a_limit(self):
        self.run_model()
        (first,) = self.kept()
        os.environ["FETTLE_CACHE_BYTES"] = str(first.stat().st_size * 5 // 2)
        others = [model_with(weight, self.folder / f"other{weight}.onnx") for weight in (3, 4)]
        os.utime(first, (1, 1))
        self.run_model(others[0], 3)
        self.assertEqual(len(self.kept()), 2)
        os.utime(first, (1, 1))
        self.run_model()  # it was used last
        self.assertGreater(first.stat().st_mtime, 1)
        (second,) = set(self.kept()) - {first}
        os.utime(second, (2, 2))
        self.run_model(others[1], 4)
        self.assertIn(first, self.kept())
        self.assertNotIn(second, self.kept())
        os.environ["FETTLE_CACHE_BYTES"] = "0"
        self.run_model(self.path, 2, without=["simplify"])
        self.assertEqual(self.kept(), [])

    def test_others_folders_are_not_trusted(self):
        self.run_model()
        for folder, mode in (self.cache / "models", 0o777), (self.cache, 0o770):
            folder.chmod(mode)
            with self.assertWarnsRegex(RuntimeWarning, "others may write to the cache"):
                self.run_model()
            folder.chmod(0o700)
        link = self.folder / "link"
        link.mkdir()
        (link / "models").symlink_to(self.cache / "models")
        os.environ["FETTLE_CACHE"] = str(link)
        with self.assertWarnsRegex(RuntimeWarning, "no folder"):
            self.run_model()
        if os.geteuid() == 0:
            os.environ["FETTLE_CACHE"] = str(self.cache)
            os.chown(self.cache / "models", 12345, 12345)
            with self.assertWarnsRegex(RuntimeWarning, "another user's"):
                self.run_model()

    def test_the_code_does_not_depend_on_what_was_compiled_before(self):
        # lld takes back LLVM's options when it links; kernels spilled registers from a process's second model on.
        product = """
import sys, numpy, fettle
if sys.argv[1] == "second":
    first = fettle.Graph("first")
    first.output("y", first.Relu(first.input("x", "float32", [7])))
    fettle.compile(first, threads=1)
g = fettle.Graph("product")
x = g.input("x", "float32", [197, 384])
g.output("y", g.MatMul(x, numpy.ones((384, 1152), "float32")))
fettle.compile(g, threads=1)
"""
        code = []
        for when in ("first", "second"):
            environment = {**os.environ, "FETTLE_CACHE": str(self.folder / when)}
            subprocess.run([sys.executable, "-c", product, when], env=environment, check=True)
            (made,) = (self.folder / when / "models").glob("product*.so")
            code.append(made.read_bytes())
        self.assertEqual(len(code[0]), len(code[1]))
        differ = sum(a != b for a, b in zip(*code))
        self.assertLess(differ, 64, "all but the stamp and checksum of a library are the same")

    def test_it_is_off(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run_model(cache=False)
            os.environ["FETTLE_CACHE"] = "off"
            self.run_model()
        self.assertFalse(self.cache.exists())

    def test_two_processes_compile_it_once(self):
        """Each says which file it has loaded: where both had compiled, the second's would have taken the first's place."""
        script = """if True:
            import fettle, numpy, os, sys
            model = fettle.compile(sys.argv[1], threads=1)
            assert model(numpy.ones(3, "float32")).tolist() == [2] * 3
            print({line.split()[4] for line in open("/proc/self/maps") if "/models/" in line})"""
        started = [subprocess.Popen([sys.executable, "-c", script, str(self.path)], stdout=subprocess.PIPE, text=True)
                   for _ in range(4)]  # fmt: skip
        said = {process.communicate()[0] for process in started}
        self.assertEqual([process.returncode for process in started], [0] * 4)
        self.assertEqual(said, {f"{{'{self.kept()[0].stat().st_ino}'}}\n"})
        self.assertEqual([path for path in (self.cache / "models").iterdir() if path.suffix not in (".so", ".note")], [])

    def test_operators_of_ones_own_are_no_content_of_a_file(self):
        script = """if True:
            import fettle, numpy, sys
            from fettle import te
            factor = float(sys.argv[1])
            fettle.operator("com.example.Scaled", pointwise=True)(lambda x: te.compute(x.shape, lambda *i: x[i] * factor))
            g = fettle.Graph()
            g.output("y", g.node("Scaled", [g.input("x", "float32", [3])], domain="com.example"))
            print(fettle.compile(g)(numpy.ones(3, "float32")).tolist())"""
        for factor in "2", "3":
            said = subprocess.run([sys.executable, "-c", script, factor], capture_output=True, text=True, check=True)
            self.assertEqual(said.stdout, f"{[float(factor)] * 3}\n")


if __name__ == "__main__":
    unittest.main()
