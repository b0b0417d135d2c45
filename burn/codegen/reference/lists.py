"""Sequences and optionals (`burn/dialect/sequence.py`)."""

from __future__ import annotations

import itertools

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.lists import erased_index, insertion_index, read_index, split_sizes
from burn.codegen.reference.machine import Machine, TensorList
from burn.codegen.reference.operators import runs
from burn.dialect.mlir import ir
from burn.dialect.op import Op, full_name
from burn.dialect.types import numpy_dtype, type_of
from burn.runtime.abi import Status

ANY = -1


def listed(items: tuple[np.ndarray, ...]) -> np.ndarray:
    """A value of type `list`."""
    made = np.empty((), object)
    made[()] = TensorList(items)
    return made


def items_of_element(array: np.ndarray) -> tuple[np.ndarray, ...]:
    """The items of a value of type `list`."""
    return array.item().items


def items_of(machine: Machine, value: ir.Value) -> tuple[np.ndarray, ...]:
    return items_of_element(machine.read(value))


def _position(machine: Machine, op: Op) -> int | None:
    return None if op.position is None else int(machine.read(op.position))


@runs("list_empty")
def _list_empty(machine: Machine, op: Op) -> None:
    machine.give(op, listed(()))


@runs("list_insert")
def _list_insert(machine: Machine, op: Op) -> None:
    items, position = items_of(machine, op.list), _position(machine, op)
    at = insertion_index(op, len(items), position)
    machine.give(op, listed((*items[:at], machine.read(op.x), *items[at:])))


@runs("list_erase")
def _list_erase(machine: Machine, op: Op) -> None:
    items, position = items_of(machine, op.list), _position(machine, op)
    at = erased_index(op, len(items), position)
    machine.give(op, listed((*items[:at], *items[at + 1 :])))


@runs("list_length")
def _list_length(machine: Machine, op: Op) -> None:
    machine.give(op, np.array(len(items_of(machine, op.list)), np.int64))


@runs("list_at")
def _list_at(machine: Machine, op: Op) -> None:
    items, position = items_of(machine, op.list), _position(machine, op)
    at = read_index(op, len(items), position)
    item = items[at]
    fits = item.ndim == len(op.sizes) and all(w in (ANY, h) for w, h in zip(op.sizes, item.shape, strict=True))
    if not fits or item.dtype != numpy_dtype(op.dtype):
        failed(Status.WRONG_ITEM, full_name(op), at)
    machine.give(op, item)


@runs("list_concat")
def _list_concat(machine: Machine, op: Op) -> None:
    items = items_of(machine, op.list)
    if not items:
        failed(Status.EMPTY_LIST, full_name(op))
    pieces = [item.reshape(*item.shape[: op.axis], 1, *item.shape[op.axis :]) for item in items] if op.stack else items
    for number, (item, piece) in enumerate(zip(items, pieces, strict=True)):
        rank = item.ndim == len(op.sizes) - op.stack and item.dtype == numpy_dtype(op.dtype)
        if not rank or any(
            a != b for axis, (a, b) in enumerate(zip(piece.shape, pieces[0].shape, strict=True)) if axis != op.axis
        ):
            failed(Status.WRONG_ITEM, full_name(op), number)
    length = sum(piece.shape[op.axis] for piece in pieces)
    shape = (*pieces[0].shape[: op.axis], length, *pieces[0].shape[op.axis + 1 :])
    for wanted, size in zip(op.sizes, shape, strict=True):
        if wanted not in (ANY, size):
            failed(Status.SHAPE_MISMATCH, full_name(op), size)
    made, at = machine.allocate(shape, op.dtype), 0
    for piece in pieces:
        made[(slice(None),) * op.axis + (slice(at, at + piece.shape[op.axis]),)] = piece
        at += piece.shape[op.axis]
    machine.give(op, made)


@runs("list_split")
def _list_split(machine: Machine, op: Op) -> None:
    x, axis = machine.read(op.x), op.axis % type_of(op.x).rank
    parts: int | list[int] | None = None
    if op.parts is not None:
        is_number = type_of(op.parts).rank == 0
        parts = int(machine.read(op.parts)) if is_number else [int(size) for size in machine.read(op.parts)]
    sizes = split_sizes(op, x.shape[axis], parts)
    ends = list(itertools.accumulate(sizes))
    made = [x[(slice(None),) * axis + (slice(end - size, end),)] for size, end in zip(sizes, ends, strict=True)]
    if op.parts is None and not op.keep:
        made = [part.reshape(*part.shape[:axis], *part.shape[axis + 1 :]) for part in made]
    machine.give(op, listed(tuple(np.array(part) for part in made)))
