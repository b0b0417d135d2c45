"""Counted loops: their number of iterations, indices that follow their counter, and the same loop with other results."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.control import Loop, yielded
from burn.dialect.dims import Dim, dim_max
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import integers, op_of
from burn.dialect.shape import DimValues
from burn.dialect.types import type_of


def body(loop: Loop) -> ir.Block:
    return loop.operation.regions[0].blocks[0]


def scalar(value: ir.Value) -> Dim | None:
    """A scalar that is a number or a size; None for any other value."""
    op: Op | None = op_of(value)
    if isinstance(op, DimValues):
        return op.dims[0] if len(op.dims) == 1 else None
    numbers = integers(value)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def most_iterations(loop: Loop) -> Dim | None:
    """An upper bound of a loop's iterations, if it is a number or a size outside of the loop."""
    own = set(loop.symbols)
    for result in list(loop.operation.results)[len(loop.args[2]) :]:
        if str(type_of(result).shape[0]) not in own:
            return type_of(result).shape[0]
    return None if loop.trips is None else scalar(loop.trips)


def iterations(loop: Loop) -> Dim | None:
    """The number of iterations of a loop that no condition ends, if it is a number or a size outside of the loop."""
    most = most_iterations(loop) if loop.is_counted else None
    return None if most is None else dim_max(most, 0)


def linear(index: ir.Value, counter: ir.Value) -> tuple[int, Dim] | None:
    """The factor, 1, 0 or -1, of the counter in an index, and the number added to it; None for any other index."""
    if index == counter:
        return 1, 0
    if (number := scalar(index)) is not None:
        return 0, number
    op = op_of(index)
    if op is None or op.OP_NAME not in ("add", "sub"):
        return None
    lhs, rhs = linear(op.lhs, counter), linear(op.rhs, counter)
    if lhs is None or rhs is None:
        return None
    sign = 1 if op.OP_NAME == "add" else -1
    factor = lhs[0] + sign * rhs[0]
    return (factor, lhs[1] + rhs[1] * sign) if abs(factor) <= 1 else None


def with_results(
    loop: Loop, carried: Sequence[int], stacked: Sequence[int], more: Sequence[ir.Value] = ()
) -> list[ir.Value]:
    """Replaces a loop by one with some of its results, and returns the new results in this order.

    carried, stacked: numbers of the results that stay. more: values of the body that the new loop also stacks.

    Its body may not use carried values that are left out, and no op may use results that are left out. `more` needs the number
    of iterations (`iterations`)."""
    old, block = list(loop.operation.results), body(loop)
    going, *given = yielded(loop.operation.regions[0])
    arguments = list(block.arguments)
    length = iterations(loop)
    assert length is not None or not more
    types = [type_of(old[i]) for i in (*carried, *stacked)]
    types += [type_of(v).with_shape((length, *type_of(v).shape)) for v in more if length is not None]
    with loop.operation.location, ir.InsertionPoint(loop.operation):
        operation = Loop.create(
            loop.trips,
            loop.condition,
            [loop.args[2][i] for i in carried],
            result_types=types,
            scans=len(stacked) + len(more),
            symbols=loop.symbols,
        )
        kept = [*arguments[:2], *(arguments[2 + i] for i in carried)]
        made = operation.regions[0].blocks.append(*[a.type for a in kept])
        for argument, new in zip(kept, made.arguments, strict=True):
            argument.replace_all_uses_with(new)
    terminator = list(block.operations)[-1].operation
    names = dict(zip(kept, made.arguments, strict=True))
    values = [names.get(v, v) for v in (going, *(given[i] for i in (*carried, *stacked)), *more)]
    for inner in list(block.operations)[:-1]:
        made.append(inner.operation)
    with terminator.location, ir.InsertionPoint(made):
        from burn.dialect import ops

        ops.yield_(values)
    results = list(operation.results)
    for i, new in zip((*carried, *stacked), results, strict=False):
        old[i].replace_all_uses_with(new)
    loop.operation.erase()
    return results
