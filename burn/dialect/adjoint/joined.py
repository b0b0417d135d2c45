"""Cotangents of slices that tile an axis are joined by a concat.

The cotangent of `split`, `chunk`, `unbind` and of neighbouring slices is then one copy of its parts. Their sum would read each
part padded to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from burn.dialect import ops
from burn.dialect.compose import number_like
from burn.dialect.constants import written
from burn.dialect.deferred import Deferred, Value
from burn.dialect.dims import Dim
from burn.dialect.query import is_named
from burn.dialect.types import type_of


class _Padded(NamedTuple):
    """A tensor with zeros before and behind it along its axes."""

    x: Value
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    def across(self, axis: int) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """The zeros along the other axes."""
        low, high = ((*side[:axis], 0, *side[axis + 1 :]) for side in (self.low, self.high))
        return low, high


def joined(parts: Sequence[Value]) -> list[Value]:
    """Values with the same sum as `parts`, all of one type. Parts that tile an axis become one value, in place of the first of
    them; the others keep their order."""
    padded = {number: each for number, part in enumerate(parts) if (each := _padding(part)) is not None}
    for axis in range(type_of(parts[0]).rank):
        for low, high in dict.fromkeys(each.across(axis) for each in padded.values()):
            alike = {n: each for n, each in padded.items() if each.across(axis) == (low, high)}
            row = _tiles(alike, axis, type_of(parts[0]).shape[axis])
            if len(row) < 2:
                continue
            whole = ops.concat([alike[number].x for number in row], axis=axis)
            if any(d != 0 for d in (*low, *high)):
                whole = ops.pad(whole, number_like(0.0, whole), low=low, high=high)
            first = min(row)
            rest = [(number, part) for number, part in enumerate(parts) if number == first or number not in row]
            return joined([whole if number == first else part for number, part in rest])
    return list(parts)


def _tiles(padded: dict[int, _Padded], axis: int, length: Dim) -> list[int]:
    """The keys of tensors that lie one behind the other and fill the axis; none if there are no such."""
    starts: dict[Dim, int] = {}
    for number, each in padded.items():
        starts.setdefault(each.low[axis], number)
    row: list[int] = []
    end: Dim = 0
    while end != length and end in starts:
        row.append(starts.pop(end))
        end = end + type_of(padded[row[-1]].x).shape[axis]
    return row if end == length else []


def _padding(value: Value) -> _Padded | None:
    """The operand of a `pad` by zeros around it, which has elements."""
    if isinstance(value, Deferred):
        application = value.application
        if application is None or application.op.OP_NAME != "pad":
            return None
        (x, outside), attrs = application.operands, application.attrs
    else:
        op = is_named(value, "pad")
        if op is None:
            return None
        x, outside, attrs = op.x, op.value, op.attrs
    if any(attrs["interior"]) or written(outside) != 0 or 0 in type_of(x).shape:
        return None
    return _Padded(x, attrs["low"], attrs["high"])
