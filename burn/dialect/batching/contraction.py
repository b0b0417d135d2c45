"""Batching rules of contractions: they stay contractions, with the mapped axis as rows, columns, a batch axis or groups."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.batching.rules import Call, Item, divided, fold, folded, merged, moved, unfold
from burn.dialect.compose import number, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.types import type_of


def dot_general(call: Call) -> Value:
    """Both mapped: the mapped axis is a batch axis. One mapped: it is an axis of rows or columns."""
    lhs, rhs = call.operands
    names = ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")
    lhs_batch, rhs_batch, lhs_contract, rhs_contract = (call.attrs[name] for name in names)
    left, right = ((lhs_batch, lhs_contract), (rhs_batch, rhs_contract))
    if lhs.mapped:
        left = tuple(tuple(a + 1 for a in axes) for axes in left)
    if rhs.mapped:
        right = tuple(tuple(a + 1 for a in axes) for axes in right)
    rows = lhs.type.rank - len(lhs_batch) - len(lhs_contract)
    columns = rhs.type.rank - len(rhs_batch) - len(rhs_contract)
    operands = [lhs.value, rhs.value]
    if lhs.mapped and rhs.mapped:
        left, right = ((0, *left[0]), left[1]), ((0, *right[0]), right[1])
        at = 0
    elif lhs.mapped:
        at = len(lhs_batch)
    elif not columns:  # the result needs no transpose if the operands are exchanged
        operands, left, right, at = [rhs.value, lhs.value], right, left, len(lhs_batch)
    else:
        at = len(lhs_batch) + rows
    axes = {"lhs_batch": left[0], "lhs_contract": left[1], "rhs_batch": right[0], "rhs_contract": right[1]}
    axes["dtype"] = call.attrs["dtype"] or lhs.type.dtype  # that of lhs by default, also if they are exchanged
    return moved(call.build(operands, **axes), at, 0)


class _Axes:
    """The axes of a convolution's operands: batch and channels of x, inputs and outputs of the weight, for each layout."""

    def __init__(self, call: Call) -> None:
        rank = call.operands[0].type.rank
        last = call.attrs["layout"] == "last"
        self.channels, self.inputs, self.outputs = (rank - 1, rank - 2, rank - 1) if last else (1, 1, 0)


def conv(call: Call) -> Any:
    """A mapped x: its examples join the batch. A mapped weight: further output channels. Both: a group for each example."""
    x, weight = call.operands
    if not weight.mapped:
        return folded(x=0)(call)
    axes, groups = _Axes(call), call.attrs["groups"]
    outputs = weight.type.shape[axes.outputs]
    if not x.mapped:
        kernels = divided(moved(weight.value, 0, axes.outputs), axes.outputs + 1, groups, outputs // groups)
        kernels = moved(kernels, axes.outputs + 1, axes.outputs)  # [group, example, output of the group]
        y = call.build([x.value, merged(merged(kernels, axes.outputs), axes.outputs)])
        y = divided(y, axes.channels, groups, call.size, outputs // groups)
        return merged(moved(y, axes.channels + 1, 0), axes.channels + 1)
    if not isinstance(call.size, int):
        return _by_windows(call, x, weight)
    if not call.size:
        return _empty(call)
    operands = [fold(x.value, axes.channels), fold(weight.value, axes.outputs)]
    return unfold(call.build(operands, groups=call.size * groups), axes.channels, call.size, outputs)


def _empty(call: Call) -> Value:
    """There are no groups for no examples."""
    (type_,) = call.types
    return ops.full(shape=(0, *type_.shape), dtype=type_.dtype, value=0.0)


def _by_windows(call: Call, x: Item, weight: Item) -> Any:
    """A batched matmul with the elements under the windows: groups are counted at compile time, and examples need not be."""
    last = call.attrs["layout"] == "last"
    n, groups = x.type.rank - 2, call.attrs["groups"]
    values = x.value if last else moved(x.value, 2, n + 2)  # [B, N, d.., C]
    kernels = weight.value if last else transpose(weight.value, (0, *range(3, n + 3), 2, 1))  # [B, k.., I, O]
    window = type_of(kernels).shape[1 : n + 1]
    if not all(isinstance(k, int) for k in window):
        return NotImplemented
    low, high, fill = call.attrs["low"], call.attrs["high"], call.attrs["fill"] or 0
    if any((*low, *high)):
        values = ops.pad(values, number(fill, type_of(values).dtype), low=(0, 0, *low, 0), high=(0, 0, *high, 0))
    under = ops.windows(
        values, axis=2, window=window, strides=call.attrs["strides"], dilations=call.attrs["dilations"]
    )  # [B, N, e.., k.., C]
    inputs, outputs = type_of(kernels).shape[n + 1 :]
    under = divided(under, 2 * n + 2, groups, inputs)  # [B, N, e.., k.., g, I]
    kernels = divided(kernels, n + 2, groups, outputs // groups)  # [B, k.., I, g, O / g]
    y = ops.dot_general(
        under,
        kernels,
        lhs_batch=(0, 2 * n + 2),
        rhs_batch=(0, n + 2),
        lhs_contract=(*range(n + 2, 2 * n + 2), 2 * n + 3),
        rhs_contract=tuple(range(1, n + 2)),
        dtype=call.attrs["dtype"],
    )  # [B, g, N, e.., O / g]
    y = moved(y, 1, n + 2)  # [B, N, e.., g, O / g]
    y = reshape(y, (*type_of(y).shape[: n + 2], outputs))
    return y if last else moved(y, n + 2, 2)


def conv_transpose(call: Call) -> Any:
    """As of a convolution; its weight is [C, O / groups, k..]."""
    x, weight = call.operands
    if not weight.mapped:
        return folded(x=0)(call)
    groups, share = call.attrs["groups"], weight.type.shape[1]
    if not x.mapped:
        y = call.build([x.value, merged(moved(weight.value, 0, 1), 1)])  # [N, group, example, output of the group]
        return merged(moved(divided(y, 1, groups, call.size, share), 2, 0), 2)
    if not isinstance(call.size, int):
        return NotImplemented
    if not call.size:
        return _empty(call)
    operands = [fold(x.value, 1), merged(weight.value, 0)]
    return unfold(call.build(operands, groups=call.size * groups), 1, call.size, share * groups)


def block_dot(call: Call) -> Any:
    """Only x [.., k] may be mapped."""
    x, *rest = call.operands
    if any(item is not None and item.mapped for item in rest):
        return NotImplemented
    return call.build([x.value, *(None if item is None else item.value for item in rest)])


# ---- attention ---------------------------------------------------------------------------------------------------------
def attention(call: Call) -> Any:
    """The mapped axis joins the batch axis of all operands. A mask that is equal for all entries of the batch is not repeated.
    Dropout would draw other numbers for a larger batch: it is decomposed."""
    operands = call.named()
    if operands["key"] is not None:
        return NotImplemented
    batch = operands["q"].type.shape[0]
    given = []
    for name, item in operands.items():
        if item is None:
            given.append(None)
        elif name == "mask":
            given.append(_by_entry(item, 4, batch, call.size))
        else:
            given.append(fold(item.all(call.size), 0))
    made = call.build(given)
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    return [divided(y, 0, call.size, batch) for y in made]


def _by_entry(item: Item, rank: int, batch: Any, size: Any) -> Value:
    """An operand whose first of `rank` axes broadcasts to the batch, for the batch of all examples."""
    shape = (*(1,) * (rank - item.type.rank), *item.type.shape)
    if not item.mapped and shape[0] == 1:
        return item.value
    value = reshape(item.value, (size if item.mapped else 1, *shape))
    return reshape(_repeated(value, (size, batch, *shape[1:])), (size * batch, *shape[1:]))


def _repeated(x: Value, shape: Any) -> Value:
    return x if type_of(x).shape == shape else ops.broadcast_to(x, shape=shape)


def rotary(call: Call) -> Value:
    x, *angles = call.operands
    batch = x.type.shape[0]
    given = [_by_entry(item, 3, batch, call.size) for item in angles]
    return divided(call.build([fold(x.all(call.size), 0), *given]), 0, call.size, batch)
