"""Control flow: while, if, case, calls, composites; tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.complexes.pair import leaves
from burn.dialect.compose import convert, dim_value, disconnect, number, reshape, transpose
from burn.dialect.dims import Dim, Expr, decide, dim_max
from burn.dialect.mlir import ir
from burn.dialect.types import INTEGERS, TensorType, type_of
from burn.errors import BurnError
from burn.importers.core import Skipped
from burn.importers.lax.shaping import rev
from burn.importers.stablehlo.complexes import rebuilt
from burn.importers.stablehlo.known import of_elements
from burn.importers.stablehlo.node import TOKEN, Node, Token, rule
from burn.importers.stablehlo.syntax.module import Block, Elements, Operation
from burn.tensors.base import made
from burn.tensors.control import cond, loop

Value = ir.Value


class Unbuilt(BurnError):
    """A region could not be built; its problems have been noted."""


def _build(node: Node, block: Block, arguments: Sequence[Any]) -> list[Value]:
    """The results of a region, in the form in which control flow takes them."""
    try:
        values = node.build(block, arguments)
    except Skipped:
        raise Unbuilt("a region could not be built") from None
    return [node.tensor(v, "a result of its region") for v in leaves(values) if not isinstance(v, Token)]


def _run(build: Callable[[], Any]) -> Any:
    try:
        return build()
    except Unbuilt:
        raise Skipped from None


# ---- choices -------------------------------------------------------------------------------------------------------------
@rule("if")
def if_(node: Node) -> list[Any]:
    return _results(node, _choice(node, node.x(0), [node.block(0), node.block(1)]))


@rule("case")
def case(node: Node) -> list[Any]:
    """Branch number `index`; the last one for an index out of range."""
    count = len(node.op.regions)
    blocks = [node.block(i) for i in range(count)]
    index = node.x(0)
    known = node.elements(0)
    if known is not None and isinstance(known[()], int):
        at = int(known[()])
        return _results(node, _run(lambda: _build(node, blocks[at if 0 <= at < count else -1], [])))
    return _results(node, _numbered(node, index, blocks, 0))


def _numbered(node: Node, index: Value, blocks: Sequence[Block], first: int) -> list[Value]:
    if len(blocks) == 1:
        return _run(lambda: _build(node, blocks[0], []))

    def rest() -> tuple[Any, ...]:
        if len(blocks) == 2:
            return tuple(map(made, _build(node, blocks[1], [])))
        return tuple(map(made, _numbered(node, index, blocks[1:], first + 1)))

    here = ops.eq(index, number(first, type_of(index).dtype))
    found = _run(lambda: cond(made(here), lambda: tuple(map(made, _build(node, blocks[0], []))), rest))
    return [tensor.value for tensor in found]


def _choice(node: Node, condition: Value, blocks: Sequence[Block]) -> list[Value]:
    known = node.elements(0)
    if known is not None and isinstance(known[()], bool):
        return _run(lambda: _build(node, blocks[0 if known[()] else 1], []))
    branches = [lambda block=block: tuple(map(made, _build(node, block, []))) for block in blocks]
    return [tensor.value for tensor in _run(lambda: cond(made(condition), *branches))]


def _results(node: Node, values: Sequence[Value]) -> list[Any]:
    """The values with tokens where the file has them."""
    types = [type_ for type_ in node.op.type.results if "token" not in str(type_)]
    rest = iter(rebuilt(values, types))
    return [TOKEN if "token" in str(type_) else next(rest) for type_ in node.op.type.results]


# ---- loops ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Counter:
    """A value of a loop that counts up by 1 as long as it is below a bound. index: its number. start: its first value. trips: how
    often the loop runs, as a size if that is known."""

    index: int
    start: Value
    first: Dim | None
    trips: Dim | Value


@rule("while")
def while_(node: Node) -> list[Any]:
    """Values that the body returns unchanged are not carried, and a loop that counts up to a bound has a trip count."""
    test, body = node.block(0), node.block(1)
    given = list(node.operands)
    if not body.ops or len(body.ops[-1].operands) != len(given):
        node.fail("its body does not give what it takes")
    returned = body.ops[-1].operands
    fixed = {
        i: value
        for i, value in enumerate(given)
        if returned[i] == body.arguments[i][0]
        or isinstance(value, Token)
        or _is_outside(node, value, returned[i], body)
    }
    counter = _counter(node, test, body, fixed)
    moving = [i for i in range(len(given)) if i not in fixed and (counter is None or i != counter.index)]
    states = [node.tensor(v, "a value of the loop") for v in leaves([given[i] for i in moving])]
    types = [type_of(state) for state in states]
    declared = [node.op.type.inputs[i] for i in moving]

    def full(carried: Sequence[Value], count: Value | None) -> list[Any]:
        values: list[Any] = list(given)
        for i, value in zip(moving, rebuilt(carried, declared), strict=True):
            values[i] = value
        if counter is not None:
            values[counter.index] = count
        return values

    def after(values: Sequence[Any]) -> list[Value]:
        new = [node.tensor(v, "a value of the loop") for v in leaves([values[i] for i in moving])]
        return [reshape(v, t.shape) if type_of(v).rank == t.rank else v for v, t in zip(new, types, strict=True)]

    if counter is not None:
        known = counter

        def turned(iteration: Any, carried: Sequence[Value]) -> list[Value]:
            count = ops.add(convert(iteration, type_of(known.start).dtype), known.start)
            with _counting(node, count, known) as step_size:
                steps.append(step_size)
                return after(_whole(node, body, full(carried, count)))

        steps: list[Dim | None] = []
        found = _run(lambda: _counted(node, known, states, turned, steps, body))
        count = dim_value(known.trips) if isinstance(known.trips, (int, Expr)) else known.trips
        last = ops.add(convert(count, type_of(known.start).dtype), known.start)
        return full(found, last)

    def going_on(values: Sequence[Any]) -> Value:
        return reshape(_build(node, test, values)[0], ())

    def turn(iteration: Any, going: Any, *carried: Any) -> tuple[Any, ...]:
        new = after(_whole(node, body, full([c.value for c in carried], None)))
        return made(going_on(full(new, None))), *map(made, new)

    def run() -> Any:
        return loop(turn, list(map(made, states)), condition=made(going_on(given)))

    return full([tensor.value for tensor in _run(run)], None)


@contextmanager
def _counting(node: Node, count: Value, counter: Counter) -> Iterator[Dim | None]:
    """Inside of a loop's body: the counter is known as its first value plus a symbol that stands for the iteration."""
    if not isinstance(counter.first, int) or counter.first < 0:
        yield None
        return
    tracer = node.importer.tracer
    step = tracer.new_size(tracer.fresh("step"))  # a name that no size of the program has
    node.importer.steps.add(str(step))
    element = np.empty((), object)
    value = step + counter.first
    element[()] = value
    node.importer.note(count, element)
    yield value


Turn = Callable[[Value, Sequence[Value]], list[Value]]


def _counted(
    node: Node, counter: Counter, states: Sequence[Value], turned: Turn, steps: list[Dim | None], body: Block
) -> list[Value]:
    """The final states of a loop with a trip count.

    If each iteration writes one row of a state and reads none, the state is not carried. The rows are stacked at the end, as
    in the loops that jax.lax.scan makes."""
    trips = counter.trips if isinstance(counter.trips, (int, Expr)) else made(counter.trips)
    rows = _stacked(node, counter, states, turned, steps) if _may_write(node, body) else {}
    kept = [i for i in range(len(states)) if i not in rows]

    def step(iteration: Any, going: Any, *carried: Any) -> tuple[Any, ...]:
        values = list(states)  # those that are stacked are written, and not read
        for i, value in zip(kept, carried, strict=True):
            values[i] = value.value
        new = turned(iteration.value, values)
        slices = []
        for i, (axis, _) in rows.items():
            update = node.importer.rows[new[i]].update
            slices.append(reshape(update, tuple(d for a, d in enumerate(type_of(update).shape) if a != axis)))
        return going, *(made(new[i]) for i in kept), *map(made, slices)

    found = [t.value for t in loop(step, [made(states[i]) for i in kept], trips=trips, scans=len(rows))]
    results = dict(zip(kept, found, strict=False))
    for stack, (i, (axis, backwards)) in zip(found[len(kept) :], rows.items(), strict=True):
        rank = type_of(stack).rank
        order = (*range(1, axis + 1), 0, *range(axis + 1, rank))
        results[i] = transpose(rev(stack, (0,)) if backwards else stack, order)
    return [results[i] for i in range(len(states))]


def _may_write(node: Node, body: Block, depth: int = 4) -> bool:
    """True if the body, or a function that it calls, has a dynamic_update_slice."""
    for op in body.ops:
        if op.name == "stablehlo.dynamic_update_slice":
            return True
        function = node.importer.module.functions.get(str(op.attributes.get("callee", "")).removeprefix("@"))
        called = op.name == "func.call" and depth > 0 and function is not None and len(function.regions) > 0
        if called and function is not None and _may_write(node, function.regions[0][0], depth - 1):
            return True
    return False


def _stacked(
    node: Node, counter: Counter, states: Sequence[Value], turned: Turn, steps: list[Dim | None]
) -> dict[int, tuple[int, bool]]:
    """By the number of a state whose every row is written by one iteration: its axis, and True if the last row is written
    first. The body is built once to find out, and discarded."""
    if not isinstance(counter.trips, (int, Expr)) or counter.first != 0:
        return {}
    holder = ir.Module.create()
    types = [TensorType("int64", ()), *map(type_of, states)]
    block = holder.operation.regions[0].blocks.append(*(t.to_mlir() for t in types))
    found: dict[int, tuple[int, bool]] = {}
    try:
        with ir.InsertionPoint(block):
            given = list(block.arguments)[1:]
            new = turned(block.arguments[0], given)
            for i, (argument, value) in enumerate(zip(given, new, strict=True)):
                write = node.importer.rows.get(value)
                step = steps[-1]
                if write is None or step is None or write.x != argument or not write.alone:
                    continue
                length = type_of(argument).shape[write.axis]
                if len(list(argument.uses)) != write.uses or decide(length, "==", counter.trips) is not True:
                    continue
                if write.index == step or write.index == length - 1 - step:
                    found[i] = (write.axis, write.index != step)
            ops.yield_([])
    finally:
        disconnect(holder.operation)
    return found


def _whole(node: Node, block: Block, arguments: Sequence[Any]) -> list[Any]:
    """The results of a loop's body, tokens among them."""
    try:
        return node.build(block, arguments)
    except Skipped:
        raise Unbuilt("a region could not be built") from None


def _is_outside(node: Node, value: Any, returned: str, body: Block) -> bool:
    """True if the body returns the very value that it receives, which is defined outside of it."""
    inside = {name for op in body.ops for name in op.results} | {name for name, _, _ in body.arguments}
    return returned not in inside and node.importer.lookup(returned) is value


def _counter(node: Node, test: Block, body: Block, fixed: dict[int, Any]) -> Counter | None:
    """The counter of a loop `while i < bound: i += 1`."""
    made_by = {name: op for op in test.ops for name in op.results}
    last = made_by.get(test.ops[-1].operands[0]) if test.ops and test.ops[-1].operands else None
    if last is None or last.name != "stablehlo.compare" or any(len(op.regions) for op in test.ops):
        return None
    if getattr(last.attributes.get("comparison_direction"), "word", "") != "LT":
        return None
    names = {name: i for i, (name, _, _) in enumerate(test.arguments)}
    index = names.get(last.operands[0])
    if index is None or index in fixed or not _counts(node, body, index):
        return None
    start, bound = node.operands[index], last.operands[1]
    limit: Any = None
    if bound in names:
        limit = fixed.get(names[bound])
    elif bound in made_by:
        value = made_by[bound].attributes.get("value") if made_by[bound].name == "stablehlo.constant" else None
        elements = of_elements(value) if isinstance(value, Elements) else None
        limit = None if elements is None or elements.shape else int(elements[()])
    else:
        limit = node.importer.lookup(bound)
    if not isinstance(start, ir.Value) or type_of(start).shape or type_of(start).dtype not in INTEGERS:
        return None
    first, end = (_size(node, v) for v in (start, limit))
    if first is not None and end is not None:
        return Counter(index, start, first, dim_max(0, end - first))
    if not isinstance(limit, (int, ir.Value)) or type_of(start).dtype == "uint64":
        return None
    stop = number(limit, "int64") if isinstance(limit, int) else convert(limit, "int64")
    trips = ops.max(ops.sub(stop, convert(start, "int64")), number(0, "int64"))
    return Counter(index, start, first, trips)


def _size(node: Node, value: Any) -> Dim | None:
    if isinstance(value, int):
        return value
    known = node.importer.known(value) if isinstance(value, ir.Value) else None
    element = known[()] if known is not None and not known.shape else None
    return element if isinstance(element, (int, Expr)) and not isinstance(element, bool) else None


def _counts(node: Node, body: Block, index: int) -> bool:
    """True if the body adds 1 to the argument."""
    made_by: dict[str, Operation] = {name: op for op in body.ops for name in op.results}
    op = made_by.get(body.ops[-1].operands[index])
    own = body.arguments[index][0]
    if op is None or op.name != "stablehlo.add" or own not in op.operands:
        return False
    (other,) = [name for name in op.operands if name != own] or [own]
    constant = made_by.get(other)
    if constant is not None:
        value = constant.attributes.get("value") if constant.name == "stablehlo.constant" else None
        elements = of_elements(value) if isinstance(value, Elements) else None
    else:
        outside = node.importer.lookup(other)
        elements = node.importer.known(outside) if isinstance(outside, ir.Value) else None
    return elements is not None and not elements.shape and elements[()] == 1


# ---- calls ---------------------------------------------------------------------------------------------------------------
@rule("call", dialect="func")
def call(node: Node) -> list[Any]:
    node.no_effect("no_inline")
    return node.importer.call(node, node.symbol("callee"), node.operands)


@rule("composite")
def composite(node: Node) -> list[Any]:
    """An op of another dialect by its decomposition, which means the same."""
    node.no_effect("name", "composite_attributes", "version")
    return node.importer.call(node, node.symbol("decomposition"), node.operands)


# ---- tuples and tokens -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Tuple:
    """The members of a tuple."""

    members: tuple[Any, ...]


@rule("tuple")
def tuple_(node: Node) -> list[Any]:
    return [Tuple(tuple(node.operands))]


@rule("get_tuple_element")
def get_tuple_element(node: Node) -> list[Any]:
    value, index = node.operands[0], node.integer("index")
    if not isinstance(value, Tuple) or not 0 <= index < len(value.members):
        node.fail(f"there is no member {index}")
    return [value.members[index]]


@rule("after_all", "create_token")
def after_all(node: Node) -> list[Any]:
    """Tokens order effects, and no op with effects is imported."""
    return [TOKEN]


# ---- chlo's scan -----------------------------------------------------------------------------------------------------------
@rule("scan", dialect="chlo")
def scan(node: Node) -> list[Value]:
    """A region of (slices of the inputs, carries) -> (slices of the outputs, carries), along an axis."""
    node.no_effect("is_associative", "resultSegmentSizes")
    count = node.ints("operandSegmentSizes")[0]
    axis, backwards = node.integer("dimension"), node.flag("is_reverse")
    inputs, states = node.xs[:count], node.xs[count:]
    length: Dim = type_of(inputs[0]).shape[axis] if inputs else node.integer("scan_dim_size")
    node.no_effect("scan_dim_size")
    outputs = len(node.op.type.results) - len(states)

    def step(iteration: Any, going: Any, *carried: Any) -> tuple[Any, ...]:
        at = ops.sub(dim_value(length - 1), iteration.value) if backwards else iteration.value
        slices = [ops.gather(x, at, axis=axis) for x in inputs]
        found = _build(node, node.block(), [*slices, *(c.value for c in carried)])
        return going, *map(made, found[outputs:]), *map(made, found[:outputs])

    found = [t.value for t in _run(lambda: loop(step, list(map(made, states)), trips=length, scans=outputs))]
    stacks = found[len(states) :]
    order = [(*range(1, axis + 1), 0, *range(axis + 1, type_of(s).rank)) for s in stacks]
    rows = [transpose(rev(s, (0,)) if backwards else s, o) for s, o in zip(stacks, order, strict=True)]
    return [*rows, *found[: len(states)]]
