"""The forms in which JAX hands a program over: texts, and portable artifacts of several versions of StableHLO."""

import jax
from jax._src.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

# The oldest that JAX still writes for others; the first stable one; the newest that this JAX knows.
VERSIONS = ("0.19.0", "1.0.0", stablehlo.get_current_version())


stablehlo.register_stablehlo_passes()


def exported(function, arguments, open_shapes=None):
    """The program as jax.export has it: text in MLIR's pretty form. open_shapes: of the arguments, with sizes by name."""
    shapes = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments]
    if open_shapes:
        shapes = jax.export.symbolic_args_specs(tuple(shapes), open_shapes)
    return jax.export.export(jax.jit(function), platforms=["cpu"])(*shapes).mlir_module()


def forms(text):
    """Each form's name, the ending of its file, and its bytes."""
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        # Without locations, which have paths of this machine.
        yield "pretty", ".mlir", module.operation.get_asm().encode()
        yield "generic", ".mlir", module.operation.get_asm(print_generic_op_form=True).encode()
        # Older versions lack what CHLO has: JAX's own calling convention leaves it to the consumer of the newest.
        passmanager.PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
        for version in VERSIONS:
            yield version, ".mlirbc", stablehlo.serialize_portable_artifact_str(str(module), version)
