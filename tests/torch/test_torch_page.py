"""The page docs/torch.md: its code runs, in order, and prints what it says."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "tests"))

import test_pages  # noqa: E402


class Torch(test_pages.Pages):
    test_modes = test_python = None

    def test_torch(self):
        self.check("torch.md")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "Torch"])
