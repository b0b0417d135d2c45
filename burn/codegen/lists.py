"""Indices and sizes of list ops (`burn/dialect/sequence.py`), for devices that run a program op by op.

A function ends the run with an error of its op if numbers are out of range (`burn.codegen.failure`). A position counts from
the end if it is negative, and is None if the op has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.failure import failed
from burn.dialect.op import Op, full_name
from burn.runtime.abi import Status


def insertion_index(op: Op, length: int, position: int | None) -> int:
    """The index that an item of `list_insert` gets: without a position, the end."""
    at = length if position is None else position + length if position < 0 else position
    if not 0 <= at <= length:
        failed(Status.INDEX_OUT_OF_RANGE, full_name(op), length if position is None else position)
    return at


def erased_index(op: Op, length: int, position: int | None) -> int:
    """The index of the item that `list_erase` removes: without a position, the last one."""
    position = -1 if position is None else position
    at = position + length if position < 0 else position
    if not 0 <= at < length:
        failed(Status.INDEX_OUT_OF_RANGE, full_name(op), position)
    return at


def read_index(op: Op, length: int, position: int | None) -> int:
    """The index of the item that `list_at` gives: without a position, the first one, as of an optional."""
    at = 0 if position is None else position + length if position < 0 else position
    if not 0 <= at < length:
        status = Status.EMPTY_LIST if position is None else Status.INDEX_OUT_OF_RANGE
        failed(status, full_name(op), position or 0)
    return at


def split_sizes(op: Op, length: int, parts: int | Sequence[int] | None) -> list[int]:
    """The sizes of the parts of `list_split` along an axis of this length. None: 1 each. A number: of each but the last."""
    if parts is None:
        return [1] * length
    site = full_name(op)
    if isinstance(parts, int):
        if parts < 1:
            failed(Status.SHAPE_MISMATCH, site, parts)
        return [min(parts, length - at) for at in range(0, length, parts)]
    left = length
    for size in parts:
        if not 0 <= size <= left:
            failed(Status.SHAPE_MISMATCH, site, size)
        left -= size
    if left:
        failed(Status.SHAPE_MISMATCH, site, length - left)
    return list(parts)
