"""Programs as `jax.export.Exported`, with named sizes as JAX's symbols: `exported`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from burn.adapters.to_jax.function import Lowered
from burn.dialect.dims import Dim, Symbol, interpret, symbols
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import numpy_dtype
from burn.errors import CompileError, Problem


def exported(program: Program, platforms: Sequence[str] = ("cpu", "cuda", "rocm", "tpu")) -> Any:
    """A `jax.export.Exported` with the program's own element types: a process that calls it with 64-bit ones turns on
    `jax_enable_x64`. A symbol of JAX is at least 1. A program that draws random numbers has a last input, its random state
    (uint64[2]). Raises CompileError without jax, and that lists everything that StableHLO does not have."""
    try:
        import jax
        from jax import export
    except ImportError as error:
        hint = "pip install 'burn-mlir[jax]'"
        raise CompileError("jax.export needs jax", [Problem(str(error), hint=hint)]) from error
    lowered = Lowered.of(program, calls=False)  # a callback cannot be serialised
    with context():
        types = lowered.types
    names = sorted({name for type_ in types for dim in type_.shape for name in symbols(dim)})
    spelled = _spelled(names)
    with jax.enable_x64(True):
        scope = export.SymbolicScope()
        given = []
        for type_ in types:
            text = ", ".join(_text(dim, spelled) for dim in type_.shape)
            shape = export.symbolic_shape(text, scope=scope) if names else type_.shape
            given.append(jax.ShapeDtypeStruct(tuple(shape), numpy_dtype(type_.dtype)))

        def main(*arrays: Any) -> Any:
            return tuple(lowered(arrays))

        return export.export(jax.jit(main), platforms=list(platforms))(*given)


def _spelled(names: Sequence[str]) -> dict[str, str]:
    """JAX's names of symbols: identifiers."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name)
        plain = plain if plain.isidentifier() else f"n_{plain}"
        while plain in found.values():
            plain += "_"
        found[name] = plain
    return found


def _text(dim: Dim, names: dict[str, str]) -> str:
    """A size in JAX's syntax, which has no parentheses: a sum of products."""

    def leaf(atom: Any) -> list[str]:
        assert isinstance(atom, Symbol)
        return [names[atom.name]]

    def operation(op: str, a: list[str], b: list[str]) -> list[str]:
        if op == "add":
            return [*a, *b]
        if op == "mul":
            return [f"{x}*{y}" for x in a for y in b]
        if op == "broadcast":
            raise CompileError("the program cannot be exported", [f"an input's size is broadcast({a}, {b})"])
        return [f"{op}({' + '.join(a)}, {' + '.join(b)})"]

    return " + ".join(interpret(dim, leaf, lambda number: [str(number)], operation))
