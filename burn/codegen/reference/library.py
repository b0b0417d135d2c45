"""Sorting, selecting and searching (`burn/dialect/library.py`), and decoding of images, in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from burn.codegen.reference.machine import Machine
from burn.codegen.reference.operators import runs
from burn.dialect.custom import Custom
from burn.dialect.op import Agreement, Op, full_name
from burn.dialect.types import type_of
from burn.runtime import images


def key(element: Any) -> Any:
    """The order of elements: NaN is larger than all numbers and equal to NaN, and -0 equals 0."""
    if isinstance(element, complex):
        return key(element.real), key(element.imag)
    if isinstance(element, str):
        return element
    number = element.item() if isinstance(element, np.generic) and element.dtype.kind in "biu" else float(element)
    return (1, 0.0) if number != number else (0, number)


def elements(array: np.ndarray) -> list[Any]:
    """The elements in row-major order, complex numbers as Python's."""
    flat = array.reshape(-1)
    return [complex(x) for x in flat] if array.dtype.kind == "c" else list(flat)


@runs("sort")
def _sort(machine: Machine, op: Op) -> None:
    x = machine.read(op.x)
    values, indices = (machine.empty(result) for result in op.operation.results)
    if not x.ndim:
        values[...] = x
        machine.give(op, values, indices)
        return
    axis = op.axis % x.ndim
    for outside in np.ndindex(*x.shape[:axis], *x.shape[axis + 1 :]):
        line = (*outside[:axis], slice(None), *outside[axis:])
        keys = [key(element) for element in x[line]]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=op.descending)  # stable in both directions
        for to, source in enumerate(order):
            values[line][to], indices[line][to] = x[line][source], source
    machine.give(op, values, indices)


@runs("nonzero")
def _nonzero(machine: Machine, op: Op) -> None:
    x = machine.read(op.x)
    found = [index or (0,) for index in np.ndindex(*x.shape) if x[index] != ("" if x.dtype == object else 0)]
    made = machine.allocate((max(x.ndim, 1), len(found)), "int64")
    for column, each in enumerate(found):
        for axis, position in enumerate(each):
            made[axis, column] = position
    machine.give(op, made)


@runs("unique")
def _unique(machine: Machine, op: Op) -> None:
    x = machine.read(op.x)
    axis = 0 if op.axis is None else op.axis % x.ndim
    rows = x.reshape(-1) if op.axis is None else x
    pieces = [rows[(slice(None),) * axis + (i,)] for i in range(rows.shape[axis])]
    keys = [tuple(map(key, elements(np.asarray(piece)))) for piece in pieces]
    members: dict[Any, list[int]] = {}
    for index, each in enumerate(keys):
        members.setdefault(each, []).append(index)
    order = sorted(members) if op.sorted else list(members)
    number = {each: i for i, each in enumerate(order)}
    dtype = type_of(op.x).dtype
    values = machine.allocate((*rows.shape[:axis], len(order), *rows.shape[axis + 1 :]), dtype)
    first, counts = (machine.allocate((len(order),), "int64") for _ in range(2))
    inverse = machine.allocate((len(keys),), "int64")
    for i, each in enumerate(order):
        values[(slice(None),) * axis + (i,)] = pieces[members[each][0]]
        first[i], counts[i] = members[each][0], len(members[each])
    for index, each in enumerate(keys):
        inverse[index] = number[each]
    machine.give(op, values, first, inverse, counts)


# ---- boxes -----------------------------------------------------------------------------------------------------------
Box = tuple[tuple[float, float], tuple[float, float], float]
"""The lower corner, the higher one, the area."""


def _box(numbers: np.ndarray, form: str, rounded: Callable[[float], float]) -> Box:
    low, high = [], []
    for axis in (0, 1):
        first, second = float(numbers[axis]), float(numbers[2 + axis])
        if form == "center":
            first, second = rounded(first - second / 2), rounded(first + second / 2)
        low.append(first if form == "ordered" else _least(first, second))
        high.append(second if form == "ordered" else _most(first, second))
    area = rounded(rounded(high[0] - low[0]) * rounded(high[1] - low[1]))
    return (low[0], low[1]), (high[0], high[1]), area


def _least(a: float, b: float) -> float:
    """The smaller; the other one of a NaN."""
    return b if a != a else a if b != b else min(a, b)


def _most(a: float, b: float) -> float:
    return b if a != a else a if b != b else max(a, b)


def _overlap(a: Box, b: Box, limit: float, form: str, rounded: Callable[[float], float]) -> bool:
    """True if the intersection is more than `limit` of the union."""
    height, width = (
        length if length > 0 else 0.0
        for axis in (0, 1)
        for length in [rounded(_least(a[1][axis], b[1][axis]) - _most(a[0][axis], b[0][axis]))]
    )
    if not (height > 0 and width > 0) and (form != "ordered" or limit >= 0):
        return False
    if form != "ordered" and not (a[2] > 0 and b[2] > 0):
        return False
    both = rounded(height * width)
    whole = rounded(rounded(a[2] + b[2]) - both)
    return whole != 0 and rounded(both / whole) > limit  # boxes without area give NaN, which is not


@runs("non_max_suppression")
def _non_max_suppression(machine: Machine, op: Op) -> None:
    batches, _, n = type_of(op.scores).shape
    for have, want in zip(type_of(op.boxes).shape, (batches, n, 4), strict=True):
        machine.require(Agreement(have, want), full_name(op))
    boxes, scores = machine.read(op.boxes), machine.read(op.scores)
    most, limit = int(machine.read(op.maximum)), float(machine.read(op.overlap))
    least = None if op.threshold is None else float(machine.read(op.threshold))
    rounded: Callable[[float], float] = float if boxes.dtype == np.float64 else lambda x: float(np.float32(x))
    picked: list[tuple[int, int, int]] = []
    for batch, cls in itertools.product(range(scores.shape[0]), range(scores.shape[1])):
        score = scores[batch, cls]
        candidates = [i for i in range(len(score)) if least is None or float(score[i]) > least]
        candidates.sort(key=lambda i: key(score[i]), reverse=True)
        kept: list[Box] = []
        for i in candidates:
            box = _box(boxes[batch, i], op.form, rounded)
            if len(kept) < most and not any(_overlap(box, other, limit, op.form, rounded) for other in kept):
                kept.append(box)
                picked.append((batch, cls, i))
    made = machine.allocate((len(picked), 3), "int64")
    for row, triple in enumerate(picked):
        made[row] = triple
    machine.give(op, made)


@runs("image_decode")
def _image_decode(machine: Machine, op: Op) -> None:
    """Raises RunError, which names the node as it is."""
    data = bytes(machine.read(op.x))
    machine.give(op, images.decode(data, images.FORMATS.index(op.form)))


@runs("custom")
def _custom(machine: Machine, op: Op) -> None:
    """The body in Python of a custom op."""
    from burn.custom.host import results_of

    assert isinstance(op, Custom)
    types = [(type_of(result).dtype, machine.shape(result)) for result in op.operation.results]
    operands = [machine.read(value).copy() for value in op.values]
    machine.give(op, *results_of(op.definition, op.shown, operands, types))
