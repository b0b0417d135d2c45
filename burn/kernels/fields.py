"""The fields of kernels by role, for code that treats all kinds of kernel alike.

A field's annotation is its role: loops, scalars, index expressions, writes, stages, folds, buffers, or plain facts. A new kind of
kernel declares its fields, and the rewrites of kernels need no branch for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from burn.kernels.body import Kernel


class FieldRole(Enum):
    """The values are the annotations."""

    LOOP = "LoopVar"
    LOOPS = "tuple[LoopVar, ...]"
    SCALAR = "Scalar"
    INDEX = "Dim"
    WRITES = "tuple[Write, ...]"
    STAGES = "tuple[Stage, ...]"
    FOLDS = "tuple[Fold, ...]"
    BUFFERS = "tuple[Buffer, ...]"
    NAME = "str"
    FLAG = "bool"


@cache
def roles(kind: type[Kernel]) -> tuple[tuple[str, FieldRole], ...]:
    """The name and role of each field of a kind of kernel, in order. Raises TypeError for an annotation that is no role."""
    try:
        return tuple((each.name, FieldRole(each.type)) for each in fields(kind))
    except ValueError as error:
        raise TypeError(f"{kind.__name__}: a field's annotation says its role: {error}") from None


def parts(kernel: Kernel) -> Iterator[tuple[FieldRole, Any]]:
    """The role and value of each field."""
    for name, role in roles(type(kernel)):
        yield role, getattr(kernel, name)
