"""Writes the table of ONNX's operators, of all versions, from the onnx package: `onnx_schemas.py OUT.inc`.

The table is C++ that src/frontend/onnx/schema.cpp includes; schema.h says what it holds.
"""

import sys

import onnx
from onnx import defs

ATTRIBUTE_KINDS = {
    kind: name for name, kind in onnx.AttributeProto.AttributeType.items()
}
OPTIONS = {
    defs.OpSchema.FormalParameterOption.Single: "kSingle",
    defs.OpSchema.FormalParameterOption.Optional: "kOptional",
    defs.OpSchema.FormalParameterOption.Variadic: "kVariadic",
}


class Lists:
    """Arrays of C++, each of which is written once."""

    def __init__(self, name, element):
        self.name, self.element, self.names = name, element, {}

    def add(self, items):
        items = tuple(items)
        if not items:
            return "{}"
        return self.names.setdefault(items, f"{self.name}{len(self.names)}")

    def text(self):
        return "".join(
            f"constexpr {self.element} {name}[] = {{{', '.join(items)}}};\n" for items, name in self.names.items()
        )


def quoted(text):
    return f'"{text}"'


def main():
    types = Lists("kTypes", "std::string_view")
    formals = Lists("kFormals", "FormalSchema")
    attributes = Lists("kAttributes", "AttributeSchema")

    def formal(parameter):
        allowed = types.add(quoted(t) for t in sorted(parameter.types))
        # A parameter of one type, whatever else is given, names no variable.
        variable = "" if "(" in parameter.type_str or not parameter.is_homogeneous else parameter.type_str
        return f"{{{quoted(parameter.name)}, {quoted(variable)}, {allowed}, FormalSchema::{OPTIONS[parameter.option]}}}"

    rows = []
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)):
        own = attributes.add(
            f"{{{quoted(name)}, onnx::AttributeProto::{ATTRIBUTE_KINDS[int(a.type.value)]}, {str(a.required).lower()}}}"
            for name, a in sorted(schema.attributes.items())
        )
        inputs = formals.add(formal(p) for p in schema.inputs)
        outputs = formals.add(formal(p) for p in schema.outputs)
        rows.append(
            f"    {{{quoted(schema.domain)}, {quoted(schema.name)}, {schema.since_version}, "
            f"{str(schema.deprecated).lower()}, {schema.min_input}, {schema.max_input}, {schema.min_output}, "
            f"{schema.max_output}, {inputs}, {outputs}, {own}}},\n"
        )
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write(f"// Made by scripts/onnx_schemas.py from onnx {onnx.__version__}.\n")
        out.write(f"constexpr int64_t kNewestIrVersion = {onnx.IR_VERSION};\n")
        out.write(types.text() + formals.text() + attributes.text())
        out.write("constexpr OperatorSchema kSchemas[] = {\n" + "".join(rows) + "};\n")


main()
