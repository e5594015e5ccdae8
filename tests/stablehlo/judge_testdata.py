"""StableHLO's own testdata through machine code: what its programs give beside what they expect.

    judge_testdata.py FOLDER [NAME…]        FOLDER: stablehlo/testdata of a checkout of openxla/stablehlo

Programs are compiled in groups, as functions of one module, whose inputs are those of the programs. A group that does
not compile is halved until it is known which program does not."""

import argparse
import concurrent.futures
import pathlib
import re
import sys
import tempfile

import numpy as np

import fettle

GROUP = 24
# Of the larger of 1 and the expected number.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}
RESULT = re.compile(r"^\s*(%\w+)(?::(\d+))? = (?:func\.)?call @(\w+)\(\) : \(\) -> (.*)$")
CHECK = re.compile(r"^\s*stablehlo\.custom_call @check\.expect_\w+\((%[\w#]+), (%[\w#]+)\).* : \((.*)\) -> ")


def types_in(text):
    """The types of a list, at whose top level commas part them."""
    types, depth, current = [], 0, ""
    for character in text.strip().removeprefix("(").removesuffix(")"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            types.append(current.strip())
            current = ""
        else:
            current += character
    return [*types, current.strip()] if current.strip() else types


class Unreadable(Exception):
    pass


class Case:
    """A program, as functions whose names end in its number."""

    def __init__(self, path, number):
        self.name = path.stem
        text = path.read_text()
        symbols = set(re.findall(r"func\.func (?:public |private )?@(\w+)", text))
        text = re.sub(r"@(\w+)", lambda m: f"@{m[1]}_{number}" if m[1] in symbols else m[0], text)
        body = text[text.index("{\n") + 2 : text.rindex("}")]
        begin = re.search(rf"^  func\.func (?:public )?@main_{number}\(\).*$", body, re.M)
        if not begin:
            raise Unreadable("it has no function main without arguments")
        end = body.index("\n  }\n", begin.end())
        self.others = body[: begin.start()] + body[end + 5 :]
        self.number = number
        self.input_types, self.calls, checked, lines, arguments = [], [], [], [], {}
        for line in body[begin.end() : end].split("\n"):
            if (call := RESULT.match(line)) and call[3] in (f"inputs_{number}", f"expected_{number}"):
                types = types_in(call[4])
                values = [call[1]] if call[2] is None else [f"{call[1]}#{i}" for i in range(int(call[2]))]
                arguments.update({value: (call[3], i, kind) for i, (value, kind) in enumerate(zip(values, types))})
                self.calls.append((call[3], types))
            elif check := CHECK.match(line):
                checked.append((check[1], check[2], types_in(check[3])[0]))
            elif not line.strip().startswith("return"):
                lines.append(line)
        if not checked or any(expected not in arguments for _, expected, _ in checked):
            raise Unreadable("it checks nothing, or computes what it expects")
        self.results = [kind for _, _, kind in checked]
        self.expected = [arguments[expected][:2] for _, expected, _ in checked]
        self.inputs = [value for value, (function, _, _) in arguments.items() if function.startswith("inputs_")]
        self.input_types = [arguments[value][2] for value in self.inputs]
        names = {value: f"%given{i}" for i, value in enumerate(self.inputs)}
        rename = lambda text: re.sub(r"%\w+(?:#\d+)?", lambda m: names.get(m[0], m[0]), text)
        parameters = ", ".join(f"%given{i}: {kind}" for i, kind in enumerate(self.input_types))
        self.function = (
            f"  func.func private @case_{number}({parameters}) -> ({', '.join(self.results)}) {{"
            + rename("\n".join(lines))
            + f"\n    return {rename(', '.join(value for value, _, _ in checked))} : {', '.join(self.results)}\n  }}\n"
        )


def listed(values, types):
    return f"{', '.join(values)} : {', '.join(types)}" if values else ""


def data_module(cases):
    """Inputs and expected results, as results of a program without inputs."""
    lines, values, types, functions = [], [], [], []
    for case in cases:
        functions.append(case.others)
        for function, kinds in case.calls:
            name = f"%{function}"
            lines.append(f"    {name}:{len(kinds)} = call @{function}() : () -> ({', '.join(kinds)})")
            values += [f"{name}#{i}" for i in range(len(kinds))]
            types += kinds
    head = f"  func.func public @main() -> ({', '.join(types)}) {{\n"
    return head + "\n".join(lines) + f"\n    return {listed(values, types)}\n  }}\n" + "".join(functions)


def program_module(cases):
    parameters, lines, values, types, functions = [], [], [], [], []
    for case in cases:
        given = [f"%in{case.number}_{i}" for i in range(len(case.inputs))]
        parameters += [f"{name}: {kind}" for name, kind in zip(given, case.input_types)]
        lines.append(
            f"    %r{case.number}:{len(case.results)} = call @case_{case.number}({', '.join(given)}) : "
            f"({', '.join(case.input_types)}) -> ({', '.join(case.results)})"
        )
        values += [f"%r{case.number}#{i}" for i in range(len(case.results))]
        types += case.results
        functions += [case.others, case.function]
    head = f"  func.func public @main({', '.join(parameters)}) -> ({', '.join(types)}) {{\n"
    return head + "\n".join(lines) + f"\n    return {listed(values, types)}\n  }}\n" + "".join(functions)


def run(folder, text, *inputs):
    path = pathlib.Path(folder) / "module.mlir"
    path.write_text("module {\n" + text + "}\n")
    results = fettle.compile(path, cache=False)(*inputs)
    return list(results) if isinstance(results, tuple) else [results]


def difference(actual, expected):
    """What is unlike, or nothing."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    tolerance = TOLERANCE.get(expected.dtype.name)
    if tolerance is None:
        wrong = np.asarray(actual != expected)
        if expected.dtype.kind not in "biu":
            wrong &= ~((actual != actual) & (expected != expected))
    else:
        a, b = actual.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= tolerance * np.maximum(1, np.abs(b))
        wrong = ~((a == b) | near | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return None
    at = tuple(np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} wrong, {actual[at]} instead of {expected[at]} at {list(map(int, at))}"


def judge(cases):
    """Name and verdict of each: "same", or what is wrong."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            data = iter(run(folder, data_module(cases)))
            stored = {function: [next(data) for _ in kinds] for case in cases for function, kinds in case.calls}
            inputs = [array for case in cases for array in stored.get(f"inputs_{case.number}", [])]
            results = iter(run(folder, program_module(cases), *inputs))
    except Exception as error:
        if len(cases) > 1:
            middle = len(cases) // 2
            return judge(cases[:middle]) + judge(cases[middle:])
        return [(cases[0].name, f"{type(error).__name__}: {error}")]
    verdicts = []
    for case in cases:
        wrong = [difference(next(results), stored[function][i]) for function, i in case.expected]
        verdicts.append((case.name, next((what for what in wrong if what), "same")))
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="judges each N-th program alone")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.mlir"))[:: options.every]
    if options.names:
        paths = [options.folder / f"{name}.mlir" for name in options.names]
    cases, verdicts = [], []
    for number, path in enumerate(paths):
        try:
            cases.append(Case(path, number))
        except (Unreadable, ValueError) as error:
            verdicts.append((path.stem, f"not read: {error}"))
    groups = [cases[i : i + GROUP] for i in range(0, len(cases), GROUP)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for done, found in enumerate(pool.map(judge, groups), 1):
            verdicts += found
            print(f"{done} of {len(groups)} groups", file=sys.stderr, flush=True)
    for name, verdict in verdicts:
        if verdict != "same":
            print(f"{name}: {verdict}")
    same = sum(verdict == "same" for _, verdict in verdicts)
    print(f"{same} of {len(verdicts)} give what they expect")
    return 0 if same == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
