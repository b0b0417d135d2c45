"""An op's reads: which views are free to compute in the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.dims import Call, Dim, LoopVar, coefficient
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.packed import PackedConv
from burn.dialect.query import op_of
from burn.dialect.shape import Pad
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.body import Load, walk
from burn.kernels.builders.builder import loop_index, loops
from burn.kernels.lower import Lowering

FEW = 16384
"""Elements that a kernel may store one by one."""


def affine(value: ir.Value, is_materialised: Callable[[Op], bool]) -> bool:
    """True if element (i, j, ..) of a view has an affine address: no division, no condition.
    is_materialised: true for a view that another group computes."""
    load = _load_of(value, is_materialised)
    return load is not None and not any(isinstance(a, Call) for m, _ in _terms(load.offset) for a in m)


def _terms(dim: Dim) -> Iterable[tuple[tuple, int]]:
    return () if isinstance(dim, int) else dim.terms


def _load_of(value: ir.Value, is_materialised: Callable[[Op], bool]) -> Load | None:
    def inside(v: ir.Value) -> bool:
        op = op_of(v)
        return op is not None and op.has(Trait.VIEW) and not is_materialised(op)

    scalar = Lowering(inside).at(value, loop_index(loops(type_of(value).shape)))
    return scalar if isinstance(scalar, Load) else None


def contiguous(user: Op, value: ir.Value, is_materialised: Callable[[Op], bool], strided: bool) -> bool:
    """True if a contraction reads a view in place. For the rhs of a dot product: its columns are contiguous, or `strided` allows
    strided ones. For a convolution's weight: the channels that it sums may also be contiguous, as those of a 1x1 kernel are, if
    `strided`."""
    if isinstance(user, Conv) and strided and value == user.weight and value != user.x:
        load = _load_of(value, is_materialised)
        assert load is not None
        last, channels = (_step(load, value, axis) for axis in (-1, -2))
        return user.layout == "last" and (last == 1 or channels == 1)
    if not isinstance(user, DotGeneral) or user.rhs != value:
        return not isinstance(user, (Conv, PackedConv))
    if strided:
        return True
    shape = type_of(value).shape
    columns = [a for a in range(len(shape)) if a not in (*user.rhs_batch, *user.rhs_contract)]
    if not columns:
        return True
    load = _load_of(value, is_materialised)
    assert load is not None
    return _step(load, value, columns[-1]) == 1


def crosses(user: DotGeneral, is_materialised: Callable[[Op], bool]) -> bool:
    """True if the batch axis is contiguous in one operand of a dot product alone, in memory behind views and pads."""
    if not user.lhs_batch:
        return False
    operands = ((user.lhs, user.lhs_batch[-1]), (user.rhs, user.rhs_batch[-1]))
    steps = [_steps(value, axis, is_materialised) for value, axis in operands]
    return all(steps) and len({found == {1} for found in steps}) == 2


def _steps(value: ir.Value, axis: int, is_materialised: Callable[[Op], bool]) -> set[Dim | None]:
    """`_step` of each tensor that is read behind views and pads."""

    def inside(v: ir.Value) -> bool:
        op = op_of(v)
        return op is not None and (isinstance(op, Pad) or op.has(Trait.VIEW)) and not is_materialised(op)

    scalar = Lowering(inside).at(value, loop_index(loops(type_of(value).shape)))
    return {_step(node, value, axis) for node in walk(scalar) if isinstance(node, Load)}


def _step(load: Load, value: ir.Value, axis: int) -> Dim | None:
    """Elements between neighbours along an axis; 1 for an axis of one element. None: the address is not linear in it."""
    shape = type_of(value).shape
    return 1 if shape[axis] == 1 else coefficient(load.offset, LoopVar(f"i{axis % len(shape)}", shape[axis]))


def keeps_columns(op: Op) -> bool:
    """True if a transpose keeps the contiguous axis, or the tensor is small: strided stores cost more than a
    transposing kernel."""
    elements = type_of(op.x).elements
    return op.permutation[-1] == len(op.permutation) - 1 or (isinstance(elements, int) and elements <= FEW)
