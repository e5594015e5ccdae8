#!/usr/bin/env python3
"""Tests of unity_groups.py."""

import pathlib
import tempfile
import unittest

import unity_groups


def hidden(*declarations):
    lines = ["namespace fettle {", "namespace {", *declarations, "}  // namespace", "int seen;", "}"]
    return "\n".join(lines)


class UnityGroups(unittest.TestCase):
    def groups(self, *texts):
        """Numbers of the files of each group, by their place in `texts`."""
        with tempfile.TemporaryDirectory() as name:
            files = [pathlib.Path(name) / f"{number}.cpp" for number in range(len(texts))]
            for file, text in zip(files, texts):
                file.write_text(text)
            return [[int(file.stem) for file in group] for group in unity_groups.grouped(files)]

    def test_names_of_a_file_alone(self):
        for declaration, name in (
            ("constexpr const char* kCopy = R\"(", "kCopy"),
            ("std::vector<std::pair<Var, Expr>> loops_of(const Stmt& s, int depth) {", "loops_of"),
            ("class Finder : public Visitor<Finder> {", "Finder"),
            ("enum class Kind { kOne, kTwo };", "Kind"),
            ("using Lanes = std::vector<int>;", "Lanes"),
            ("[[noreturn]] void stop();", "stop"),
            ("template <typename T> T twice(T value) { return value + value; }", "twice"),
            ("const int kSizes[] = {1, 2};", "kSizes"),
        ):
            self.assertEqual(unity_groups.own_names(hidden(declaration)), {name})
        text = "static int count = 0;\n#define LIMIT 3\nint seen();"
        self.assertEqual(unity_groups.own_names(text), {"count", "LIMIT"})
        self.assertIn("kIdle", unity_groups.own_names(hidden("enum State : int { kIdle, kBusy };")))
        text = hidden("using base::walk;", "TEST(A, B) {", "  int inner = 0;", "}")
        self.assertEqual(unity_groups.own_names(text), set())

    def test_files_that_clash_are_apart(self):
        one, other = hidden("bool matches(int a) {"), hidden("bool matches(double b);")
        self.assertEqual(self.groups(one, hidden("int else_where();"), other), [[0, 1], [2]])

    def test_what_all_see_does_not_clash(self):
        self.assertEqual(self.groups("namespace fettle {\nint f() {\n}", "namespace fettle {\nint f(int) {"), [[0, 1]])

    def test_using_directives_keep_to_themselves(self):
        directive = "using namespace llvm;\n"
        self.assertEqual(self.groups(directive, "int f();\n", directive), [[0, 2], [1]])

    def test_groups_have_their_size(self):
        half = "\n" * (unity_groups.LINES // 2)
        self.assertEqual(self.groups(half, half, half, half + "\n\n" + half), [[0, 1], [2], [3]])


if __name__ == "__main__":
    unittest.main()
