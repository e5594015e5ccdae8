#!/usr/bin/env python3
"""Tests of how check_docs.py counts sentences and long comments, and finds commands."""

import unittest

import check_docs

LONG = " ".join(f"word{i}" for i in range(31))


def sentences(text):
    return [s for _, block in check_docs.blocks(text) for s in check_docs.END.split(block)]


class Sentences(unittest.TestCase):
    def test_where_they_end(self):
        self.assertEqual(sentences("One is here. Two\nare there! Three?"), ["One is here.", "Two\nare there!".replace("\n", " "), "Three?"])
        self.assertEqual(len(sentences("Some, e.g. One, i.e. Two, take 1.5 ms.")), 1)
        self.assertEqual(len(sentences("See `a.h`. `b.h` is another.")), 2)

    def test_items_and_paragraphs_are_by_themselves(self):
        self.assertEqual(sentences("first\n\nsecond\n- third\n  goes on\n- fourth"), ["first", "second", "third goes on", "fourth"])

    def test_what_does_not_count(self):
        self.assertEqual(sentences(f"# {LONG}\n| {LONG} |\n```\n{LONG}\n```\n<!-- {LONG} -->\n"), [])

    def test_words(self):
        self.assertEqual(check_docs.n_words(LONG), 31)
        self.assertEqual(check_docs.n_words("a `name with blanks` and [two words](docs/a.md) - 5 %"), 6)

    def test_long_comments(self):
        long = "x" * check_docs.MOST_COLUMNS
        code = f'// short\n  /// {long}\nint x;  // {long}\nf("// {long}");\n'
        self.assertEqual([n for n, _ in check_docs.long_comments(code)], [2])
        self.assertEqual(check_docs.long_comments(f"// {long}"[:check_docs.MOST_COLUMNS]), [])
        raw = f'auto a = R"(\n// {long}\n)", b = R"x(\n// {long} )"\n)x";\n// {long}\n'
        self.assertEqual([n for n, _ in check_docs.long_comments(raw)], [6])

    def test_commands_are_run_or_say_why_not(self):
        block = "```\nfettle run model.so\n```\n"
        self.assertEqual(check_docs.unmarked_commands(f"text\n\n{block}"), [3])
        self.assertEqual(check_docs.unmarked_commands(f"<!-- run -->\n{block}\n<!-- not run: it takes hours -->\n{block}"), [])
        self.assertEqual(check_docs.unmarked_commands(f"<!-- not run: -->\n{block}"), [2])
        self.assertEqual(check_docs.unmarked_commands("```\nfettled\n```\n```python\nfettle\n```\n"), [])


if __name__ == "__main__":
    unittest.main()
