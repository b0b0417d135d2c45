"""Resolves control flow and sizes that are known: branches, loops and `read_dim`.

These are not laws in the sense of `law.py`: they replace ops that define sizes, and may move whole regions.
"""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.compose import number, reshape
from burn.dialect.control import Loop, Yield, yielded
from burn.dialect.dims import Dim, Symbol, decide, substitute
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast
from burn.dialect.program import Program
from burn.dialect.query import has_regions, integers, op_of, splat
from burn.dialect.shape import DimValues, Reshape
from burn.dialect.types import TensorType, type_of
from burn.passes.algebra.loop_results import prune
from burn.passes.sizes import replace_sizes


def resolve(program: Program) -> int:
    """Resolves all ops of these kinds that it can; returns how many."""
    count = 0
    while True:
        sizes: dict[str, Dim] = {}
        found = _scan(program.block, sizes)
        if sizes:
            replace_sizes(program, sizes)
        if not found:
            return count
        count += found


def _scan(block: ir.Block, sizes: dict[str, Dim]) -> int:
    """Resolves ops of a block, inner regions first; returns how many. Adds the values of the sizes that they defined. Ops that
    moved out of a region may need another scan."""
    count = 0
    for operation in list(block.operations):
        op = operation.opview
        if not has_regions(operation) and not (isinstance(op, Op) and op.OP_NAME in RESOLVERS):
            continue
        if operation.operation.name != "burn.group":
            count += sum(_scan(inner, sizes) for region in operation.operation.regions for inner in region.blocks)
        if not isinstance(op, Op) or op.OP_NAME not in RESOLVERS:
            continue
        if isinstance(op, Loop) and prune(op):
            count += 1
            continue
        with op.operation.location, ir.InsertionPoint(op.operation):
            known = RESOLVERS[op.OP_NAME](op)
        if known is None:
            continue
        op.operation.erase()
        closed = {name: _closed(dim, known) for name, dim in sizes.items()}
        sizes.update(closed | {name: _closed(dim, closed) for name, dim in known.items()})
        count += 1
    return count


def _closed(dim: Dim, sizes: dict[str, Dim]) -> Dim:
    return substitute(dim, {Symbol(name): value for name, value in sizes.items()})


def _read_dim(op: Op) -> dict[str, Dim] | None:
    """A size read from a constant, or from a tensor of sizes"""
    source = op_of(op.x)
    while source is not None and isinstance(source, Reshape | Cast):
        source = op_of(source.x)
    if source is None:
        return None
    if isinstance(source, DimValues):
        size: Dim = source.dims[op.position]
    else:
        numbers = integers(source.operation.results[0])
        if numbers is None:
            return None
        size = numbers[op.position]
    return {op.symbol: size} if decide(size, ">=", op.minimum) else None


def _check_size(op: Op) -> dict[str, Dim] | None:
    """A condition on sizes that always holds"""
    return {} if decide(op.size, op.relation, op.bound) else None


def _if(op: Op) -> dict[str, Dim] | None:
    """if true then a else b = a; erases an unused choice"""
    if not op.symbols and not _is_read(op) and _is_pure(op):
        return {}
    condition = splat(op.condition)
    return None if condition is None else _inline(op, 0 if condition else 1, [])


def _is_read(op: Op) -> bool:
    return any(True for result in op.operation.results for _ in result.uses)


def _is_pure(op: Op) -> bool:
    """True if the op's regions only compute."""
    inner = [o.opview for region in op.operation.regions for block in region.blocks for o in block.operations]
    return all(isinstance(o, Op) and (o.PURE or isinstance(o, Yield)) for o in inner)


def _loop(op: Op) -> dict[str, Dim] | None:
    """A loop without iterations yields its initial values; one of a single iteration is its body; an unused one that
    terminates is erased"""
    if op.trips is not None and not op.symbols and not _is_read(op) and _is_pure(op):
        return {}
    trips = integers(op.trips) if op.trips is not None else None
    condition = splat(op.condition) if op.condition is not None else True
    none = condition is False or (trips is not None and trips[0] <= 0)
    if none:
        return _skip(op)
    if condition is None or trips is None or trips[0] != 1:
        return None
    return _inline(op, 0, [number(0, "int64"), number(True, "bool"), *op.carried])


def _skip(op: Op) -> dict[str, Dim]:
    """The initial values, and empty stacks."""
    values = list(op.carried)
    for result in list(op.operation.results)[len(values) :]:
        type_ = type_of(result)
        rest = (0 if str(d) in op.symbols else d for d in type_.shape[1:])
        values.append(ops.full(shape=(0, *rest), dtype=type_.dtype))
    return _replace(op, values)


def _inline(op: Op, region: int, arguments: list[ir.Value]) -> dict[str, Dim]:
    """Moves a region's ops before the op and replaces the region's arguments."""
    block = op.operation.regions[region].blocks[0]
    values = yielded(op.operation.regions[region])
    sizes: dict[str, Dim] = {}
    for mine, given in zip(block.arguments, arguments, strict=True):
        sizes |= _matched(op, type_of(mine), type_of(given))
        values = [given if v == mine else v for v in values]
        mine.replace_all_uses_with(given)
    for operation in list(block.operations)[:-1]:
        operation.operation.move_before(op.operation)
    if isinstance(op, Loop):
        carried = len(op.carried)
        stacked = [reshape(v, (1, *type_of(v).shape)) for v in values[1 + carried :]]
        values = [*values[1 : 1 + carried], *stacked]
    return sizes | {name: _closed(dim, sizes) for name, dim in _replace(op, values).items()}


def _replace(op: Op, values: list[ir.Value]) -> dict[str, Dim]:
    """Replaces an op's results by values; returns the sizes that this determines."""
    sizes: dict[str, Dim] = {}
    for result, value in zip(op.operation.results, values, strict=True):
        sizes |= _matched(op, type_of(result), type_of(value))
        result.replace_all_uses_with(value)
    return sizes


def _matched(op: Op, pattern: TensorType, type_: TensorType) -> dict[str, Dim]:
    """The values of the op's own symbols, found by matching two types."""
    own = set(op.symbols)
    pairs = zip(pattern.shape, type_.shape, strict=True)
    return {str(a): b for a, b in pairs if str(a) in own and str(a) != str(b)}


Resolve = Callable[[Op], "dict[str, Dim] | None"]
RESOLVERS: dict[str, Resolve] = {"read_dim": _read_dim, "check_size": _check_size, "if": _if, "loop": _loop}
