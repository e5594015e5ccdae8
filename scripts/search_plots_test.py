#!/usr/bin/env python3
"""search_plots.py draws what is there: a line a mode, a band where there are several seeds, and nothing for what was not run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).with_name("search_plots.py")
SVG = "{http://www.w3.org/2000/svg}"


def curve(*improvements, trials, seconds):
    return {"trials": trials, "seconds": seconds, "improvements": [list(point) for point in improvements]}


TASKS = [
    {
        "task": "one",
        "modes": {
            "fettle": [curve((1, 0.1, 2e-3), (8, 0.4, 1e-3), trials=64, seconds=2.0)],
            "random": [
                curve((1, 0.1, 4e-3), (20, 0.9, 1.5e-3), trials=64, seconds=2.0),
                curve((1, 0.1, 3e-3), (9, 0.5, 1.2e-3), trials=64, seconds=2.1),
            ],
        },
        "tvm": [[64, 3e-3], [256, 1.1e-3]],
    },
    {"task": "never run", "modes": {}},
]


def drawn(tasks):
    with tempfile.TemporaryDirectory() as folder:
        curves = pathlib.Path(folder) / "curves.json"
        curves.write_text(json.dumps(tasks))
        done = subprocess.run([sys.executable, SCRIPT, curves, pathlib.Path(folder) / "out"], capture_output=True, text=True)
        pages = {p.name: xml.etree.ElementTree.parse(p).getroot() for p in pathlib.Path(folder).glob("out/*.svg")}
        return done, pages


done, pages = drawn(TASKS)
assert done.returncode == 0, done.stderr
assert sorted(pages) == ["seconds.svg", "trials.svg"], pages
texts = {name: [t.text for t in page.iter(SVG + "text")] for name, page in pages.items()}
assert "one" in texts["trials.svg"] and "never run" not in texts["trials.svg"]
assert len(list(pages["trials.svg"].iter(SVG + "polyline"))) == 3, "two modes and the peer"
assert len(list(pages["seconds.svg"].iter(SVG + "polyline"))) == 2, "the peer is drawn against trials alone"
assert len(list(pages["trials.svg"].iter(SVG + "polygon"))) == 1, "one mode has two seeds"
for page in pages.values():
    for line in page.iter(SVG + "polyline"):
        for point in line.get("points").split():
            assert all(float(x) >= 0 for x in point.split(",")), point

done, pages = drawn([TASKS[1]])
assert done.returncode != 0 and "nothing was measured" in done.stderr and not pages
