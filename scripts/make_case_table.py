#!/usr/bin/env python3
"""Writes src/rt/case_table.inc: Unicode's simple case mappings, as ranges. Usage: make_case_table.py > FILE."""

import unicodedata


def simple(char: str, mapped: str, instead: str) -> int:
    """The one character that `char` becomes. Where the full mapping has several, that of another case, or itself."""
    for candidate in (mapped, instead):
        if len(candidate) == 1:
            return ord(candidate)
    return ord(char)


def mappings(kind: str) -> list[tuple[int, int]]:
    found = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        char = chr(code)
        if kind == "upper":
            to = simple(char, char.upper(), char.title())
        else:
            to = 0x69 if code == 0x130 else simple(char, char.lower(), char)
        if to != code:
            found.append((code, to - code))
    return found


def ranges(found: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """(first, last, step, difference): of steps 1 and 2."""
    made: list[list[int]] = []
    for code, difference in found:
        if made and made[-1][3] == difference:
            first, last, step, _ = made[-1]
            if first == last and code - last in (1, 2):
                made[-1] = [first, code, code - last, difference]
                continue
            if code - last == step:
                made[-1][1] = code
                continue
        made.append([code, code, 1, difference])
    return [tuple(one) for one in made]


print(f"// Unicode {unicodedata.unidata_version}. Written by scripts/make_case_table.py.")
for kind, name in (("upper", "kToUpperRanges"), ("lower", "kToLowerRanges")):
    print(f"constexpr CaseRange {name}[] = {{")
    line = "   "
    for one in ranges(mappings(kind)):
        text = " {" + ", ".join(f"{v:#x}" if i < 2 else str(v) for i, v in enumerate(one)) + "},"
        if len(line) + len(text) > 120:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")
