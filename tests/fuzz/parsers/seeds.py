"""Writes what the fuzzers begin with: `seeds.py FOLDER`. Models come from the node tests of the onnx package, and are one
node of each operator with inputs of few dims; programs and traces come from the golden files, records from the tests'
databases, StableHLO from the fixtures of its readers."""

import pathlib
import re
import shutil
import sys

import onnx
import onnx.backend.test
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[3]
LARGEST_BYTES = 4096


SEVERAL = 3  # inputs of an operator that takes any number


def element_type(schema, parameter):
    """The first type that the operator's table allows: "tensor(float)" is FLOAT."""
    kinds = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    for kind in ["tensor(float)", *kinds.get(parameter.type_str, [parameter.type_str])]:
        found = re.fullmatch(r"tensor\((\w+)\)", kind)
        if found and kind in kinds.get(parameter.type_str, [kind]):
            return getattr(TensorProto, found[1].upper(), TensorProto.FLOAT)
    return TensorProto.FLOAT


def operators():
    """Domain, name, version, and the types of the inputs of each operator that ONNX describes, or that Fettle adds."""
    for schema in onnx.defs.get_all_schemas():
        count = max(schema.min_input, min(schema.max_input, len(schema.inputs) + SEVERAL - 1))
        inputs = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(count)]
        yield schema.domain, schema.name, schema.since_version, [element_type(schema, parameter) for parameter in inputs]
    for source in sorted((ROOT / "src/graph/ops").glob("*.cpp")):
        for domain, name in re.findall(r'"(com\.microsoft|fettle)\.(\w+)"', source.read_text(encoding="utf-8")):
            for count in range(1, 6):
                yield domain, name, 1, [TensorProto.FLOAT] * count


def of_rank(domain, name, version, types, rank, others):
    """One node whose first input has `rank` dims, and whose other inputs have `others`."""
    ranks = [rank] + [others] * (len(types) - 1)
    inputs = [
        helper.make_tensor_value_info(f"x{i}", kind, [2] * dims) for i, (kind, dims) in enumerate(zip(types, ranks))
    ]
    node = helper.make_node(name, [value.name for value in inputs], ["y"], domain=domain)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)]).SerializeToString()


def main():
    out = pathlib.Path(sys.argv[1])
    for name in ("model", "loops", "trace", "records", "comprehension", "stablehlo"):
        (out / name).mkdir(parents=True, exist_ok=True)
    nodes = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "node"
    for model in nodes.glob("*/model.onnx"):
        if model.stat().st_size <= LARGEST_BYTES:
            shutil.copy(model, out / "model" / f"{model.parent.name}.onnx")
    for domain, name, version, types in operators():
        for rank in range(4):
            for others in {rank, 1}:
                seed = f"{domain or 'onnx'}.{name}.{len(types)}.{rank}.{others}.onnx"
                (out / "model" / seed).write_bytes(of_rank(domain, name, version, types, rank, others))
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
    for program in (ROOT / "src/frontend/stablehlo/fixtures").glob("*.mlir*"):
        shutil.copy(program, out / "stablehlo" / program.name)
    for database in (ROOT / "tests").rglob("*.db"):
        if database.stat().st_size <= 1 << 18:
            shutil.copy(database, out / "records" / database.name)


main()
