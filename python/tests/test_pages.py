"""The pages that show Python: their code runs, in order, and prints what they say.

FETTLE_UPDATE_GOLDEN=1 writes what was printed into the pages.
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OPTIONAL = ("torch", "jax", "sklearn", "xgboost", "lightgbm")  # what pages import that is not everywhere
BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n<!-- output -->\n```\n(.*?)^```\n)?", re.M | re.S)


def run_page(path):
    """The page with what its code prints."""
    text = path.read_text()
    names = {"__name__": "page"}
    made, at = [], 0
    for block in BLOCK.finditer(text):
        printed = io.StringIO()
        line = text[:block.start()].count("\n") + 1
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block.group(1), str(path), "exec"), names)
        said = printed.getvalue().rstrip("\n") + "\n"
        made.append(text[at:block.start()])
        made.append(f"```python\n{block.group(1)}```\n")
        if block.group(2):
            made.append(f"\n<!-- output -->\n```\n{said}```\n")
        elif said.strip():
            raise AssertionError(f"{path.name}, line {line} prints what the page does not show:\n{said}")
        at = block.end()
    return "".join(made) + text[at:]


class Pages(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        path = ROOT / "docs" / name
        for module in OPTIONAL:
            if re.search(rf"^import {module}\b", path.read_text(), re.M) and not importlib.util.find_spec(module):
                self.skipTest(f"there is no {module} here")
        made = run_page(path)
        if os.environ.get("FETTLE_UPDATE_GOLDEN") == "1":
            path.write_text(made)
        self.assertEqual(path.read_text(), made)


for page in sorted((ROOT / "docs").glob("*.md")):
    if BLOCK.search(page.read_text()):
        setattr(Pages, f"test_{page.stem.replace('-', '_')}", lambda self, name=page.name: self.check(name))


if __name__ == "__main__":
    unittest.main()
