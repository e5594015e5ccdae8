"""pyproject.toml agrees with the tree, and a wheel in dist/, where there is one, holds what it should."""

import configparser
import pathlib
import re
import tomllib
import unittest
import zipfile

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = re.search(r"project\(fettle VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def pins(file):
    return set(re.findall(r"^([\w-]+==[\w.]+)$", (ROOT / file).read_text(), re.MULTILINE))


class Metadata(unittest.TestCase):
    def test_the_version_is_cmakes(self):
        provider = PROJECT["tool"]["scikit-build"]["metadata"]["version"]
        self.assertEqual(re.search(provider["regex"], (ROOT / provider["input"]).read_text()).group("value"), VERSION)

    def test_what_it_is_built_with_is_pinned_once(self):
        requires = set(PROJECT["build-system"]["requires"])
        self.assertEqual(requires - pins("scripts/requirements-wheel.txt"), set())
        for pin in requires | pins("scripts/requirements-wheel.txt"):
            name = pin.split("==")[0]
            others = {p for p in pins("scripts/requirements.txt") if p.split("==")[0] == name}
            self.assertLessEqual(others, {pin})

    def test_files_that_it_names_exist(self):
        for file in [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]]:
            self.assertTrue((ROOT / file).exists(), file)
        for folder in PROJECT["tool"]["scikit-build"]["wheel"]["packages"]:
            self.assertTrue((ROOT / folder / "__init__.py").exists(), folder)


    def test_a_source_distribution_has_what_its_build_reads(self):
        """Of the folders that are left out of it."""
        rules = PROJECT["tool"]["scikit-build"]["sdist"]
        left_out = "|".join(folder.strip("/") for folder in rules["exclude"])
        lists = [*ROOT.glob("cmake/*.cmake"), *ROOT.glob("src/*/CMakeLists.txt"), ROOT / "python/CMakeLists.txt"]
        read = set()
        for file in lists:
            text = file.read_text().split("if(NOT FETTLE_TESTS)\n  return()")[0]
            read.update(re.findall(rf"\$\{{CMAKE_SOURCE_DIR\}}(/(?:{left_out})/[^\s)]+)", text))
        self.assertIn("/docs/puzzles/[0-9]*.md", read)
        self.assertEqual(read - set(rules["include"]), set())


class Wheel(unittest.TestCase):
    def setUp(self):
        wheels = sorted(ROOT.glob(f"dist/fettle-{VERSION}-*.whl"))
        newest = max(p.stat().st_mtime for folder in ("cmake", "python", "scripts") for p in (ROOT / folder).rglob("*"))
        if not wheels or wheels[-1].stat().st_mtime < newest:
            self.skipTest("no wheel in dist/ that is as new as the sources; make wheel writes it")
        self.wheel = zipfile.ZipFile(wheels[-1])

    def test_contents(self):
        names = self.wheel.namelist()
        info = f"fettle-{VERSION}.dist-info"
        for name in ["fettle/__init__.py", "fettle/py.typed", "fettle/_primitives.py", "fettle/_fettle/__init__.pyi",
                     "fettle/bin/fettle", "fettle/bin/fettle-worker", "fettle/lib/libfettle.so", "fettle/fettle_pjrt.so",
                     "fettle/share/fettle/model_peers.py",
                     f"fettle-{VERSION}.data/scripts/fettle", f"{info}/licenses/LICENSE", f"{info}/licenses/llvm-19-dev.txt"]:
            self.assertIn(name, names)
        self.assertTrue(any(re.fullmatch(r"fettle/_fettle\.[\w-]+\.so", name) for name in names))
        # A folder of the sources that the wheel forgets would be missed by whoever imports it.
        sources = {str(p.relative_to(ROOT / "python")) for p in (ROOT / "python/fettle").rglob("*.py")}
        self.assertEqual(sources - set(names), set())

    def test_entry_points(self):
        written = configparser.ConfigParser()
        written.read_string(self.wheel.read(f"fettle-{VERSION}.dist-info/entry_points.txt").decode())
        self.assertEqual({group: dict(written[group]) for group in written.sections()}, PROJECT["project"]["entry-points"])

    def test_size(self):
        """Indexes of packages take no more than 100 MB without being asked."""
        self.assertLess(sum(entry.compress_size for entry in self.wheel.infolist()), 90e6)

    def test_every_library_has_its_licence(self):
        texts = " ".join(name for name in self.wheel.namelist() if "/licenses/" in name)
        for name in self.wheel.namelist():
            library = re.match(r"fettle\.libs/lib([a-z0-9_+]+)", name)
            if library:
                self.assertRegex(texts, "libabsl" if library[1].startswith("absl") else f"lib{re.escape(library[1])}", name)


if __name__ == "__main__":
    unittest.main()
