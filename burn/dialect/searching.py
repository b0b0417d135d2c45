"""Binary search of sorted rows, as ops."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, reshape
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, type_of

COMPARED = 64
"""Values are compared with every element of rows up to this long: a few vectors hold such a row. An estimate, not measured.
No preference of a target, since the op is built before its device is known."""


def positions(rows: ir.Value, values: ir.Value, right: bool, nans_last: bool = False) -> ir.Value:
    """How many elements of a sorted row lie below each value or, with `right`, not above it.

    Shapes: rows [n], values of any shape; or rows [..., n], values [..., m]. Both are of one dtype, which has an order; n may be
    dynamic if rows have one axis. Returns int64 of the shape of values. NaN lies above every number of the rows. `nans_last`:
    from the left it lies below the NaN of the rows, as in numpy; otherwise above them, as in torch."""
    type_, shape = type_of(rows), type_of(values).shape
    n = type_.shape[-1]
    floats = type_.dtype in FLOATS

    def lies_before(element: ir.Value, value: ir.Value) -> ir.Value:
        before = (ops.le if right else ops.lt)(element, value)
        if not floats:
            return before
        beyond = ops.isnan(value)
        if nans_last and not right:
            beyond = ops.and_(beyond, ops.not_(ops.isnan(element)))
        return ops.or_(before, beyond)

    if not isinstance(n, int) or n <= COMPARED:
        line = rows if type_.rank == 1 else reshape(rows, (*type_.shape[:-1], 1, n))
        below = lies_before(line, reshape(values, (*shape, 1)))
        return ops.reduce(convert(below, "int64"), kind="sum", axes=(len(shape),))
    total = product(type_.shape)
    index = "int32" if isinstance(total, int) and total < 2**31 else "int64"
    flat, wanted, first = rows, values, number(0, index)
    if type_.rank > 1:
        count: Dim = product(type_.shape[:-1])
        flat = reshape(rows, (count * n,))
        wanted = reshape(values, (count, shape[-1]))
        first = ops.mul(ops.iota(shape=(count, 1), axis=0, dtype=index), number(n, index))
    found, length = broadcast_to(first, type_of(wanted).shape), n
    while length:  # the number is between 0 and `length`, from `found` on
        half = max(length // 2, 1)
        element = ops.gather(flat, ops.add(found, number(half - 1, index)), axis=0)
        step = ops.select(lies_before(element, wanted), number(half, index), number(0, index))
        found, length = ops.add(found, step), length - half
    return reshape(convert(ops.sub(found, first), "int64"), shape)
