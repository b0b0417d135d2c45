"""Calls of custom ops that are bound to torch's (`CustomOp.torch`), and of their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.custom.torch_library import BACKWARD, of_torch
from burn.dialect import custom
from burn.dialect.deferred import Value
from burn.dialect.types import FLOATS, type_of
from burn.importers.torch.node import Builder


def builder(op: str) -> Builder | None:
    """The builder of an overload such as "demo.lookup.default"; None if no custom op has that name."""
    namespace, _, rest = op.partition(".")
    name = rest.partition(".")[0]
    if (definition := of_torch(namespace, name)) is not None:
        return lambda node, *operands, **settings: _forward(definition, operands, settings)
    if name.endswith(BACKWARD) and (definition := of_torch(namespace, name.removesuffix(BACKWARD))) is not None:
        return lambda node, cotangents, operands, results, absent, **settings: _backward(
            definition.but(absent), cotangents, operands, results, settings
        )
    return None


def _forward(definition: custom.Definition, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
    values = [v for operand in operands for v in (operand if isinstance(operand, (list, tuple)) else [operand])]
    made = custom.build_given(definition, values, settings)
    return made[0] if len(made) == 1 else made


def _backward(
    definition: custom.Definition,
    cotangents: Sequence[Value],
    operands: Sequence[Value],
    results: Sequence[Value],
    settings: dict[str, Any],
) -> list[Any]:
    """The cotangents of the operands that are floats; zeros for those that have none."""
    from burn.dialect.compose import zeros_like

    complete = custom.complete(definition, settings)
    rest = iter(cotangents)
    every = [next(rest) if type_of(y).dtype in FLOATS else None for y in results]
    found = definition.transposed(operands, results, every, complete)
    return [
        zeros_like(x) if g is None else g for g, x in zip(found, operands, strict=True) if type_of(x).dtype in FLOATS
    ]
