"""The page docs/jax.md: its code runs, in order, and prints what it says (python/tests/test_pages.py)."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python" / "tests"))

if __name__ == "__main__":
    unittest.main(module="test_pages", argv=[sys.argv[0], "Pages.test_jax"])
