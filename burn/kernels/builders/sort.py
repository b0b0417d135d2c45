"""Sorts along an axis, in parallel: see `ranks.py`."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES, type_of
from burn.kernels.body import Apply, Const, Convert, Reinterpret, Scalar, Write
from burn.kernels.builders.builder import Builder, Call, anchor_of, convert
from burn.kernels.builders.ranks import Ranked, Ranks
from burn.kernels.lower import Indices, linear
from burn.kernels.preferences import Preferences


def is_sortable(dtype: str) -> bool:
    """True for elements that have keys."""
    return DTYPES[dtype].kind in ("float", "small", "int", "uint", "bool")


def build(group: Group, preferences: Preferences) -> list[Call]:
    op = anchor_of(group, "sort")
    type_ = type_of(op.x)
    shape = type_.shape or (1,)
    axis = op.axis % len(shape)
    lines, count = (*shape[:axis], *shape[axis + 1 :]), shape[axis]

    def whole(line: Indices, position: Dim) -> Indices:
        """An index of x."""
        return (*line[:axis], position, *line[axis:]) if type_.shape else ()

    def key(builder: Builder, line: Indices, position: Dim) -> Scalar:
        return key_of(builder.low.at(op.x, whole(line, position)), op.descending)

    def writes(builder: Builder, element: Ranked) -> Sequence[Write]:
        offset = linear(whole(element.line, element.rank), type_.shape)
        value = builder.low.at(op.x, whole(element.line, element.position))
        made = dict(zip(op.operation.results, (value, convert(element.order, "int64")), strict=True))
        return [Write(builder.out(number), offset, made[result]) for number, result in enumerate(group.yielded)]

    return Ranks(group, lines, count, _key_type(type_.dtype)).calls(key, writes)


def _key_type(dtype: str) -> str:
    return "int64" if DTYPES[dtype].bits == 64 else "int32"


def key_of(x: Scalar, descending: bool = False) -> Scalar:
    """An int32 or int64 that orders elements as burn.sort does: NaN is the largest, and zeros are equal."""
    dtype = _key_type(x.dtype)
    bits = DTYPES[dtype].bits
    lowest = -(1 << (bits - 1))
    kind = DTYPES[x.dtype].kind
    if kind in ("float", "small"):
        wide = convert(x, "float64" if bits == 64 else "float32")
        word = Reinterpret(dtype, wide)
        zero, largest = Const(dtype, 0), Const(dtype, ~lowest)
        turned = Apply(dtype, "xor", (word, largest))  # a larger magnitude below zero is a lesser number
        key: Scalar = Apply(dtype, "select", (Apply("bool", "lt", (word, zero)), turned, word))
        key = Apply(dtype, "select", (Apply("bool", "eq", (wide, Const(wide.dtype, 0))), zero, key))
        key = Apply(dtype, "select", (Apply("bool", "isnan", (wide,)), largest, key))
    elif kind == "uint" and DTYPES[x.dtype].bits == bits:
        key = Apply(dtype, "xor", (Reinterpret(dtype, x), Const(dtype, lowest)))
    else:
        key = x if x.dtype == dtype else Convert(dtype, x)
    return Apply(dtype, "xor", (key, Const(dtype, -1))) if descending else key
