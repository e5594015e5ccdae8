#!/usr/bin/env python3
"""Tests of check_duplicates.py."""

import pathlib
import tempfile
import unittest

import check_duplicates

SHARED = "".join(f"  const int64_t some_name_{i} = first_{i} + second_{i};\n" for i in range(6))


class Duplicates(unittest.TestCase):
    def check(self, files, allowed=""):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "src").mkdir()
            (root / "scripts").mkdir()
            (root / check_duplicates.ALLOWED).write_text(allowed)
            for file, text in files.items():
                (root / "src" / file).write_text(text)
            return check_duplicates.check(root)[0]

    def test_six_lines_are_found_whatever_lies_between(self):
        other = SHARED.replace("\n", "\n\n  // a comment\n  }\n", 3).replace("  const", "\tconst")
        found = self.check({"a.cpp": "int a;\n" + SHARED, "b.cpp": other})
        self.assertEqual(found[0], "src/a.cpp ~ src/b.cpp: 6: shared lines")
        self.assertIn("src/a.cpp:2-7", found[1])

    def test_in_one_file(self):
        self.assertIn("src/a.cpp ~ src/a.cpp: 6", self.check({"a.cpp": SHARED + "int between;\n" + SHARED})[0])

    def test_five_lines_short_ones_and_others_are_not(self):
        five = SHARED.rsplit("\n", 2)[0] + "\n"
        self.assertEqual(self.check({"a.cpp": five, "b.cpp": five}), [])
        short = "".join(f"f({i});\n" for i in range(12))
        self.assertEqual(self.check({"a.cpp": short, "b.cpp": short}), [])
        self.assertEqual(self.check({"a.cpp": SHARED, "b.cpp": SHARED.replace("name", "other")}), [])

    def test_what_is_allowed(self):
        files = {"a.cpp": SHARED, "b.cpp": SHARED}
        self.assertEqual(self.check(files, "# a comment\nsrc/a.cpp ~ src/b.cpp: 6: for a reason\n"), [])
        self.assertTrue(self.check(files, "src/a.cpp ~ src/b.cpp: 5: for a reason\n"))
        self.assertIn("not of the form", self.check({}, "src/a.cpp ~ src/b.cpp: 6\n")[0])
        self.assertIn("nothing any more", self.check({}, "src/a.cpp ~ src/b.cpp: 6: once\n")[0])


if __name__ == "__main__":
    unittest.main()
