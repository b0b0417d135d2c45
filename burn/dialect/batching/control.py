"""Batching of branches and loops.

A condition that all examples share stays a branch or a loop, with batched regions. If the condition differs between examples,
both branches run for all of them, and each example selects. A loop then runs as long as the condition of one example holds, and
the others keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from burn.dialect import ops
from burn.dialect.batching.rules import Item, aligned, moved
from burn.dialect.compose import number
from burn.dialect.control import If, Loop, captured, region_symbols, yielded
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import TensorType, type_of

if TYPE_CHECKING:
    from burn.dialect.batching.walk import Walk


def of_if(walk: Walk, op: Op) -> list[Any]:
    condition = walk.item(op.condition)
    if condition.mapped:
        return _selected(walk, op, condition)
    types = [_batched(walk, type_of(r)) for r in op.operation.results]
    operation = If.create(condition.value, result_types=types, symbols=op.symbols)
    for region, made in zip(op.operation.regions, operation.regions, strict=True):
        with ir.InsertionPoint(made.blocks.append()):
            ops.yield_([item.all(walk.size) for item in walk.block(region.blocks[0])])
    return list(operation.results)


def _batched(walk: Walk, type_: TensorType) -> TensorType:
    return type_.with_shape((walk.size, *type_.shape))


def _selected(walk: Walk, op: Op, condition: Item) -> list[Any]:
    """Runs both branches."""
    if op.symbols:
        walk.refuse(op, "the examples' conditions differ, and its branches return different sizes")
    for region in op.operation.regions:
        _must_be_pure(walk, op, region)
    thens, elses = (walk.block(region.blocks[0]) for region in op.operation.regions)
    results = []
    for a, b in zip(thens, elses, strict=True):
        flag = aligned(condition, a.type.rank)
        results.append(ops.select(flag, aligned(a, a.type.rank), aligned(b, b.type.rank)))
    return results


def _must_be_pure(walk: Walk, op: Op, region: ir.Region) -> None:
    """A branch that not all examples take has no effects."""
    if names := region_symbols(region):
        walk.refuse(
            op, f"the examples' conditions differ, and sizes are found out inside of it ({', '.join(sorted(names))})"
        )
    for block in region.blocks:
        for inner in block.operations:
            found = inner.opview
            if isinstance(found, Op) and not found.PURE and found.OP_NAME not in (*RULES, "yield"):
                walk.refuse(op, f"the examples' conditions differ, and burn.{found.OP_NAME} inside of it has an effect")
            for nested in inner.operation.regions:
                _must_be_pure(walk, op, nested)


# ---- loops -------------------------------------------------------------------------------------------------------------
def of_loop(walk: Walk, op: Op) -> list[Any]:
    count = len(op.carried)
    flags = [walk.item(v).mapped for v in op.carried]
    while True:  # what becomes mapped in one iteration is mapped in the next
        given = _flow(walk, op, flags)
        new = [a or b for a, b in zip(flags, given[1 : 1 + count], strict=True)]
        if new == flags:
            break
        flags = new
    ends = [v is not None and walk.item(v).mapped for v in (op.trips, op.condition)]
    if any(ends) or given[0]:
        return _until_all_end(walk, op)
    arguments = list(op.operation.regions[0].blocks[0].arguments)
    initial = [walk.item(v).all(walk.size) if m else walk.item(v).value for v, m in zip(op.carried, flags, strict=True)]
    types = [_batched(walk, type_of(r)) if m else type_of(r) for r, m in zip(op.operation.results, flags, strict=False)]
    slices = [type_of(r) for r in op.operation.results[count:]]
    stacked = given[1 + count :]
    for type_, is_mapped in zip(slices, stacked, strict=True):
        size = (walk.size,) if is_mapped else ()
        types.append(type_.with_shape((type_.shape[0], *size, *type_.shape[1:])))
    limits = [None if v is None else walk.item(v).value for v in (op.trips, op.condition)]
    operation = Loop.create(*limits, initial, result_types=types, scans=op.scans, symbols=op.symbols)
    inner = [_batched(walk, type_of(a)) if m else type_of(a) for a, m in zip(arguments[2:], flags, strict=True)]
    kinds = [type_of(a) for a in arguments[:2]] + inner
    block = operation.regions[0].blocks.append(*[t.to_mlir() for t in kinds])
    with ir.InsertionPoint(block):
        for old, new, is_mapped in zip(arguments, block.arguments, [False, False, *flags], strict=True):
            walk.define(old, Item(new, is_mapped))
        items = walk.block(op.operation.regions[0].blocks[0])
        wanted = [False, *flags, *stacked]
        ops.yield_([i.all(walk.size) if m else i.value for i, m in zip(items, wanted, strict=True)])
    results = [Item(r, m) for r, m in zip(operation.results, flags, strict=False)]
    results += [
        Item(moved(r, 1, 0) if m else r, m) for r, m in zip(list(operation.results)[count:], stacked, strict=True)
    ]
    return results


def _flow(walk: Walk, op: Op, flags: Sequence[bool]) -> list[bool]:
    """Which of the values that a loop's body yields are mapped, if `flags` says so of those it carries."""
    block = op.operation.regions[0].blocks[0]
    mapped = {a for a, flag in zip(list(block.arguments)[2:], flags, strict=True) if flag}
    mapped |= {v for v in captured(op) if v in walk.mapped}
    for operation in block.operations:
        inner = operation.opview
        assert isinstance(inner, Op)
        used = (*operation.operation.operands, *captured(inner))
        if any(v in mapped for v in used) or (walk.randomness == "different" and draws(operation.operation)):
            mapped.update(operation.operation.results)
    return [v in mapped for v in yielded(op.operation.regions[0])]


def draws(operation: ir.Operation) -> bool:
    """True if an op draws numbers from the run's random state, or an op of its regions does."""
    if operation.name == "burn.random_key":
        return True
    return any(draws(inner.operation) for r in operation.regions for block in r.blocks for inner in block.operations)


def _until_all_end(walk: Walk, op: Op) -> list[Any]:
    """A loop whose examples end in different iterations carries a flag for each."""
    if op.scans:
        why = (
            "its examples end in different iterations, and it stacks a slice for each (as a loop with a gradient does)"
        )
        walk.refuse(op, f"{why}; differentiate the mapped loop instead: burn.grad of burn.vmap")
    region = op.operation.regions[0]
    arguments = list(region.blocks[0].arguments)
    if op.symbols or any(type_of(a) != type_of(r) for a, r in zip(arguments[2:], op.operation.results, strict=True)):
        walk.refuse(op, "its examples end in different iterations, and what it carries changes its size")
    _must_be_pure(walk, op, region)
    size = walk.size
    trips = None if op.trips is None else walk.item(op.trips)
    limit = trips if trips is not None and trips.mapped else None
    start = Item(number(True, "bool"), False) if op.condition is None else walk.item(op.condition)
    running = start.all(size)
    if limit is not None:
        running = ops.and_(running, ops.gt(limit.value, number(0, "int64")))
    initial = [walk.item(v).all(size) for v in op.carried]
    shared = trips.value if trips is not None and limit is None else None
    types = [*map(type_of, initial), type_of(running)]
    operation = Loop.create(shared, _any(running), [*initial, running], result_types=types)
    block = operation.regions[0].blocks.append(*[t.to_mlir() for t in (*map(type_of, arguments[:2]), *types)])
    with ir.InsertionPoint(block):
        iteration, going, *carried, running = block.arguments
        for old, new, is_mapped in zip(
            arguments, (iteration, going, *carried), [False, False, *[True] * len(carried)], strict=True
        ):
            walk.define(old, Item(new, is_mapped))
        following, *items = walk.block(region.blocks[0])
        kept = []
        for item, before in zip(items, carried, strict=True):
            rank = item.type.rank
            flag = aligned(Item(running, True), rank)
            kept.append(ops.select(flag, aligned(item, rank), before))
        still = ops.and_(running, following.value)
        if limit is not None:
            done = ops.add(iteration, number(1, "int64"))
            still = ops.and_(still, ops.lt(done, limit.value))
        ops.yield_([_any(still), *kept, still])
    return list(operation.results)[:-1]


def _any(flags: ir.Value) -> ir.Value:
    return ops.reduce(flags, kind="any", axes=(0,))


RULES: dict[str, Callable[[Walk, Op], list[Any]]] = {"if": of_if, "loop": of_loop}
