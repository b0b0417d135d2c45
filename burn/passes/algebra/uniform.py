"""Uniform constants: weights of one repeated number (exporters write scales of ones), different forms of one number,
and integer arithmetic on constants."""

from __future__ import annotations

import operator
from collections.abc import Callable

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import result_type, splat
from burn.dialect.types import DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law
from burn.passes.constants import full, uniform_number

MOST_BYTES = 1 << 16
"""Larger weights are not inspected: their pages are read once, when they are packed."""


@law("weight")
def uniform_weight(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A weight of one repeated number is that number."""
    if op.key not in rewriter.weights or rewriter.weights.weight(op.key).nbytes > MOST_BYTES:
        return None
    number = uniform_number(rewriter.weights.get(op.key), op.dtype)
    return full(number, result_type(op)) if number is not None else None


@law("constant")
def number_as_full(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A number written as `constant` is written as `full`, so that equal numbers merge."""
    number, type_ = splat(op.result), result_type(op)
    return full(number, type_) if number is not None and type_.shape == () else None


INTEGERS: dict[str, Callable[[int, int], int | bool | None]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b if b else None,
    "mod": lambda a, b: a % b if b else None,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
"""Arithmetic on two integer constants."""


@law(*INTEGERS)
def known_integers(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """2 - 1 = 1: shapes and indices that exporters compute step by step; only if the result does not wrap."""
    left, right = splat(op.lhs), splat(op.rhs)
    if left is None or right is None:
        return None
    type_ = result_type(op)
    if type_.shape != () or DTYPES[type_of(op.lhs).dtype].kind not in ("int", "uint"):
        return None
    number = INTEGERS[op.OP_NAME](int(left), int(right))
    return full(number, type_) if number is not None and _holds(type_.dtype, number) else None


@law("neg")
def known_negative(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """-(2) = -2 of one integer"""
    number, type_ = splat(op.x), result_type(op)
    if (
        number is None
        or type_.shape != ()
        or DTYPES[type_.dtype].kind != "int"
        or not _holds(type_.dtype, -int(number))
    ):
        return None
    return full(-int(number), type_)


@law("cast")
def known_cast(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """One integer or boolean cast to another integer type that holds it."""
    number, have, type_ = splat(op.x), type_of(op.x).dtype, result_type(op)
    whole = DTYPES[have].kind in ("int", "uint", "bool") and DTYPES[type_.dtype].kind in ("int", "uint")
    if number is None or type_.shape != () or not whole or not _holds(type_.dtype, int(number)):
        return None
    return full(int(number), type_)


def _holds(dtype: str, number: int) -> bool:
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind == "bool":
        return True
    low, high = (0, 2**bits) if kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return low <= number < high
