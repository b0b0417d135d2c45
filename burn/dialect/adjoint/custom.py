"""The derivative of custom ops: the user's own rule, or that of its body of burn functions."""

from __future__ import annotations

from typing import Any

from burn.dialect.adjoint.rules import NoRule, rule
from burn.dialect.custom import decoded, version
from burn.dialect.deferred import Value


@rule("custom")
def custom(g: Any, y: Any, values: list[Value], called: str, key: str, settings: str, body: str) -> list[Any]:
    """The forward pass keeps its body. Without a rule, the backward pass derives the burn functions, which it computes again."""
    definition = version(called, key)
    if not definition.has_derivative:
        raise NoRule(f"{called} has no derivative: give it one with .vjp, or a body of burn functions")
    cotangents, results = (g, y) if isinstance(y, list) else ([g], [y])
    return [definition.transposed(values, results, cotangents, decoded(settings))]
