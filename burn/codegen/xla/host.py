"""The ops that the host runs between modules: sizes read from data, control flow and lists whose sizes depend on data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.lists import erased_index, insertion_index, read_index, split_sizes
from burn.codegen.xla.machine import Held, Machine, TensorList
from burn.dialect.control import If, Loop, yielded
from burn.dialect.custom import Custom
from burn.dialect.mlir import ir
from burn.dialect.op import Op, full_name
from burn.dialect.types import type_of
from burn.runtime import debugging, images
from burn.runtime.abi import Status
from burn.runtime.dtypes import CODES

Run = Callable[[Machine, Any], None]
RUNS: dict[str, Run] = {}
ANY = -1


def runs(*names: str) -> Callable[[Run], Run]:
    """Registers a function for the ops of these names."""

    def register(function: Run) -> Run:
        RUNS.update(dict.fromkeys(names, function))
        return function

    return register


@runs("return", "yield")
def _end(machine: Machine, op: Op) -> None:
    """The op around the block, or the caller, reads the operands."""


@runs("read_dim")
def _read_dim(machine: Machine, op: Op) -> None:
    value = int(machine.fetch(machine.read(op.x)).reshape(-1)[op.position])
    if value < op.minimum:
        failed(Status.NEGATIVE_SIZE, full_name(op), value)
    machine.sizes[op.symbol] = value


# ---- control flow ------------------------------------------------------------------------------------------------------
@runs("if")
def _if(machine: Machine, op: If) -> None:
    region = op.operation.regions[0 if machine.number(op.condition) else 1]
    machine.block(region.blocks[0])
    machine.give(op, *(machine.read(value) for value in yielded(region)))


@runs("loop")
def _loop(machine: Machine, op: Loop) -> None:
    region = op.operation.regions[0]
    body = region.blocks[0]
    iteration, condition, *arguments = body.arguments
    results = list(op.operation.results)
    carried = [machine.read(value) for value in op.args[2]]
    stacks: list[list[Held]] = [[] for _ in results[len(carried) :]]
    go_on = op.condition is None or bool(machine.number(op.condition))
    limit, done = _limit(machine, op, results[len(carried) :]), 0
    while go_on and (limit is None or done < limit):
        machine.watch()
        machine.set(iteration, machine.put(np.array(done, np.int64), "int64"))
        machine.set(condition, machine.put(np.array(go_on), "bool"))
        for argument, held in zip(arguments, carried, strict=True):
            machine.set(argument, held)
        machine.block(body)
        following, *given = yielded(region)
        go_on = bool(machine.number(following))
        values = [machine.read(value) for value in given]
        carried = values[: len(carried)]
        for stack, piece in zip(stacks, values[len(carried) :], strict=True):
            for have, size in zip(stack[0].shape if stack else piece.shape, piece.shape, strict=True):
                if have != size:
                    failed(Status.SHAPE_MISMATCH, full_name(op), size)
            stack.append(piece)
        done += 1
    for result, stack in zip(results[len(carried) :], stacks, strict=True):
        carried = [*carried, _joined(machine, op, result, stack)]
    machine.give(op, *carried)


def _limit(machine: Machine, op: Loop, stacked: list[ir.Value]) -> int | None:
    """The trip count. It is the length of a stacked result where the type has that."""
    for result in stacked:
        length = type_of(result).shape[0]
        if _own(op, length):
            continue
        return machine.dim(length)
    return None if op.trips is None else int(machine.number(op.trips))


def _own(op: Loop, dim: Any) -> bool:
    return str(dim) in op.symbols


def _joined(machine: Machine, op: Loop, result: ir.Value, stack: list[Held]) -> Held:
    """The slices one after another. Sizes that only iterations define are 0 without any."""
    type_ = type_of(result)
    if not stack:
        inner = tuple(0 if _own(op, d) else machine.dim(d) for d in type_.shape[1:])
        return _filled(machine, (0, *inner), type_.dtype)
    return _stacked(machine, stack, 0)


def _filled(machine: Machine, shape: tuple[int, ...], dtype: str) -> Held:
    """Zeros."""
    (array,) = machine.compute(("zeros", shape, dtype), lambda b, x: [b.spread(x, shape)], [_zero(machine, dtype)])
    return Held(array, shape, dtype)


def _zero(machine: Machine, dtype: str) -> Held:
    from burn.dialect.types import numpy_dtype

    return machine.put(np.zeros((), numpy_dtype(dtype)), dtype)


def _stacked(machine: Machine, items: list[Held], axis: int) -> Held:
    """Tensors of one shape along a new axis."""
    shape = (*items[0].shape[:axis], 1, *items[0].shape[axis:])
    return _concatenated(machine, [_reshaped(machine, item, shape) for item in items], axis)


def _reshaped(machine: Machine, item: Held, shape: tuple[int, ...]) -> Held:
    item = machine.exact(item)
    (array,) = machine.compute(("reshape", shape), lambda b, x: [b.reshape(x, shape)], [item])
    return Held(array, shape, item.dtype)


def _concatenated(machine: Machine, items: list[Held], axis: int) -> Held:
    items = [machine.exact(item) for item in items]
    shape = list(items[0].shape)
    shape[axis] = sum(item.shape[axis] for item in items)
    (array,) = machine.compute(("concat", axis), lambda b, *xs: [b.concat(xs, axis)], items)
    return Held(array, tuple(shape), items[0].dtype)


# ---- debugging ---------------------------------------------------------------------------------------------------------
def _call(machine: Machine, op: Op, function: int, text: str) -> None:
    """An exception of the function ends the run."""
    tensors = []
    for value in op.values:
        array = machine.fetch(machine.read(value))
        tensors.append((CODES.index(type_of(value).dtype), array.shape, array.tobytes()))
    debugging.called(function, text.encode(), tensors)


@runs("debug_print")
def _debug_print(machine: Machine, op: Op) -> None:
    _call(machine, op, debugging.PRINT, op.text)


@runs("debug_call")
def _debug_call(machine: Machine, op: Op) -> None:
    _call(machine, op, op.function, "")


@runs("custom")
def _custom(machine: Machine, op: Op) -> None:
    """The body in Python of a custom op."""
    from burn.custom.host import results_of

    assert isinstance(op, Custom)
    types = [(type_of(result).dtype, tuple(machine.shape(result))) for result in op.operation.results]
    operands = [np.array(machine.fetch(machine.read(value))) for value in op.values]
    made = results_of(op.definition, op.shown, operands, types)
    machine.give(op, *(machine.put(array, dtype) for array, (dtype, _) in zip(made, types, strict=True)))


@runs("image_decode")
def _image_decode(machine: Machine, op: Op) -> None:
    """Raises RunError, which names the node as it is."""
    data = machine.fetch(machine.read(op.x)).tobytes()
    machine.give(op, machine.put(images.decode(data, images.FORMATS.index(op.form)), "uint8"))


# ---- sequences and optionals -------------------------------------------------------------------------------------------
def _position(machine: Machine, op: Op) -> int | None:
    return None if op.position is None else int(machine.number(op.position))


@runs("list_empty")
def _list_empty(machine: Machine, op: Op) -> None:
    machine.give(op, TensorList())


@runs("list_insert")
def _list_insert(machine: Machine, op: Op) -> None:
    items, position = machine.read(op.list).items, _position(machine, op)
    at = insertion_index(op, len(items), position)
    machine.give(op, TensorList((*items[:at], machine.read(op.x), *items[at:])))


@runs("list_erase")
def _list_erase(machine: Machine, op: Op) -> None:
    items, position = machine.read(op.list).items, _position(machine, op)
    at = erased_index(op, len(items), position)
    machine.give(op, TensorList((*items[:at], *items[at + 1 :])))


@runs("list_length")
def _list_length(machine: Machine, op: Op) -> None:
    machine.give(op, machine.put(np.array(len(machine.read(op.list).items), np.int64), "int64"))


@runs("list_at")
def _list_at(machine: Machine, op: Op) -> None:
    items, position = machine.read(op.list).items, _position(machine, op)
    at = read_index(op, len(items), position)
    item = items[at]
    if op.dtype == "list" or isinstance(item, TensorList):
        fits = op.dtype == "list" and isinstance(item, TensorList)
    else:
        fits = item.dtype == op.dtype and _agree(op.sizes, item.shape)
    if not fits:
        failed(Status.WRONG_ITEM, full_name(op), at)
    machine.give(op, item)


def _agree(wanted: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(wanted) == len(shape) and all(w in (ANY, h) for w, h in zip(wanted, shape, strict=True))


@runs("list_concat")
def _list_concat(machine: Machine, op: Op) -> None:
    items = machine.read(op.list).items
    if not items:
        failed(Status.EMPTY_LIST, full_name(op))
    rank = len(op.sizes) - op.stack
    for number, item in enumerate(items):
        fits = len(item.shape) == rank and item.dtype == op.dtype
        first = items[0].shape
        if not fits or any(
            a != b for axis, (a, b) in enumerate(zip(item.shape, first, strict=True)) if op.stack or axis != op.axis
        ):
            failed(Status.WRONG_ITEM, full_name(op), number)
    made = (_stacked if op.stack else _concatenated)(machine, list(items), op.axis)
    for wanted, size in zip(op.sizes, made.shape, strict=True):
        if wanted not in (ANY, size):
            failed(Status.SHAPE_MISMATCH, full_name(op), size)
    machine.give(op, made)


@runs("list_split")
def _list_split(machine: Machine, op: Op) -> None:
    x, axis = machine.exact(machine.read(op.x)), op.axis % type_of(op.x).rank
    parts: int | list[int] | None = None
    if op.parts is not None:
        is_number = type_of(op.parts).rank == 0
        parts = (
            int(machine.number(op.parts))
            if is_number
            else [int(size) for size in machine.fetch(machine.read(op.parts))]
        )
    sizes = split_sizes(op, x.shape[axis], parts)
    ends = list(itertools.accumulate(sizes))
    made = [_part(machine, x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]
    if op.parts is None and not op.keep:
        made = [_reshaped(machine, part, (*part.shape[:axis], *part.shape[axis + 1 :])) for part in made]
    machine.give(op, TensorList(tuple(made)))


def _part(machine: Machine, x: Held, axis: int, start: int, end: int) -> Held:
    starts, limits = [0] * len(x.shape), list(x.shape)
    starts[axis], limits[axis] = start, end
    ones = [1] * len(x.shape)
    key = ("part", axis, start, end)
    (array,) = machine.compute(key, lambda b, y: [b.slice(y, starts, limits, ones)], [x])
    return Held(array, (*x.shape[:axis], end - start, *x.shape[axis + 1 :]), x.dtype)
