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
    them; the others keep their order. The time is linear in the number of parts: programs unroll loops over slices."""
    left = dict(enumerate(parts))
    padded = {number: each for number, part in left.items() if (each := _padding(part)) is not None}
    shape = type_of(parts[0]).shape
    changed = True
    while changed and len(padded) > 1:
        changed = False
        for axis, length in enumerate(shape):
            alike: dict[object, dict[int, _Padded]] = {}
            for number, each in padded.items():
                alike.setdefault(each.across(axis), {})[number] = each
            for group in alike.values():
                for row in _tilings(group, axis, length):
                    changed = True
                    first = min(row)
                    left[first] = _concat([group[number] for number in row], axis)
                    for number in row:
                        del padded[number]
                        if number != first:
                            del left[number]
                    if (whole := _padding(left[first])) is not None:
                        padded[first] = whole
    return list(left.values())


def _concat(row: Sequence[_Padded], axis: int) -> Value:
    """Tensors that fill an axis, as one value with their zeros along the other axes."""
    whole = ops.concat([each.x for each in row], axis=axis)
    low, high = row[0].across(axis)
    return ops.pad(whole, number_like(0.0, whole), low=low, high=high) if any(d != 0 for d in (*low, *high)) else whole


def _tilings(padded: dict[int, _Padded], axis: int, length: Dim) -> list[list[int]]:
    """The keys of tensors that lie one behind the other and fill the axis, in rows of two or more. No key is in two rows."""
    starts: dict[Dim, list[int]] = {}
    for number, each in reversed(padded.items()):
        starts.setdefault(each.low[axis], []).append(number)
    rows: list[list[int]] = []
    while starts.get(0):
        row = [starts[0].pop()]
        end: Dim = type_of(padded[row[0]].x).shape[axis]
        while end != length and starts.get(end):
            row.append(starts[end].pop())
            end = end + type_of(padded[row[-1]].x).shape[axis]
        if end == length and len(row) > 1:
            rows.append(row)
    return rows


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
