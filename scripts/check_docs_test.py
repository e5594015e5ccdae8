#!/usr/bin/env python3
"""Tests of how check_docs.py counts sentences."""

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


if __name__ == "__main__":
    unittest.main()
