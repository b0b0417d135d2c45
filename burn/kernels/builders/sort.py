"""Sorts along an axis, in parallel: see `ranks.py`."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES, type_of
from burn.kernels.body import Apply, Const, Convert, Reinterpret, Scalar, Write
from burn.kernels.builders.builder import Builder, Call, anchor_of, convert
from burn.kernels.builders.digits import ranks_of
from burn.kernels.builders.ranks import Keys, Ranked
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

    return ranks_of(group, lines, count, keys_of(type_.dtype), preferences.sorting).calls(key, writes)


def keys_of(dtype: str) -> Keys:
    """The keys that `key_of` makes."""
    info, key = DTYPES[dtype], _key_type(dtype)
    if info.kind in ("float", "small"):
        return _FLOATS.get(dtype, Keys(key, DTYPES[key].bits))
    return Keys(key, info.bits, signed=info.kind == "int" or info.bits == DTYPES[key].bits)


_FLOATS = {
    dtype: Keys("int32", 9 + digits, 23 - digits)
    for dtype, digits in {"float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}.items()
}
"""Keys of narrow floats. They are widened: the lower digits of a float32 are zeros."""


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
