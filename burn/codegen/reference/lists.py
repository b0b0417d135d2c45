"""Sequences and optionals (`burn/dialect/sequence.py`)."""

from __future__ import annotations

import itertools

import numpy as np

from burn.codegen.failure import failed
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
    at = len(items) if position is None else position + len(items) if position < 0 else position
    if not 0 <= at <= len(items):
        failed(Status.INDEX_OUT_OF_RANGE, full_name(op), len(items) if position is None else position)
    machine.give(op, listed((*items[:at], machine.read(op.x), *items[at:])))


@runs("list_erase")
def _list_erase(machine: Machine, op: Op) -> None:
    items, position = items_of(machine, op.list), _position(machine, op)
    position = -1 if position is None else position
    at = position + len(items) if position < 0 else position
    if not 0 <= at < len(items):
        failed(Status.INDEX_OUT_OF_RANGE, full_name(op), position)
    machine.give(op, listed((*items[:at], *items[at + 1 :])))


@runs("list_length")
def _list_length(machine: Machine, op: Op) -> None:
    machine.give(op, np.array(len(items_of(machine, op.list)), np.int64))


@runs("list_at")
def _list_at(machine: Machine, op: Op) -> None:
    items, position = items_of(machine, op.list), _position(machine, op)
    at = 0 if position is None else position + len(items) if position < 0 else position
    if not 0 <= at < len(items):
        status = Status.EMPTY_LIST if position is None else Status.INDEX_OUT_OF_RANGE
        failed(status, full_name(op), position or 0)
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
    length, site = x.shape[axis], full_name(op)
    if op.parts is None:
        sizes = [1] * length
    elif type_of(op.parts).rank == 0:
        each = int(machine.read(op.parts))
        if each < 1:
            failed(Status.SHAPE_MISMATCH, site, each)
        sizes = [min(each, length - at) for at in range(0, length, each)]
    else:
        sizes = [int(size) for size in machine.read(op.parts)]
    left = length
    for size in sizes:
        if not 0 <= size <= left:
            failed(Status.SHAPE_MISMATCH, site, size)
        left -= size
    if left:
        failed(Status.SHAPE_MISMATCH, site, length - left)
    ends = list(itertools.accumulate(sizes))
    parts = [x[(slice(None),) * axis + (slice(end - size, end),)] for size, end in zip(sizes, ends, strict=True)]
    if op.parts is None and not op.keep:
        parts = [part.reshape(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts]
    machine.give(op, listed(tuple(np.array(part) for part in parts)))
