"""Biases and weights where burn's layers have them: channels of convolutions first, weights of linear layers last, as matrices.

JAX's modules add a bias after the axes are moved back, and vmap puts weights first. Both forms compute the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.importers.lax import contraction


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


def linear(x: Value, weight: Value, contract: tuple[Sequence[int], Sequence[int]], dtype: str) -> Value:
    """A contraction with stored weights as one by a matrix, as linear layers have it. Flax's DenseGeneral, which attention is
    made of, has several axes of heads and features."""
    axes, of_weight = ([a % type_of(v).rank for a in own] for v, own in zip((x, weight), contract, strict=True))
    rest, kept = ([a for a in range(type_of(v).rank) if a not in own] for v, own in ((x, axes), (weight, of_weight)))
    if len(axes) == 1 and len(kept) == 1:
        return contraction.dot_general(x, weight, (axes, of_weight), ((), ()), dtype)
    sizes = [type_of(weight).shape[a] for a in of_weight]
    own = [type_of(weight).shape[a] for a in kept]
    matrix = reshape(transposed(weight, (*of_weight, *kept)), (product(sizes), product(own)))
    outer = [type_of(x).shape[a] for a in rest]
    rows = reshape(transposed(x, (*rest, *axes)), (*outer, product(sizes)))
    y = contraction.dot_general(rows, matrix, ((len(rest),), (0,)), ((), ()), dtype)
    return reshape(y, (*outer, *own))


def _add_inside(x: Value, other: Value) -> Value | None:
    """x + other for a bias of several axes: added to the matmul in front of the reshape that x is."""
    spread = _op(x, "reshape")
    if spread is None or _op(spread.operation.operands[0], "dot_general") is None:
        return None
    y = spread.operation.operands[0]
    bias = _bias(other, x, type_of(x).rank - type_of(y).rank + 1)
    if bias is None or type_of(x).shape[: type_of(y).rank - 1] != type_of(y).shape[:-1]:
        return None
    return reshape(ops.add(y, reshape(bias, type_of(y).shape[-1:])), type_of(x).shape)


def add(a: Value, b: Value) -> Value:
    """a + b; a bias is added to a linear layer or a convolution itself."""
    for x, other in ((a, b), (b, a)):
        inside = _add_inside(x, other)
        if inside is not None:
            return inside
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


def _bias(value: Value, x: Value, count: int = 1) -> Value | None:
    """A stored tensor of the last `count` axes of x that a value repeats along the other axes of x."""
    if count < 1:
        return None
    last = type_of(x).shape[-count:]
    while (found := _op(value)) is not None and found.OP_NAME in ("reshape", "broadcast_to"):
        if type_of(value).shape[-count:] != last:
            return None
        value = found.operation.operands[0]
    return value if is_stored(value) and last == type_of(value).shape else None
