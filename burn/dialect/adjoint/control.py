"""Branches and loops: the backward pass has the same control flow, in reverse order.

A region is not differentiated in place. Its ops are copied into the region of the backward pass, recomputed there, and
differentiated. The forward pass keeps the values that a loop carries and the results of its contractions, one slice per
iteration. Other values, and those of functions of `burn.checkpoint`, are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.reverse import Customs, gradients, move_customs
from burn.dialect.compose import dim_value, number, reshape, zeros_like
from burn.dialect.control import If, Loop, captured, defined_symbols, region_symbols, yielded
from burn.dialect.copies import copy_ops, erase_observers
from burn.dialect.dims import Dim, at_most, dim_max, symbol
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op, site
from burn.dialect.query import is_named, op_of
from burn.dialect.traits import Trait
from burn.dialect.types import CONTINUOUS, TensorType, type_of
from burn.errors import Problem, TypeMismatch

Cotangents = Sequence["ir.Value | None"]
Pairs = list[tuple[ir.Value, "ir.Value | None"]]
IsActive = Callable[[ir.Value], bool]

LEAST_DEPTH = 8
"""Of a contraction whose result is kept. Sums of fewer terms cost less than a value that is written and read again."""


def _refuse(op: Op, why: str) -> None:
    problem = Problem(f"burn.{op.OP_NAME} cannot be differentiated: {why}", op=op.OP_NAME, node=site(op))
    raise TypeMismatch("this cannot be differentiated", [problem])


def _check_region(op: Op, region: ir.Region) -> None:
    names = region_symbols(region)
    if names:
        _refuse(op, f"sizes are found out inside of it ({', '.join(sorted(names))})")


def _copy(
    region: ir.Region, arguments: Sequence[ir.Value], customs: Customs, observers: bool = False
) -> tuple[list[ir.Value], dict]:
    """Copies a region's ops: returns the yielded values, and the copy of each value. observers: see `copy_ops`."""
    block = region.blocks[0]
    copies: dict[Any, ir.Value] = dict(zip(block.arguments, arguments, strict=True))
    copy_ops([operation.operation for operation in list(block.operations)[:-1]], copies, observers)
    move_customs(customs, copies)
    return [copies.get(v, v) for v in yielded(region)], copies


def of_if(op: Op, cotangents: Cotangents, is_active: IsActive, customs: Customs) -> Pairs:
    """Takes the branch of the forward pass."""
    wanted = [v for v in captured(op) if is_active(v)]
    operation = If.create(op.condition, result_types=[type_of(v) for v in wanted])
    for region, made in zip(op.operation.regions, operation.regions, strict=True):
        _check_region(op, region)
        with ir.InsertionPoint(made.blocks.append()):
            results, _ = _copy(region, [], customs)
            given = [None if g is None else _shaped(g, r) for g, r in zip(cotangents, results, strict=True)]
            parts = gradients(results, given, wanted, customs)
            ops.yield_([zeros_like(v) if g is None else g for v, g in zip(wanted, parts, strict=True)])
    return list(zip(wanted, operation.results, strict=True))


def _shaped(g: ir.Value, like: ir.Value) -> ir.Value:
    """A cotangent reshaped to a branch's own sizes."""
    return reshape(g, type_of(like).shape)


def of_loop(op: Op, cotangents: Cotangents, is_active: IsActive, customs: Customs) -> Pairs:
    """The loop runs from its last iteration to its first; the forward pass stacks the values that it carries."""
    region = op.operation.regions[0]
    _check_region(op, region)
    count = len(op.carried)
    results = list(op.operation.results)
    own = set(op.symbols)
    if any(type_of(a) != type_of(r) for a, r in zip(region.blocks[0].arguments[2:], results[:count], strict=True)):
        _refuse(op, "what it carries changes its size")
    if len(own) > 1:
        _refuse(op, "several sizes are found out by it")
    residuals = _residuals(region, customs)
    stacks, length = _kept(op, customs, residuals)
    kept = dict(zip(residuals, stacks[count:], strict=True))
    return _Back(op, cotangents, is_active, customs, stacks[:count], kept, length).pairs()


def _residuals(region: ir.Region, customs: Customs) -> list[ir.Value]:
    """The values of a region that are kept for its backward pass: results of contractions, and sums with other values."""
    block = region.blocks[0]
    inside = _rebuilt(block, customs)
    found: dict[ir.Value, None] = {}
    for operation in block.operations:
        op = operation.opview
        if not isinstance(op, Op) or not op.has(Trait.CONTRACTION) or op.operation.results[0] in inside:
            continue
        value = op.operation.results[0]
        if type_of(value).dtype not in CONTINUOUS or not at_most(type_of(value).elements * 2 * LEAST_DEPTH, op.flops()):
            continue
        while (total := _only_sum(value)) is not None and total not in inside:
            value = total
        found[value] = None
    return list(found)


def _only_sum(value: ir.Value) -> ir.Value | None:
    """The sum of a value and another one, of the value's type, if nothing else uses the value."""
    uses = list(value.uses)
    add = uses[0].owner.opview if len(uses) == 1 else None
    made = op_of(value)
    if made is None or not isinstance(add, Op) or add.OP_NAME != "add" or add.operation.block != made.operation.block:
        return None
    total = add.operation.results[0]
    return total if total.type == value.type else None


def _rebuilt(block: ir.Block, customs: Customs) -> set[ir.Value]:
    """Values between the operands and the results of functions with backward passes of their own, which build them again."""
    found: set[ir.Value] = set()
    for custom in {id(c): c for c in customs.values()}.values():
        # a program may be traced while tensors are recorded, which are not values of the IR
        stack: list[ir.Value] = [v for v in custom.results if isinstance(v, ir.Value)]
        ends = {*custom.operands, *custom.residuals}
        while stack:
            op = op_of(stack.pop())
            if op is None or op.operation.block != block:
                continue
            new = [v for v in op.operation.results if v not in found]
            found.update(new)
            stack += [v for v in op.operation.operands if v not in ends] if new else []
    return found


def _kept(op: Op, customs: Customs, residuals: Sequence[ir.Value]) -> tuple[list[ir.Value], Dim]:
    """Replaces the loop by one that also stacks the carried values at the start of each iteration, and values of its region.
    Returns the stacks and the number of iterations."""
    region = op.operation.regions[0]
    count = len(op.carried)
    old = list(op.operation.results)
    length: Dim | None = type_of(old[count]).shape[0] if len(old) > count else None
    names = tuple(op.symbols)
    if length is None:
        trips = None if op.trips is None else is_named(op.trips, "dim_values", "full", "constant")
        if op.is_counted and trips is not None:
            length = dim_max(0, trips.dims[0]) if trips.OP_NAME == "dim_values" else _written(trips)
        if length is None:
            names = (_fresh(op),)
            length = symbol(names[0])
    kept = [type_of(v) for v in (*list(region.blocks[0].arguments)[2:], *residuals)]
    types = [*(type_of(r) for r in old), *(t.with_shape((length, *t.shape)) for t in kept)]
    with op.operation.location, ir.InsertionPoint(op.operation):
        made = Loop.create(
            op.trips, op.condition, list(op.carried), result_types=types, scans=op.scans + len(kept), symbols=names
        )
        block = made.regions[0].blocks.append(*[a.type for a in region.blocks[0].arguments])
        with ir.InsertionPoint(block):
            values, copies = _copy(region, list(block.arguments), customs, observers=True)
            ops.yield_([*values, *list(block.arguments)[2:], *(copies[v] for v in residuals)])
    for before, after in zip(old, made.results, strict=False):
        before.replace_all_uses_with(after)
    erase_observers(op.operation)  # the new loop has them
    return list(made.results)[len(old) :], length


def _written(op: Op) -> int:
    numbers = op.bits if op.bits is not None else (op.value if op.OP_NAME == "full" else op.values[0])
    return max(0, int(numbers[0] if isinstance(numbers, tuple) else numbers))


def _fresh(op: Op) -> str:
    """A name for a size that the program does not have yet."""
    top = op.operation
    while top.parent is not None:
        top = top.parent.operation
    used: set[str] = set()

    def look(operation: ir.Operation) -> None:
        view = operation.opview
        if isinstance(view, Op):
            used.update(used_symbols(view) | defined_symbols(view))
            return
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    look(inner.operation)

    look(top)
    return next(name for i in range(len(used) + 1) if (name := f"iterations_{i}") not in used)


class _Back:
    """The loop of the backward pass.

    carried: the cotangents of carried values; sums: of values that the region captures; slices: of captured values that
    the region reads one slice of in each iteration, so that their cotangents are slices. stacks: of carried values; kept: of
    values of the region.
    """

    def __init__(
        self,
        op: Op,
        cotangents: Cotangents,
        is_active: IsActive,
        customs: Customs,
        stacks: list[ir.Value],
        kept: dict[ir.Value, ir.Value],
        length: Dim,
    ) -> None:
        self.op, self.cotangents, self.customs, self.stacks, self.length = op, cotangents, customs, stacks, length
        self.kept = kept
        self.region = op.operation.regions[0]
        self.count = len(op.carried)
        self.arguments = list(self.region.blocks[0].arguments)
        self.floats = [i for i, a in enumerate(self.arguments[2:]) if type_of(a).dtype in CONTINUOUS]
        taken = [v for v in captured(op) if is_active(v)]
        self.slices = {v: found for v in taken if (found := self._slices_of(v))}
        self.sums = [v for v in taken if v not in self.slices]

    def _slices_of(self, value: ir.Value) -> list[tuple[Op, bool]]:
        """The ops that take the slice of this iteration (True: counted from the last), if nothing else uses the value."""
        found: list[tuple[Op, bool]] = []
        if not type_of(value).rank or type_of(value).shape[0] != self.length:
            return []
        for operation in self.region.blocks[0].operations:
            if any(value in _inside(r) for r in operation.operation.regions):
                return []
            if value not in list(operation.operation.operands):
                continue
            op = operation.opview
            if not isinstance(op, Op) or op.OP_NAME != "gather" or op.x != value or op.axis != 0:
                return []
            order = self._order_of(op.indices)
            if order is None:
                return []
            found.append((op, order))
        return found

    def _order_of(self, index: ir.Value) -> bool | None:
        iteration = self.arguments[0]
        if index == iteration:
            return False
        sub = is_named(index, "sub")
        if sub is None or sub.rhs != iteration:
            return None
        last = op_of(sub.lhs)
        if last is None:
            return None
        if last.OP_NAME == "dim_values":
            return True if last.dims[0] == self.length - 1 else None
        return True if last.OP_NAME in ("full", "constant") and _written(last) == self.length - 1 else None

    def pairs(self) -> Pairs:
        starts: list[ir.Value] = []
        for i in self.floats:
            g = self.cotangents[i]
            starts.append(zeros_like(self.arguments[2 + i]) if g is None else g)
        starts += [zeros_like(v) for v in self.sums]
        slices = [type_of(op.operation.results[0]) for found in self.slices.values() for op, _ in found]
        types = [*map(type_of, starts), *(t.with_shape((self.length, *t.shape)) for t in slices)]
        loop = Loop.create(dim_value(self.length), None, starts, result_types=types, scans=len(slices))
        arguments = [TensorType("int64", ()), TensorType("bool", ()), *map(type_of, starts)]
        block = loop.regions[0].blocks.append(*[t.to_mlir() for t in arguments])
        with ir.InsertionPoint(block):
            ops.yield_(self._step(*list(block.arguments)))
        results = list(loop.results)
        found: Pairs = [(self.op.carried[i], g) for i, g in zip(self.floats, results, strict=False)]
        found += zip(self.sums, results[len(self.floats) :], strict=False)
        stacks = iter(results[len(starts) :])
        for value, takers in self.slices.items():
            found += [(value, self._stacked(next(stacks), backwards)) for _, backwards in takers]
        return found

    def _step(self, iteration: ir.Value, going: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        time = ops.sub(dim_value(self.length - 1), iteration)
        again = [time, number(True, "bool"), *(ops.gather(s, time, axis=0) for s in self.stacks)]
        slices = {value: ops.gather(stack, time, axis=0) for value, stack in self.kept.items()}
        results, copies = _copy(self.region, again, self.customs)
        takers = [copies[op.operation.results[0]] for found in self.slices.values() for op, _ in found]
        cotangents: list[ir.Value | None] = [None] * len(results)
        for nth, i in enumerate(self.floats):
            cotangents[1 + i] = carried[nth]
        for i, stack in enumerate(self.cotangents[self.count :]):
            if stack is not None:
                cotangents[1 + self.count + i] = ops.gather(stack, time, axis=0)
        inner = [again[2 + i] for i in self.floats]
        given = gradients(results, cotangents, [*inner, *self.sums, *takers], self.customs)
        new = [zeros_like(v) if g is None else g for v, g in zip(inner, given, strict=False)]
        for value, old, g in zip(self.sums, carried[len(inner) :], given[len(inner) :], strict=False):
            assert type_of(value) == type_of(old)
            new.append(old if g is None else ops.add(old, g))
        for value, kept in slices.items():
            copies[value].replace_all_uses_with(kept)
        parts = given[len(inner) + len(self.sums) :]
        return [going, *new, *(zeros_like(v) if g is None else g for v, g in zip(takers, parts, strict=True))]

    def _stacked(self, stack: ir.Value, backwards: bool) -> ir.Value:
        """The slices' cotangents in the order of the slices: the backward pass visits them from the last iteration on."""
        if backwards:
            return stack
        shape = type_of(stack).shape
        starts = (self.length - 1, *[0] * (len(shape) - 1))
        return ops.slice(stack, starts=starts, sizes=shape, steps=(-1, *[1] * (len(shape) - 1)))


def _inside(region: ir.Region) -> set[Any]:
    """Every value that ops in a region use."""
    used: set[Any] = set()
    for block in region.blocks:
        for operation in block.operations:
            used.update(operation.operation.operands)
            for inner in operation.operation.regions:
                used |= _inside(inner)
    return used


RULES: dict[str, Callable[[Op, Cotangents, IsActive, Customs], Pairs]] = {"if": of_if, "loop": of_loop}
