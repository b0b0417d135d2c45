"""StableHLO text as a portable artefact, which later versions of XLA and other compilers read. It needs jaxlib."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from burn.errors import CompileError, Problem


def portable(text: str) -> bytes:
    """The bytecode of a module, in the version of StableHLO of four weeks before the installed jaxlib. Raises CompileError
    without jax."""
    try:
        library: Any = import_module("jax._src.lib")
        interpreter: Any = import_module("jax._src.interpreters.mlir")
        ir: Any = import_module("jaxlib.mlir.ir")
        stablehlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
    except ImportError as error:
        hint = "pip install 'burn-mlir[jax]', or write text (.mlir) with sizes that are numbers, which needs no jax"
        raise CompileError("a portable artefact needs jaxlib", [Problem(str(error), hint=hint)]) from error
    version = stablehlo.get_version_from_compatibility_requirement(stablehlo.StablehloCompatibilityRequirement.WEEK_4)
    with interpreter.make_ir_context():
        return library._jax.mlir.serialize_portable_artifact(ir.Module.parse(text), version, False)
