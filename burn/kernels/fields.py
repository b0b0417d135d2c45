"""The fields of kernels by kind, for code that handles every kind of kernel.

A field's annotation is its kind: loops, scalars, index expressions, writes, stages, column reductions, buffers, or plain
values. A new kind of kernel declares its fields, and the rewrites of kernels need no branch for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from burn.kernels.body import Kernel


class FieldKind(Enum):
    """The values are the annotations."""

    LOOP = "LoopVar"
    LOOPS = "tuple[LoopVar, ...]"
    SCALAR = "Scalar"
    SCALARS = "tuple[Scalar, ...]"
    INDEX = "Dim"
    WRITES = "tuple[Write, ...]"
    STAGES = "tuple[Stage, ...]"
    COLUMN_REDUCTIONS = "tuple[ColumnReduction, ...]"
    BUFFERS = "tuple[Buffer, ...]"
    NAME = "str"
    FLAG = "bool"


@cache
def field_kinds(cls: type[Kernel]) -> tuple[tuple[str, FieldKind], ...]:
    """The name and kind of each field of a class of kernels, in order. Raises TypeError for another annotation."""
    try:
        return tuple((each.name, FieldKind(each.type)) for each in fields(cls))
    except ValueError as error:
        raise TypeError(f"{cls.__name__}: a field's annotation says its kind: {error}") from None


def parts(kernel: Kernel) -> Iterator[tuple[FieldKind, Any]]:
    """The kind and value of each field."""
    for name, kind in field_kinds(type(kernel)):
        yield kind, getattr(kernel, name)
