"""Choices between elements: select_n and clamp."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.lax.scalars import like


def select_n(which: Value, cases: Sequence[Value]) -> Value:
    """The element of case `which`: a bool (false: the first of two) or an integer in range. A scalar chooses for all."""
    if len(cases) == 1:
        return cases[0]
    if type_of(which).dtype == "bool":
        return ops.select(which, cases[1], cases[0])
    result = cases[-1]
    for number, case in reversed(list(enumerate(cases[:-1]))):
        result = ops.select(ops.le(which, like(number, which)), case, result)
    return result


def clamp(low: Value, x: Value, high: Value) -> Value:
    """min(max(x, low), high); bounds are scalars or of x's shape."""
    return ops.min(ops.max(x, low), high)
