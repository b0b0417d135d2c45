"""Constants and small helpers of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.dialect.compose import broadcast_to, number
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES, TensorType, type_of


def kind_of(x: Value) -> str:
    """float, small, int, uint, bool or complex."""
    return DTYPES[type_of(x).dtype].kind


def bits_of(x: Value) -> int:
    return DTYPES[type_of(x).dtype].bits


def like(value: float | int | bool, x: Value) -> Value:
    """A scalar of x's element type."""
    return number(value, type_of(x).dtype)


def extreme(dtype: str, highest: bool) -> int:
    """The largest or smallest integer of an element type."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind == "int":
        return 2 ** (bits - 1) - 1 if highest else -(2 ** (bits - 1))
    return 2**bits - 1 if highest else 0


def full(type_: TensorType, value: float | int | bool) -> Value:
    """A tensor of one repeated number."""
    return broadcast_to(number(value, type_.dtype), type_.shape)


def unsigned(bits: int) -> str:
    return f"uint{bits}"


def folded(parts: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """The values combined pairwise, neighbours first, in log2(n) levels."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def is_empty(shape: Sequence[Dim]) -> bool:
    """True if a size is known to be 0."""
    return any(isinstance(d, int) and d == 0 for d in shape)
