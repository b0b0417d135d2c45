"""Manipulation functions of the array API standard."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from burn.dialect.types import broadcast_shapes as _joint
from burn.errors import TypeMismatch
from burn.tensors import Tensor, concatenation, constant
from burn.tensors.creation import broadcast_tensors
from burn.tensors.sizes import shown_shape


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Tensors broadcast to their common shape."""
    return tuple(broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape that operands of these shapes broadcast to. Raises TypeMismatch if they do not."""
    try:
        return shown_shape(_joint(*shapes))
    except ValueError as error:
        raise TypeMismatch("these shapes do not broadcast", [str(error)]) from None


def broadcast_to(x: Tensor, /, shape: tuple[Any, ...]) -> Tensor:
    """Axes of size 1, and new ones in front, repeated to a shape."""
    return constant(x).broadcast_to(shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after another along an axis; without one, their elements in row-major order."""
    return concatenation.concat([constant(a).ravel() for a in arrays] if axis is None else arrays, axis or 0)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """New axes of size 1 at these positions of the result. Raises IndexError for a position that the result lacks."""
    given = constant(x)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = given.ndim + len(axes)
    if any(not -rank <= a < rank for a in axes):
        raise IndexError(f"axes {list(axes)} are out of range for a tensor of {rank} axes")
    positions = sorted(a % rank for a in axes)
    if len(set(positions)) < len(positions):
        raise TypeMismatch("an axis is named twice", [f"{list(axes)}"])
    for position in positions:
        given = given.unsqueeze(position)
    return given


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Axes (all, by default) in reverse order."""
    return constant(x).flip(axis)


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Axes moved to other positions; the rest keep their order."""
    return constant(x).moveaxis(source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Axes in another order."""
    return constant(x).permute(axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element `repeats` times, consecutively; a tensor has a number for each element of the axis, or one for all. Raises
    TypeMismatch for a traced tensor, whose elements decide the result's shape."""
    given = constant(x)
    counts: Any = repeats.tolist() if isinstance(repeats, Tensor) else repeats
    if isinstance(counts, list) and len(counts) == 1:
        (counts,) = counts
    return given.repeat(counts, axis)


def reshape(x: Tensor, /, shape: tuple[Any, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in row-major order in another shape; one size may be -1. `copy` changes nothing: tensors do not share memory
    that a program could write."""
    return constant(x).reshape(shape)


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements shifted along the axes; elements shifted out enter at the beginning."""
    given = constant(x)
    if axis is None and not isinstance(shift, int):
        return given.roll(builtins.sum(shift))
    return given.roll(shift, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without these axes, of size 1. Raises ValueError for an axis of another size."""
    given = constant(x)
    axes = given._axes(axis)
    return given.squeeze(*axes) if axes else +given


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape, one after another along a new axis."""
    return concatenation.stack(arrays, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole tensor repeated along the last axes, once for each number; more numbers than axes make new ones."""
    return constant(x).tile(repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without it."""
    return tuple(constant(x).unbind(axis))
