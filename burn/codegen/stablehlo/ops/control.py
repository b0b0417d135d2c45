"""`burn.if` and `burn.loop`, where no size depends on data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.codegen.stablehlo.builder import Value
from burn.codegen.stablehlo.elements import carrier
from burn.codegen.stablehlo.emitter import Disagreement, Emission, Site, emits
from burn.dialect.control import yielded
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import blocks, op_of, splat
from burn.dialect.traits import Trait
from burn.dialect.types import type_of

Blocks = Callable[[], list[Value]]


def watches(region: ir.Region) -> bool:
    """True if an op in a region, at any depth, checks data."""
    return any(
        isinstance(op := operation.opview, Op) and (op.has(Trait.INDEXED) or op.OP_NAME == "check_finite")
        for block in region.blocks
        for inner in blocks(block)
        for operation in inner.operations
    )


def _region(emission: Emission, region: ir.Region, results: Sequence[ir.Value]) -> list[Value]:
    """The yielded values. If sizes do not fit, results of the right types, and the run ends if it gets there."""
    try:
        emission.block([operation.opview for operation in region.blocks[0].operations])
        return [emission.values[value] for value in yielded(region)]
    except Disagreement as error:
        if not emission.checks:
            raise
        emission.fail(error)
        types_ = [type_of(value) for value in results]
        return [emission.b.full(0, tuple(map(emission.b.size, t.shape)), carrier(t.dtype)) for t in types_]


@emits("group")
def group(site: Site) -> list[Value]:
    """Its ops, one by one: XLA fuses for its own device."""
    block = site.op.operation.regions[0].blocks[0]
    for number, argument in enumerate(block.arguments):
        site.emission.values[argument] = site.x(number)
    site.emission.block([operation.opview for operation in block.operations])
    return [site.value(value) for value in yielded(site.op.operation.regions[0])]


@emits("if")
def if_(site: Site) -> list[Value]:
    emission, op, b = site.emission, site.op, site.b
    outside = emission.watched() if emission.checks else None

    def block(region: ir.Region) -> Blocks:
        def write() -> list[Value]:
            emission.failure = outside
            values = _region(emission, region, op.operation.results)
            return [*values, *(emission.failure or ())]

        return write

    results = b.branch(site.x(0), *(block(region) for region in op.operation.regions))
    return _without_failure(emission, results, len(op.operation.results))


def _without_failure(emission: Emission, results: list[Value], count: int) -> list[Value]:
    emission.failure = (results[count], results[count + 1]) if emission.checks else None
    return results[:count]


@emits("loop")
def loop(site: Site) -> list[Value]:
    """Carried: the iteration, the condition, the loop's carried values, stacked slices so far, the failure."""
    emission, op, b = site.emission, site.op, site.b
    trips_value, condition, carried = op.args
    region = op.operation.regions[0]
    block = region.blocks[0]
    stacked = list(op.operation.results)[len(carried) :]
    length = b.size(type_of(stacked[0]).shape[0]) if stacked else None
    trips = length if length is not None else _known_trips(site, trips_value)
    limit = None if trips_value is None else (site.value(trips_value) if trips is None else b.size_value(trips))
    start = [b.scalar(0, "int64"), b.scalar(True, "bool") if condition is None else site.value(condition)]
    start += [site.value(value) for value in carried]
    start += [b.full(0, site.sizes(t.shape), carrier(t.dtype)) for t in map(type_of, stacked)]
    start += emission.watched() if emission.checks else ()
    at = 2 + len(carried)

    def going(values: Sequence[Value]) -> Value:
        found = values[1]
        if limit is not None:
            found = b.and_(found, b.compare("LT", values[0], limit))
        if emission.checks:
            found = b.and_(found, b.compare("EQ", values[-2], b.scalar(0, "int64")))
        return found

    def body(values: Sequence[Value]) -> list[Value]:
        for argument, value in zip(block.arguments, values[:at], strict=True):
            emission.values[argument] = value
        emission.failure = (values[-2], values[-1]) if emission.checks else None
        inside = yielded(region)
        following, *given = _region(emission, region, inside)
        pieces = given[len(carried) :]
        stacks = [
            b.update(stack, b.reshape(piece, (1, *b.shape_of(piece))), values[0])
            for stack, piece in zip(values[at : at + len(stacked)], pieces, strict=True)
        ]
        number = b.binary("add", values[0], b.scalar(1, "int64"))
        return [number, following, *given[: len(carried)], *stacks, *(emission.failure or ())]

    counted = trips if op.is_counted and isinstance(trips, int) and not emission.checks else None
    results = b.loop(going, body, start, counted)
    if emission.checks:
        emission.failure = results[-2], results[-1]
    return results[2 : 2 + len(op.operation.results)]


def _known_trips(site: Site, trips: ir.Value | None) -> int | None:
    """The trip count, where the program says it."""
    op = None if trips is None else op_of(trips)
    if op is None:
        return None
    if op.OP_NAME == "dim_values":
        size = site.b.size(op.dims[0])
        return size if isinstance(size, int) else None
    number = splat(trips)
    return None if number is None else int(number)
