"""Several loops as one linear range: a launch may start anywhere in it and increments the loops' indices.

Dividing the linear index anew for each iteration costs more than a short row.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.host.emit import Function, Int, Value


def split(code: Function, number: Int, sizes: Sequence[Int]) -> list[Value]:
    """The loops' indices (the last loop fastest) for a linear index."""
    indices: list[Value] = []
    for position, size in reversed(list(enumerate(sizes))):
        indices.append(code.value(number if position == 0 else code.urem(number, size)))
        number = number if position == 0 else code.udiv(number, size)
    return indices[::-1]


def following(code: Function, indices: Sequence[Value], sizes: Sequence[Int]) -> list[Value]:
    """The indices of the next iteration."""
    found: list[Value] = []
    carry: Int = 1
    for position, size in reversed(list(enumerate(sizes))):
        moved = code.value(code.add(indices[position], carry))
        if position == 0:
            found.append(moved)
            break
        over = code.cmp("eq", moved, size)
        found.append(code.select(over, code.const(0), moved))
        carry = code.select(over, code.const(1), code.const(0))
    return found[::-1]
