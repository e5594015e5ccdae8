#!/usr/bin/env python3
"""Writes the tables of docs/benchmarks.md, docs/search-measured.md and docs/numerics.md from what `make bench` and `make bench-…` left in build/bench/.

usage: benchmark_tables.py [FOLDER]      FOLDER: where models.json, core.json and so on are, build/bench by default
A table whose file is missing stays as it is. A figure that missed its bound is marked with (!).
"""

import json
import math
import pathlib
import re
import statistics
import sys

from search_plots import best_at, known_times

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/benchmarks.md"
SEARCH_PAGE = ROOT / "docs/search-measured.md"
NUMERICS_PAGE = ROOT / "docs/numerics.md"

# Columns of the table of shapes: what the report calls them, after "SHAPE, ", and in which unit.
COLUMNS = [
    ("oneDNN", "% of peak"),
    ("hand trace", "% of peak"),
    ("hand trace, best place in memory", "% of peak"),
    ("hand trace", "of oneDNN"),
    ("default", "% of hand trace"),
    ("tuned", "% of hand trace"),
    ("regret of timing the predicted five", "%"),
    ("rank correlation of prediction", "Spearman"),
]
# Columns of the table of models: what the report calls them, after "NAME, N threads, ".
MODEL_COLUMNS = [
    "untuned, median",
    "tuned, median",
    "ONNX Runtime, median",
    "OpenVINO, median",
    "untuned over the better of both",
    "tuned over the better of both",
    "output against ONNX Runtime",
    "time outside kernels",
    "peak memory over ONNX Runtime's",
]
# Columns of the table of candidates: what the report calls them, after "WORKLOAD: ".
CANDIDATE_COLUMNS = [
    "distinct candidates a second",
    "candidates of a search",
    "steps",
    "points for each",
    "all",
    "verify",
    "lower",
    "features",
    "space, hashes and the rest",
]
# Tables of one row a figure, named like their files.
PLAIN = ["model", "schedule", "threads", "robust", "search", "streams", "tasks", "operators", "vendor"]
# Tables of docs/numerics.md: how their figures begin; the last one has what is left.
NUMERICS = {"means": "mean of ", "products": "product ", "convolutions": "convolution ", "others": ""}
# Columns of the table of searches: modes of bench-search.
SEARCH_MODES = ["fettle", "autotvm", "metaschedule", "ansor"]
# Rows of the table of few trials: modes of bench-search that search the default's space; its columns.
FEW_TRIALS_MODES = {
    "fettle": "the default",
    "rules:evolutionary:trees_alone": "… without it (`trees_alone`)",
    "rules:random": "random search that begins with the default",
    "random": "… with nothing",
}
FEW_TRIALS = [1, 8, 16, 32, 64]
MODEL = re.compile(r"([a-z]\w*, \d+ threads?), (.*)")
CANDIDATES = re.compile(r"((?!\d+ candidates)[^:]*): (.*)")
SHAPE = re.compile(r"((?:GEMM|conv)[^,]*), (.*)")


def number(entry):
    value = entry["value"]
    if value is None:
        text = "none"
    elif abs(value) < 0.001 and value != 0:
        text = f"{value:.1e}"
    else:
        text = f"{value:.3f}" if abs(value) < 2 else f"{value:.2f}" if abs(value) < 20 else f"{value:.1f}"
    return text + (" (!)" if entry["holds"] is False else "")


def plain_rows(entries):
    return [f"| {e['what']} | {number(e)} | {e['unit'] or '-'} | {e['bound'] or '-'} |" for e in entries]


def grid(entries, pattern, columns, column_of):
    """Rows of a table with a column for each of `columns`, and the entries that have none there."""
    cells, others = {}, []
    for entry in entries:
        match = pattern.fullmatch(entry["what"])
        column = column_of(match, entry) if match else None
        if column in columns:
            cells.setdefault(match.group(1), {})[column] = number(entry)
        else:
            others.append(entry)
    return [f"| {row} | " + " | ".join(known.get(c, "-") for c in columns) + " |" for row, known in cells.items()], others


def core_rows(entries):
    return grid(entries, SHAPE, COLUMNS, lambda match, entry: (match.group(2), entry["unit"]))


def models_rows(entries):
    rows, others = grid(entries, MODEL, MODEL_COLUMNS, lambda match, entry: match.group(2))
    return rows, [entry for entry in others if not MODEL.fullmatch(entry["what"])]


def candidates_rows(entries):
    rows, others = grid(entries, CANDIDATES, CANDIDATE_COLUMNS, lambda match, entry: match.group(2))
    return rows, [entry for entry in others if not entry["what"].endswith(": score")]


def best_ms(searches):
    """The median over the seeds of the best that each found."""
    return 1e3 * statistics.median(s["improvements"][-1][2] for s in searches if s["improvements"])


def milliseconds(ms):
    return f"{ms:.3g}" if ms >= 0.1 else f"{ms:.4f}"


def search_rows(curves):
    """A row a task: what each mode found, ms; bold within 95 % of the best that any found."""
    rows = []
    for task in curves:
        known = known_times(task)
        if not known:
            continue
        cells = []
        for mode in SEARCH_MODES:
            searches = task["modes"].get(mode)
            if not searches:
                cells.append("-")
                continue
            ms = best_ms(searches)
            cells.append(f"**{milliseconds(ms)}**" if 1e3 * min(known) >= 0.95 * ms else milliseconds(ms))
        rows.append(f"| {task['task']} | " + " | ".join(cells) + " |")
    return rows


def few_trials_rows(curves):
    """A row a mode: how far off the best that any mode found, geometric mean over tasks and seeds, after so many trials."""
    rows = []
    for mode, name in FEW_TRIALS_MODES.items():
        losses = {trials: [] for trials in FEW_TRIALS}
        for task in curves:
            known = known_times(task)
            for trials, lost in losses.items():
                so_far = [best_at(s, trials, 0) for s in task["modes"].get(mode, [])]
                lost += [math.log(seconds / min(known)) for seconds in so_far if seconds]
        if all(losses.values()):
            cells = [f"{100 * math.expm1(statistics.mean(lost)):.1f} %" for lost in losses.values()]
            rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return rows


def peer_rows(curves, peers):
    """A row a task: the peer's best, trials and seconds; the default's, medians over the seeds."""
    peer_of = {peer["task"]: peer for peer in peers}
    rows = []
    for task in curves:
        searches, peer = task["modes"].get("fettle"), peer_of.get(task["task"])
        if not searches or not peer or not peer["best"]:
            continue
        theirs = f"{milliseconds(1e3 * peer['best'][-1][1])} | {peer['measured']} | {peer['seconds']:.0f}"
        trials, seconds = (statistics.median(s[key] for s in searches) for key in ("trials", "seconds"))
        rows.append(f"| {peer['task']} | {theirs} | {milliseconds(best_ms(searches))} | {trials} | {seconds:.1f} |")
    return rows


def strategy_rows(entries):
    """A row a strategy: how far off the best after 8, 16, 32 and 64 trials, and p over random search."""
    rows = {}
    for entry in entries:
        if match := re.fullmatch(r"(\w+) after (\d+) trials: off the best, .*", entry["what"]):
            rows.setdefault(match.group(1), {})[match.group(2)] = f"{entry['value']:.2f} %"
        elif match := re.fullmatch(r"(\w+) over random after 8 to 64 trials: p by Wilcoxon", entry["what"]):
            rows.setdefault(match.group(1), {})["p"] = number(entry)
    columns = ["8", "16", "32", "64", "p"]
    order = sorted(rows, key=lambda name: float(rows[name]["16"].split()[0]))
    return [f"| `{name}` | " + " | ".join(rows[name].get(c, "-") for c in columns) + " |" for name in order]


def replace_table(text, name, rows):
    """The page with the rows below the header of a table replaced."""
    pattern = re.compile(rf"(<!-- table: {re.escape(name)} -->\n\|.*\n\|.*\n)(?:\|.*\n)*(<!-- end -->)")
    if not pattern.search(text):
        sys.exit(f"no table '{name}'")
    return pattern.sub(lambda m: m.group(1) + "".join(row + "\n" for row in rows) + m.group(2), text)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bench"
    text = PAGE.read_text()
    if (folder / "models.json").exists():
        rows, others = models_rows(json.loads((folder / "models.json").read_text()))
        text = replace_table(replace_table(text, "models", rows), "models, together", plain_rows(others))
    if (folder / "core.json").exists():
        rows, others = core_rows(json.loads((folder / "core.json").read_text()))
        text = replace_table(replace_table(text, "core", rows), "core, others", plain_rows(others))
    if (folder / "candidates.json").exists():
        rows, others = candidates_rows(json.loads((folder / "candidates.json").read_text()))
        text = replace_table(replace_table(text, "candidates", rows), "candidates, others", plain_rows(others))
    for name in PLAIN:
        if (folder / f"{name}.json").exists():
            text = replace_table(text, name, plain_rows(json.loads((folder / f"{name}.json").read_text())))
    PAGE.write_text(text)
    if (folder / "numerics.json").exists():
        page, left = NUMERICS_PAGE.read_text(), json.loads((folder / "numerics.json").read_text())
        for name, start in NUMERICS.items():
            page = replace_table(page, name, plain_rows([e for e in left if e["what"].startswith(start)]))
            left = [e for e in left if not e["what"].startswith(start)]
        NUMERICS_PAGE.write_text(page)
    if (folder / "strategies.json").exists():
        rows = strategy_rows(json.loads((folder / "strategies.json").read_text()))
        SEARCH_PAGE.write_text(replace_table(SEARCH_PAGE.read_text(), "strategies", rows))
    if (folder / "search/curves.json").exists():
        curves = json.loads((folder / "search/curves.json").read_text())
        page = replace_table(SEARCH_PAGE.read_text(), "searches", search_rows(curves))
        if rows := few_trials_rows(curves):
            page = replace_table(page, "few trials", rows)
        if (folder / "search/tvm.jsonl").exists():
            peers = [json.loads(line) for line in (folder / "search/tvm.jsonl").read_text().splitlines()]
            page = replace_table(page, "peer", peer_rows(curves, peers))
        SEARCH_PAGE.write_text(page)


if __name__ == "__main__":
    main()
