#!/usr/bin/env python3
"""What check_recipes.py refuses before it builds anything."""

import pathlib
import tempfile
import unittest

from check_recipes import Failure, Recipe, edited, row_patterns, whose

README = """
| to add | new files | lines elsewhere | what is written |
| --- | --- | --- | --- |
| a rule | `src/rules/NAME.cpp` | its place in `src/space.cpp`; `docs/rules/` | a `NAME_def` |
"""
HEADER = "/// a\nResult<> a(Graph& graph);\n\n/// b\nResult<> b(Graph& graph);\n"


class Recipes(unittest.TestCase):
    def made(self, new=(), lines="", commands=""):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(lambda: __import__("shutil").rmtree(folder))
        (folder / "recipe.toml").write_text(f'adds = "a rule"\nbuild = []\ncheck = []\n{lines}')
        for path in new:
            (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / path).write_text("int x;\n")
        return Recipe(folder)

    def follow(self, files, **recipe):
        made = self.made(**recipe)
        made.apply(files)
        made.check_against(README)
        return made

    def place(self, file):
        return f'[[line]]\nfile = "{file}"\nafter = "one"\ntext = "two\\n"\n'

    def test_what_the_row_names_is_all_that_is_touched(self):
        files = {"src/space.cpp": b"zero\none\nthree\n"}
        made = self.made(new=["src/rules/small.cpp", "src/rules/small_test.cpp"], lines=self.place("src/space.cpp"))
        made.apply(files)
        made.touched.add("docs/rules/small.md")  # as a command would write it
        made.check_against(README)
        self.assertEqual(files["src/space.cpp"], b"zero\none\ntwo\nthree\n")
        self.assertEqual(files["src/rules/small.cpp"], b"int x;\n")

    def test_a_file_that_the_row_does_not_name(self):
        files = {"src/space.cpp": b"one\n", "src/list.cpp": b"one\n"}
        with self.assertRaisesRegex(Failure, "src/list.cpp, which README.md does not name"):
            self.follow(files, new=["src/rules/small.cpp"], lines=self.place("src/space.cpp") + self.place("src/list.cpp"))

    def test_a_file_that_the_row_names_in_vain(self):
        with self.assertRaisesRegex(Failure, "names src/space.cpp.* nothing was to do there"):
            self.follow({}, new=["src/rules/small.cpp"])

    def test_no_row(self):
        with self.assertRaisesRegex(Failure, "no row for a wheel"):
            row_patterns(README, "a wheel")

    def test_a_file_that_is_there_already(self):
        with self.assertRaisesRegex(Failure, "small.cpp is there already"):
            self.follow({"src/rules/small.cpp": b""}, new=["src/rules/small.cpp"])

    def test_anchors_stand_once(self):
        for text, times in (("", 0), ("one one\n", 2)):
            with self.assertRaisesRegex(Failure, f"{times} times: one"):
                edited(text, {"file": "a.cpp", "after": "one", "text": ""})

    def test_edits(self):
        edit = lambda **how: edited("a = 1\nb = 2\n", {"file": "a.cpp", **how})
        self.assertEqual(edit(before="b =", text="c\n"), "a = 1\nc\nb = 2\n")
        self.assertEqual(edit(after="b =", text="c\n"), "a = 1\nb = 2\nc\n")
        self.assertEqual(edit(instead="1\nb", text="3\nb"), "a = 3\nb = 2\n")
        self.assertEqual(edit(increment="b = "), "a = 1\nb = 3\n")

    def test_headers_gain_declarations_only(self):
        said = "/// c: what it does\nResult<> c(Graph& graph, const Stmt& body);\n\n"
        self.assertIn(said, edited(HEADER, {"file": "a.h", "before": "/// b", "text": said}))
        for more in ("struct S { int x; };\n", "inline int c(int x) { return x; }\n", "inline int c = 1;\n", "#define c\n"):
            with self.assertRaisesRegex(Failure, "more than declarations"):
                edited(HEADER, {"file": "a.h", "before": "/// b", "text": more})

    def test_lists_that_are_included_grow_at_their_end(self):
        list_of_codes = "CODE(1)\nCODE(2)\n"
        self.assertTrue(edited(list_of_codes, {"file": "a.inc", "after": "CODE(2)", "text": "CODE(3)\n"}))
        with self.assertRaisesRegex(Failure, "only its end may grow"):
            edited(list_of_codes, {"file": "a.inc", "after": "CODE(1)", "text": "CODE(3)\n"})

    def test_a_broken_build_is_told_of_the_recipe_that_broke_it(self):
        recipes = []
        for name in ("small", "large"):
            recipe = self.made(new=[f"src/rules/{name}.cpp"])
            recipe.name, recipe.touched = name, set(recipe.new)
            recipes.append(recipe)
        said = "[1/2] Building rules/small.cpp.o\nFAILED: x/rules/large.cpp.o\nerror"
        self.assertEqual(whose(said, recipes), "large")
        self.assertEqual(whose("ld: no memory", recipes), "all recipes together")


if __name__ == "__main__":
    unittest.main()
