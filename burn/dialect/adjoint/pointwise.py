"""Derivatives of the pointwise ops. Those of scalar functions are in their rows (`dialect/functions.py`)."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.adjoint.rules import rule
from burn.dialect.compose import convert, number_like
from burn.dialect.deferred import Value
from burn.dialect.functions import FUNCTIONS
from burn.dialect.types import FLOATS, type_of

for _row in FUNCTIONS:
    if _row.derivative is not None:
        rule(_row.name)(_row.derivative)


@rule("select")
def select(g: Value, y: Value, condition: Value, on_true: Value, on_false: Value) -> list[Value | None]:
    zero = number_like(0.0, g)
    return [None, ops.select(condition, g, zero), ops.select(condition, zero, g)]


@rule("cast")
def cast(g: Value, y: Value, x: Value, dtype: str, saturate: bool) -> Value | None:
    to = type_of(x).dtype
    return convert(g, to) if to in FLOATS else None
