"""select_and_scatter: of every window one element is selected, and a source element is added there (the derivative of a
maximum over windows)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, number, reshape
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, product
from burn.dialect.types import type_of
from burn.importers.lax.gather import Addressing, Combine, scatter
from burn.importers.lax.scalars import is_empty, like
from burn.importers.lax.shaping import pad
from burn.importers.lax.windows import window_shape

Select = Callable[[Value, Value], Value]
SELECTS: dict[str, Select] = {
    "ge": lambda a, b: ops.ge(a, b),
    "gt": lambda a, b: ops.gt(a, b),
    "le": lambda a, b: ops.le(a, b),
    "lt": lambda a, b: ops.lt(a, b),
}


def select_and_scatter(
    x: Value,
    source: Value,
    start: Value,
    select: str | Select,
    combine: str | Combine,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
) -> Value:
    """Shapes: x [d..], source [windows..], start [] -> x's. Every element of the result is `start`, combined with the source of
    each window in which x's element is selected.

    select: "ge", "gt", "le", "lt" or a function of (the selected element so far, the next one): false selects the next one. The
    window's elements come in row-major order; padding is never selected. combine: as the reduction of `scatter`."""
    type_ = type_of(x)
    initial = broadcast_to(start, type_.shape)
    low, high = [p[0] for p in padding], [p[1] for p in padding]
    none = [0] * type_.rank
    values = pad(x, like(0, x), low, high, none)
    count = product(type_.shape)
    numbers = reshape(ops.iota(shape=(count,), axis=0), type_.shape)
    indices = pad(numbers, number(-1, "int64"), low, high, none)
    shape = window_shape(type_of(values).shape, window, strides, (1,) * type_.rank)
    if is_empty(shape) or is_empty(type_.shape) or 0 in window:
        return initial
    keep = SELECTS[select] if isinstance(select, str) else select
    chosen = broadcast_to(number(-1, "int64"), shape)
    best = broadcast_to(like(0, x), shape)
    for at in itertools.product(*(range(n) for n in window)):
        value, index = (ops.slice(v, starts=at, sizes=shape, steps=tuple(strides)) for v in (values, indices))
        first = ops.lt(chosen, number(0, "int64"))
        takes = ops.and_(ops.ge(index, number(0, "int64")), ops.or_(first, ops.not_(keep(best, value))))
        chosen, best = ops.select(takes, index, chosen), ops.select(takes, value, best)
    total = product(shape)
    how = Addressing(offset=(), collapsed=(0,), addressed=(0,), vector=1)
    flat = scatter(
        reshape(initial, (count,)), reshape(chosen, (total,)), reshape(source, (total,)), how, combine, mode="fill"
    )
    return reshape(flat, type_.shape)
