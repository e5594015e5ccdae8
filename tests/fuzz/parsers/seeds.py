"""Writes what the fuzzers begin with: `seeds.py FOLDER`. Models come from the node tests of the onnx package, programs
and traces from the golden files, records from the tests' databases."""

import pathlib
import re
import shutil
import sys

import onnx.backend.test

ROOT = pathlib.Path(__file__).resolve().parents[3]
LARGEST_BYTES = 4096


def main():
    out = pathlib.Path(sys.argv[1])
    for name in ("model", "loops", "trace", "records", "comprehension"):
        (out / name).mkdir(parents=True, exist_ok=True)
    nodes = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "node"
    for model in nodes.glob("*/model.onnx"):
        if model.stat().st_size <= LARGEST_BYTES:
            shutil.copy(model, out / "model" / f"{model.parent.name}.onnx")
    for golden in (ROOT / "tests" / "golden").glob("*.txt"):
        text = golden.read_text(encoding="utf-8", errors="replace")
        if len(text) > LARGEST_BYTES:
            continue
        if text.startswith("func "):
            (out / "loops" / golden.name).write_text(text, encoding="utf-8")
        if re.match(r"\w+(, \w+)* = \w+\(", text):
            (out / "trace" / golden.name).write_text(text, encoding="utf-8")
    (out / "trace" / "split").write_text(
        'b0 = get_block(name="C")\nl1, l2, l3 = get_loops(block=b0)\n'
        "v4, v5 = sample_perfect_tile(loop=l1, n=2, max_innermost=16)   # tile/C/i: [4, 4]\n"
        'l6, l7 = split(loop=l1, factors=[v4, v5], tail="partition")\nreorder(loops=[l6, l2, l3, l7])\n'
        "parallel(loop=l6)\nvectorize(loop=l2)\n",
        encoding="utf-8",
    )
    for program in (ROOT / "tests" / "polybench").glob("*.tc"):
        shutil.copy(program, out / "comprehension" / program.name)
    for database in (ROOT / "tests").rglob("*.db"):
        if database.stat().st_size <= 1 << 18:
            shutil.copy(database, out / "records" / database.name)


main()
