"""Compile-time knowledge about values: constness, and the elements of small constants.

`Constants` caches constness for one program during a rewrite; `splat` and `integers` read values written in the IR.
"""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import signed
from burn.dialect.mentions import attribute_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, TensorType, type_of


def full(number: float | int | bool, type_: TensorType) -> ir.Value:
    """A tensor of one repeated number; integers are exact."""
    integer = DTYPES[type_.dtype].kind in ("int", "uint")
    bits = signed(int(number)) if integer else None
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=float(number), bits=bits)


def uniform_number(array: np.ndarray, dtype: str) -> float | int | None:
    """The number that all elements of an array equal bitwise; None if they differ."""
    kind = DTYPES[dtype].kind
    if kind in ("string", "complex"):
        return None
    flat = array.reshape(-1)
    if flat.size > 1:
        bits = np.ascontiguousarray(flat).view(f"u{array.itemsize}")
        if not (bits[0] == bits[1] and bits[0] == bits[-1] and (bits == bits[0]).all()):
            return None
    number = flat[0] if flat.size else 0
    return int(number) if kind in ("int", "uint") else float(number)


class Constants:
    """Tells which values are computed from constants alone. Answers are cached, which is valid because values are only
    added."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, bool] = {}

    def __call__(self, value: ir.Value) -> bool:
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self._known:
                stack.pop()
                continue
            op = op_of(current)
            if op is None or not is_pure(op) or not type_of(current).is_static or attribute_symbols(op):
                self._known[current] = False
            elif not op.operation.operands:
                self._known[current] = op.has(Trait.CONSTANT)
            else:
                waiting = [v for v in op.operation.operands if v not in self._known]
                if waiting:
                    stack += waiting
                    continue
                self._known[current] = all(self._known[v] for v in op.operation.operands)
            stack.pop()
        return self._known[value]


def is_pure(op: Op) -> bool:
    """True if an op is a function of its operands and attributes, without regions. The result of a collective depends on other
    processes."""
    return op.PURE and not op.REGIONS and not op.has(Trait.ORDERED)


def unrounded(weight: ir.Value) -> ir.Value:
    """A constant of bfloat16 as float32, before it was rounded if it is a cast. Views are repeated."""
    op = op_of(weight)
    if op is not None and op.OP_NAME == "cast" and type_of(op.x).dtype == "float32":
        return op.x
    if op is not None and op.has(Trait.VIEW):
        return type(op).build(unrounded(op.x), **op.attrs)
    return ops.cast(weight, dtype="float32")
