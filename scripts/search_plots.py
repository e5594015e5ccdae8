#!/usr/bin/env python3
"""Draws best-so-far against trials and against seconds, from what `make bench-search` left.

usage: search_plots.py [CURVES.json [FOLDER]]     build/bench/search/curves.json, docs/search by default
Writes trials.svg and seconds.svg: one small diagram a task, a line a mode: the median over the seeds, with the spread from the best to the
worst seed where there are several. Speeds are relative to the best that any mode found. The peer is drawn against trials alone.
"""

import json
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLOURS = ["#0b6e4f", "#c8553d", "#2a4d8f", "#8a5a9e", "#b8860b", "#4a4a4a", "#3a9fbf", "#a23b72"]
LOWEST = 0.5  # what is slower is drawn at the edge
WIDTH, HEIGHT, LEFT, TOP, COLUMNS = 250, 150, 34, 26, 4


def best_at(curve, x, axis):
    """The best time at x trials (axis 0) or seconds (axis 1); None before the first."""
    best = None
    for point in curve["improvements"]:
        if point[axis] > x:
            break
        best = point[2]
    return best


def known_times(task):
    """All that any search of the task held at any time, seconds."""
    return [point[2] for curves in task["modes"].values() for curve in curves for point in curve["improvements"]]


def series(curves, best, axis):
    """[(x, median, lowest, highest)] of relative speeds, where all seeds have something."""
    xs = sorted({point[axis] for curve in curves for point in curve["improvements"]})
    ends = [curve["trials"] if axis == 0 else curve["seconds"] for curve in curves]
    xs = [x for x in xs if x <= min(ends)] + [min(ends)]
    rows = []
    for x in xs:
        found = [best_at(curve, x, axis) for curve in curves]
        if all(found):
            speeds = [best / t for t in found]
            rows.append((x, statistics.median(speeds), min(speeds), max(speeds)))
    return rows


def steps(rows, column, x_of, y_of):
    points, last = [], None
    for row in rows:
        if last is not None:
            points.append(f"{x_of(row[0]):.1f},{last:.1f}")
        last = y_of(row[column])
        points.append(f"{x_of(row[0]):.1f},{last:.1f}")
    return points


def diagram(task, axis, modes, origin):
    ox, oy = origin
    known = known_times(task) + [seconds for _, seconds in task.get("tvm", [])]
    if not known:
        return []
    best = min(known)
    lines = {mode: series(curves, best, axis) for mode, curves in task["modes"].items()}
    if axis == 0 and task.get("tvm"):
        lines["tvm"] = [(x, best / s, best / s, best / s) for x, s in task["tvm"]]
    every = [x for rows in lines.values() for x, *_ in rows if x > 0]
    if not every:
        return []
    low, high = math.log(max(min(every), 1 if axis == 0 else 0.05)), math.log(max(max(every), 2))
    width, height = WIDTH - LEFT - 10, HEIGHT - TOP - 24

    def x_of(x):
        return ox + LEFT + width * (math.log(max(x, math.exp(low))) - low) / max(high - low, 1e-9)

    def y_of(speed):
        return oy + TOP + height * (1 - max(speed, LOWEST)) / (1 - LOWEST)

    out = [f'<text x="{ox + LEFT}" y="{oy + 16}" class="title">{task["task"]}</text>']
    for share in (LOWEST, 0.75, 0.95, 1):
        y = y_of(share)
        out.append(f'<line x1="{ox + LEFT}" x2="{ox + LEFT + width}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        if share != 1:
            out.append(f'<text x="{ox + LEFT - 4}" y="{y + 3:.1f}" class="tick" text-anchor="end">{100 * share:.0f}%</text>')
    tick = 10 ** math.ceil(low / math.log(10))
    while tick <= math.exp(high) * 1.0001:
        label = f"{tick:g}"
        out.append(f'<text x="{x_of(tick):.1f}" y="{oy + HEIGHT - 12}" class="tick" text-anchor="middle">{label}</text>')
        tick *= 10
    for number, mode in enumerate(modes):
        rows = lines.get(mode)
        if not rows:
            continue
        colour = COLOURS[number % len(COLOURS)]
        if any(r[2] != r[3] for r in rows):
            band = steps(rows, 3, x_of, y_of) + steps(rows, 2, x_of, y_of)[::-1]
            out.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.15"/>')
        line = " ".join(steps(rows, 1, x_of, y_of))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return out


def page(tasks, axis):
    modes = sorted({mode for task in tasks for mode in task["modes"]})
    if axis == 0 and any(task.get("tvm") for task in tasks):
        modes.append("tvm")
    rows = math.ceil(len(tasks) / COLUMNS)
    width, height = COLUMNS * WIDTH, 40 + rows * HEIGHT
    what = "trials" if axis == 0 else "seconds"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        "<style>.title{font-size:11px;font-weight:bold}.tick{font-size:9px;fill:#555}.grid{stroke:#ddd}.key{font-size:11px}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="16" class="key">Speed of the best so far, relative to the best known, against {what} (logarithmic)</text>',
    ]
    x = 10
    for number, mode in enumerate(modes):
        colour = COLOURS[number % len(COLOURS)]
        out.append(f'<line x1="{x}" x2="{x + 18}" y1="30" y2="30" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{x + 22}" y="34" class="key">{mode}</text>')
        x += 40 + 7 * len(mode)
    for i, task in enumerate(tasks):
        out += diagram(task, axis, modes, (i % COLUMNS * WIDTH, 40 + i // COLUMNS * HEIGHT))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    curves = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bench/search/curves.json"
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/search"
    tasks = [task for task in json.loads(curves.read_text()) if task["modes"]]
    if not tasks:
        raise SystemExit(f"{curves}: nothing was measured")
    folder.mkdir(parents=True, exist_ok=True)
    for axis, name in ((0, "trials.svg"), (1, "seconds.svg")):
        (folder / name).write_text(page(tasks, axis))
        print(folder / name)


if __name__ == "__main__":
    main()
