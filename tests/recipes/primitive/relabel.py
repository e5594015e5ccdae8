"""The new primitive from Python, and its page."""

import pathlib

import fettle

s = fettle.Schedule(fettle.parse(pathlib.Path("tests/recipes/primitive/copy.txt").read_text()))
row, column = s.get_loops(s["B"])
s.relabel(row, "row")
assert [s.loop_name(loop) for loop in s.get_loops(s["B"])] == ["row", "j"]
assert "another name" in fettle.Schedule.relabel.__doc__
assert "another name" in pathlib.Path("docs/schedule/relabel.md").read_text()
