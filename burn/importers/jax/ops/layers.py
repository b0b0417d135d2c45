"""Biases and weights where burn's layers have them: channels of convolutions first, weights of linear layers last.

JAX's modules add a bias after the axes are moved back, and vmap puts weights first. Both forms compute the same.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of


def _op(value: Value, name: str = "") -> Op | None:
    """The op that made a value, if it has this name; None for recorded values."""
    found = op_of(value) if isinstance(value, ir.Value) else None
    return found if found is not None and (not name or name == found.OP_NAME) else None


def is_stored(value: Value) -> bool:
    """True for a parameter or another constant array, transposed or not."""
    found = _op(value)
    if found is not None and found.OP_NAME == "transpose":
        return is_stored(found.operation.operands[0])
    return found is not None and found.has(Trait.STORED)


def add(a: Value, b: Value) -> Value:
    """a + b; a bias is added to a linear layer or a convolution itself."""
    for x, other in ((a, b), (b, a)):
        bias = _bias(other, x)
        if bias is None:
            continue
        if _op(x, "dot_general") is not None:
            return ops.add(x, bias)
        moved = _op(x, "transpose")
        if moved is not None and _op(moved.operation.operands[0], "conv") is not None:
            y, order = moved.operation.operands[0], moved.attrs["permutation"]
            if order[-1] == 1:
                spread = reshape(bias, (1, type_of(bias).shape[0], *(1,) * (type_of(y).rank - 2)))
                return ops.transpose(ops.add(y, spread), permutation=order)
    return ops.add(a, b)


def transposed(x: Value, permutation: tuple[int, ...]) -> Value:
    """x with its axes permuted; two transposes become one."""
    before = _op(x, "transpose")
    if before is not None:
        inner = before.attrs["permutation"]
        return transpose(before.operation.operands[0], tuple(inner[i] for i in permutation))
    return transpose(x, permutation)


def _bias(value: Value, x: Value) -> Value | None:
    """A stored vector that a value repeats along all axes of x but the last."""
    last = type_of(x).shape[-1:]
    while (found := _op(value)) is not None and found.OP_NAME in ("reshape", "broadcast_to"):
        if type_of(value).shape[-1:] != last:
            return None
        value = found.operation.operands[0]
    return value if is_stored(value) and last == type_of(value).shape else None
