"""Reductions over sliding windows, which pools are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import number
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import type_of
from burn.importers.jax.equation import Equation, primitive
from burn.importers.lax.reduction import Combine, identity
from burn.importers.lax.scalars import like
from burn.importers.lax.select_and_scatter import select_and_scatter
from burn.importers.lax.windows import reduce_window, reduce_window_with


def _pads(eqn: Equation, padding: Any) -> list[tuple[Dim, Dim]]:
    return [(low, high) for low, high in map(eqn.sizes, padding)]


KINDS = {"reduce_window_sum": "sum", "reduce_window_max": "max", "reduce_window_min": "min"}


@primitive(*KINDS)
def of_kind(
    eqn: Equation,
    x: Value,
    *,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> Value:
    pads = _pads(eqn, padding)
    return reduce_window(
        x,
        KINDS[eqn.op],
        window_dimensions,
        window_strides,
        pads,
        base_dilation,
        window_dilation,
    )


@primitive("reduce_window")
def by_function(
    eqn: Equation,
    *operands: Value,
    jaxpr: Any,
    consts: Any,
    padding: Any,
    **window: Any,
) -> list[Value]:
    count = len(operands) // 2

    def combine(a: Any, b: Any) -> list[Value]:
        return eqn.elementwise(jaxpr, [*a, *b], consts)

    return reduced(eqn, operands[:count], operands[count:], padding, combine, **window)


def reduced(
    eqn: Equation,
    xs: Sequence[Value],
    starts: Sequence[Value],
    padding: Any,
    combine: Combine,
    *,
    window_dimensions: Any,
    window_strides: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> list[Value]:
    """A reduction by any function of two lists of elements."""
    return reduce_window_with(
        xs,
        starts,
        window_dimensions,
        window_strides,
        _pads(eqn, padding),
        base_dilation,
        window_dilation,
        combine,
    )


@primitive("select_and_gather_add")
def select_and_gather_add(
    eqn: Equation,
    tangents: Value,
    x: Value,
    *,
    select_prim: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> Value:
    """The tangent of each window's extreme."""
    above = select_prim.name == "ge"
    compare = ops.ge if above else ops.le

    def combine(a: Any, b: Any) -> list[Value]:
        first = compare(a[0], b[0])
        return [ops.select(first, p, q) for p, q in zip(a, b, strict=True)]

    starts = [identity("max" if above else "min", x), number(0, type_of(tangents).dtype)]
    return reduce_window_with(
        [x, tangents],
        starts,
        window_dimensions,
        window_strides,
        _pads(eqn, padding),
        base_dilation,
        window_dilation,
        combine,
    )[1]


@primitive("select_and_scatter_add")
def select_and_scatter_add(
    eqn: Equation,
    source: Value,
    x: Value,
    *,
    select_prim: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
) -> Value:
    """Adds each window's number to the window's extreme: the gradient of a maximum pool."""
    pads = _pads(eqn, padding)
    start = like(0, source)
    return select_and_scatter(
        x,
        source,
        start,
        select_prim.name,
        "add",
        window_dimensions,
        window_strides,
        pads,
    )


@primitive("select_and_scatter")
def by_functions(
    eqn: Equation,
    x: Value,
    source: Value,
    start: Value,
    *,
    select_jaxpr: Any,
    select_consts: Any,
    scatter_jaxpr: Any,
    scatter_consts: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
) -> Value:
    """Selects, and combines scattered elements, by the user's functions of two elements."""
    pads = _pads(eqn, padding)
    return select_and_scatter(
        x,
        source,
        start,
        lambda a, b: eqn.elementwise(select_jaxpr, [a, b], select_consts)[0],
        lambda a, b: eqn.elementwise(scatter_jaxpr, [a, b], scatter_consts)[0],
        window_dimensions,
        window_strides,
        pads,
    )
