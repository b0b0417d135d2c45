"""Loops: `repeat` unrolls short ones of a known length, and builds `burn.loop` for all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import number, reshape
from burn.dialect.control import Loop, escapes, region_symbols
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import Container, TensorType, type_of
from burn.importers.onnx.conditions import Symbols, known_flag, scalar_of
from burn.importers.onnx.contents import Content
from burn.importers.onnx.lists import Nothing, RunList, TensorList, container_of, is_container, merged, to_list
from burn.importers.onnx.node import Node
from burn.importers.regions import move_regions

UNROLLED_TRIPS = 8
UNROLLED_NODES = 256
"""A loop of known length is written out up to so many iterations, and so many nodes in all."""

SEQUENCE_NODES = 8192
"""The same for a loop that carries sequences: of those that are written out nothing is left."""

FLAG = TensorType("bool", ())
COUNTER = TensorType("int64", ())


@dataclass
class Step:
    """Results of one iteration: the next condition (None: go on), carried values, and slices of outputs."""

    condition: ir.Value | None
    carried: list[Any]
    slices: list[ir.Value]


Body = Callable[[ir.Value, ir.Value, list[Any]], Step]
"""(iteration, condition, carried) -> the step; builds at the insertion point."""


@dataclass
class Trips:
    """How often a loop runs: as a value, as a size where it is known, and whether a condition can end it."""

    value: ir.Value | None
    count: Dim | None
    condition: ir.Value | None = None


def repeat(
    node: Node, trips: Trips, initial: list[Any], scans: int, body: Body, nodes: int, goes_on: bool
) -> tuple[list[Any], list[ir.Value]]:
    """The final carried values and the stacked slices."""
    fixed = isinstance(trips.count, int) and trips.condition is None and goes_on
    structured = any(isinstance(value, (TensorList, Nothing)) for value in initial)
    if fixed:
        assert isinstance(trips.count, int)
        size = trips.count * max(nodes, 1)
        short = 0 < trips.count <= UNROLLED_TRIPS and size <= UNROLLED_NODES
        if short or (structured and size <= SEQUENCE_NODES):
            return _unrolled(node, trips.count, initial, scans, body)
    return _looped(node, trips, initial, scans, body)


def _unrolled(node: Node, count: int, initial: list[Any], scans: int, body: Body) -> tuple[list[Any], list[ir.Value]]:
    carried = initial
    rows: list[list[ir.Value]] = [[] for _ in range(scans)]
    for index in range(count):
        iteration = node.known(Content.of("int64", index))
        step = body(iteration, node.known(Content.of("bool", True)), carried)
        carried = step.carried
        for row, slice_ in zip(rows, step.slices, strict=True):
            row.append(reshape(slice_, (1, *type_of(slice_).shape)))
    if scans and not count:
        node.fail("a loop of no iterations gives slices of unknown type")
    return carried, [ops.concat(row, axis=0) if len(row) > 1 else row[0] for row in rows]


def _looped(node: Node, trips: Trips, given: list[Any], scans: int, body: Body) -> tuple[list[Any], list[ir.Value]]:
    """Builds the body until the carried values' types are stable: each time, sizes that change become symbols. Carried
    sequences and optionals are lists of the program, and the types of their elements reach a fixed point in the same way."""
    lists = {i: to_list(node, value, _carried_as(node, i)) for i, value in enumerate(given) if is_container(value)}
    initial = [lists[i].value if i in lists else value for i, value in enumerate(given)]
    starts = [type_of(value) for value in initial]
    changing: set[tuple[int, int]] = set()
    while True:
        symbols = Symbols(node)
        types = [
            t.with_shape(tuple(symbols.new("loop_size") if (i, a) in changing else d for a, d in enumerate(t.shape)))
            for i, t in enumerate(starts)
        ]
        draft = Loop.create(None, None, initial, result_types=[])
        block = draft.regions[0].blocks.append(*[t.to_mlir() for t in (COUNTER, FLAG, *types)])
        iteration, condition, *carried = block.arguments
        with ir.InsertionPoint(block), node.importer.program.iterating(iteration):
            step = body(iteration, condition, _with_lists(carried, lists))
            known = _unlist(node, step, lists)
            next_condition = condition if step.condition is None else scalar_of(node, step.condition)
            for value in (*step.carried, *step.slices):
                if not isinstance(value, ir.Value):
                    node.fail("a tensor that the loop carries becomes a sequence or an optional, or is stacked as one")
            endless = next_condition == condition or known_flag(node, next_condition) is True
            ops.yield_([next_condition, *step.carried, *step.slices])
        found = _changes(node, types, [type_of(value) for value in step.carried], region_symbols(draft.regions[0]))
        if found <= changing and known == {i: (items.container, items.empty) for i, items in lists.items()}:
            break
        changing |= found
        lists = {i: replace(lists[i], container=container, empty=empty) for i, (container, empty) in known.items()}
        node.discard(draft)
    inner = region_symbols(draft.regions[0]) | set(symbols.names)
    finals = [
        t.with_shape(tuple(symbols.new("loop_size") if (i, a) in changing else d for a, d in enumerate(t.shape)))
        for i, t in enumerate(starts)
    ]
    certain = endless and trips.condition is None and trips.count is not None
    length = trips.count if certain else symbols.new("loop_trips") if scans else 0
    assert length is not None
    stacked = []
    for slice_ in step.slices:
        t = type_of(slice_)
        shape = tuple(symbols.new("loop_size") if escapes(d, inner) else d for d in t.shape)
        stacked.append(t.with_shape((length, *shape)))
    condition = None if endless and trips.condition is None else trips.condition
    if condition is None and not endless:
        condition = number(True, "bool")
    if trips.value is None and condition is None:
        node.fail("the loop never ends: it has neither a trip count nor a condition that can become false")
    final = Loop.create(
        trips.value, condition, initial, scans=scans, symbols=tuple(symbols.names), result_types=[*finals, *stacked]
    )
    move_regions(draft, final)
    results = list(final.results)
    return _with_lists(results[: len(initial)], lists), results[len(initial) :]


def _carried_as(node: Node, index: int) -> Container | None:
    """The declared type of a carried value that is a sequence or an optional."""
    if node.op != "Loop":
        return None
    return container_of(node.graph("body").input[2 + index].type)


def _with_lists(values: Sequence[ir.Value], lists: Mapping[int, RunList]) -> list[Any]:
    return [replace(lists[i], value=value) if i in lists else value for i, value in enumerate(values)]


def _unlist(node: Node, step: Step, lists: Mapping[int, RunList]) -> dict[int, tuple[Container, bool]]:
    """Replaces carried lists by their values in the step; returns their types before and after it."""
    known = {}
    for i, items in lists.items():
        after = to_list(node, step.carried[i], items.container)
        container = items.container if after.empty else after.container
        container = container if items.empty else merged(items.container, container)
        if container is None:
            node.fail(f"carried value {i} is a {items.container} before an iteration and a {after.container} after it")
        known[i] = (container, items.empty and after.empty)
        step.carried[i] = after.value
    return known


def _changes(
    node: Node, have: Sequence[TensorType], given: Sequence[TensorType], inner: set[str]
) -> set[tuple[int, int]]:
    """The axes (value, axis) whose size after an iteration is not what it was before."""
    found = set()
    for index, (a, b) in enumerate(zip(have, given, strict=True)):
        if a.dtype != b.dtype or a.rank != b.rank:
            node.fail(f"carried value {index} is {a} before an iteration and {b} after it; only sizes may change")
        pairs = enumerate(zip(a.shape, b.shape, strict=True))
        found |= {(index, axis) for axis, (x, y) in pairs if x != y or escapes(y, inner)}
    return found
