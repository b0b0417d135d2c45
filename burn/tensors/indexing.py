"""Indexing with numpy's rules (numpy's "Indexing on ndarrays").

`_entries` first expands an index to one entry for each axis. Numbers and slices become one `burn.slice`.
None is an axis of size 1. Integer tensors broadcast against each other and gather. A bool tensor
becomes the indices of its true elements, a vector for each of its axes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.deferred import Deferred, is_remembering
from burn.dialect.dims import Dim, Expr, plain
from burn.dialect.shape import slice_bounds
from burn.dialect.types import INTEGERS, TensorType, broadcast_shapes
from burn.errors import OutOfRange, TypeMismatch
from burn.tensors.base import Base, made, of_array
from burn.tensors.promotion import constant, lift
from burn.tensors.sorting import Sorting
from burn.tensors.tracer import active

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


@dataclass
class _Plan:
    """Steps for an index: slice every axis, reshape to `kept`, gather with `indices` (by axis of `kept`).

    front: the gathered axes come first, because the tensors in the index are not adjacent. Otherwise they are
    at `at`. extra: a further shape that the indices broadcast with (of bools, which name no axis)."""

    starts: list[Dim] = field(default_factory=list)
    sizes: list[Dim] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    kept: list[Dim] = field(default_factory=list)
    indices: dict[int, Tensor] = field(default_factory=dict)
    extra: list[tuple[Dim, ...]] = field(default_factory=list)
    at: int | None = None
    front: bool = False


class Indexing(Sorting):
    """Indexing."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Tensor:
        """numpy's indexing: numbers, slices (their bounds may be symbolic), None, ..., integer and bool tensors, arrays and
        lists, in any mixture. Raises TypeMismatch for an index that does not fit; an element of an index tensor that is out of
        range is a RunError."""
        view = self._view(index)
        if view is not None:
            return view
        plan = self._plan(index)
        x = self.value
        if any(plan.starts) or tuple(plan.sizes) != self.type.shape or set(plan.steps) > {1}:
            x = build.slice(x, starts=tuple(plan.starts), sizes=tuple(plan.sizes), steps=tuple(plan.steps))
        x = compose.reshape(x, tuple(plan.kept))
        return made(x) if plan.at is None else _gathered(made(x), plan)

    def _view(self, index: Any) -> Tensor | None:
        """A view of the elements, if they are computed and the index gives one contiguous piece. None while a program is traced
        or a gradient taken, because the piece must then depend on the tensor."""
        if active() is not None or is_remembering():
            return None
        value = self._value
        if not isinstance(value, Deferred) or not isinstance(value.array, np.ndarray):
            return None
        for item in index if isinstance(index, tuple) else (index,):
            if item is not Ellipsis and item is not None and type(item) is not int and not isinstance(item, slice):
                return None
        try:
            piece = value.array[index]
        except (IndexError, TypeError):
            return None  # the code below raises an error with the tensor's type
        if not isinstance(piece, np.ndarray):  # numpy makes numbers of single elements
            piece = value.array[(*index, ...) if isinstance(index, tuple) else (index, ...)]
        if not piece.flags.c_contiguous:
            return None
        return of_array(piece, anywhere=not value.device)

    def _plan(self, index: Any) -> _Plan:
        entries = self._entries(index)
        computed = isinstance(self._value, Deferred) and self._value.array is not None and active() is None
        tensors = any(isinstance(e, (Base, bool)) or (computed and isinstance(e, int)) for e in entries)
        plan, axis, apart = _Plan(), 0, False
        for entry in entries:
            if entry is None or entry is Ellipsis:
                apart = plan.at is not None
                if entry is None:
                    plan.kept.append(1)
                continue
            if isinstance(entry, bool):
                plan.extra.append((int(entry),))
                plan.front, plan.at = plan.front or apart, len(plan.kept) if plan.at is None else plan.at
                continue
            dim, step = self.type.shape[axis], 1
            if isinstance(entry, int) and computed:
                # an operand rather than a part of the program: x[:, i] for every i is one program
                entry = of_array(np.array(self._within(entry, axis)))
            if isinstance(entry, slice):
                step = 1 if entry.step is None else int(entry.step)
                if step == 0:
                    raise TypeMismatch("a slice's step cannot be 0", [f"of {self.type}"])
                start, size = slice_bounds(dim, _bound(entry.start), _bound(entry.stop), step)
                plan.kept.append(size)
                apart = plan.at is not None
            else:
                if tensors:  # numbers beside tensors count as tensors without axes
                    plan.front, plan.at = plan.front or apart, len(plan.kept) if plan.at is None else plan.at
                if isinstance(entry, Base):
                    start, size = 0, dim
                    plan.indices[len(plan.kept)] = made(entry.value)
                    plan.kept.append(dim)
                else:
                    start, size = self._within(entry, axis), 1
            plan.starts.append(start)
            plan.sizes.append(size)
            plan.steps.append(step)
            axis += 1
        return plan

    def _within(self, position: Any, axis: int) -> Dim:
        dim = self.type.shape[axis]
        if isinstance(position, int) and isinstance(dim, int) and not -dim <= position < dim:
            raise OutOfRange(f"index {position} is out of range", [f"axis {axis} of {self.type} has {dim} elements"])
        return dim + position if isinstance(position, int) and position < 0 else position

    def _entries(self, index: Any) -> list[Any]:
        """An index with one entry for each axis; None for new ones, True and False for bools without axes."""
        entries: list[Any] = []
        masks: list[tuple[int, Tensor]] = []  # with their positions among the entries
        for item in index if isinstance(index, tuple) else (index,):
            mask = _mask(item)
            if mask is not None:
                masks.append((len(entries), mask))
                entries += [mask] * mask.ndim  # an axis each, until it is known which
            else:
                entries += self._entry(item)
        taken = sum(1 for e in entries if e is not None and e is not Ellipsis and not isinstance(e, bool))
        dots = [i for i, e in enumerate(entries) if e is Ellipsis]
        if taken > self.ndim or len(dots) > 1:
            raise OutOfRange("a tensor cannot be indexed so", [f"{taken} entries for {self.ndim} axes of {self.type}"])
        rest = [slice(None)] * (self.ndim - taken)
        whole = [*entries[: dots[0]], Ellipsis, *rest, *entries[dots[0] + 1 :]] if dots else [*entries, *rest]
        for at, mask in masks:
            position = at + len(rest) if dots and dots[0] < at else at
            axis = sum(1 for e in whole[:position] if e is not None and e is not Ellipsis and not isinstance(e, bool))
            _must_cover(mask, self.type, axis)
            whole[position : position + mask.ndim] = mask.nonzero()
        return whole

    def _entry(self, item: Any) -> list[Any]:
        if item is None or item is Ellipsis or isinstance(item, (slice, bool, np.bool_)):
            return [bool(item)] if isinstance(item, (bool, np.bool_)) else [item]
        if isinstance(item, (int, np.integer, Expr)):
            return [plain(item) if isinstance(item, Expr) else int(item)]
        if isinstance(item, (list, tuple, np.ndarray)):
            item = constant([], "int64") if isinstance(item, (list, tuple)) and not len(item) else constant(item)
        if not isinstance(item, Base):
            raise TypeMismatch(
                "a tensor cannot be indexed so",
                [f"with a {type(item).__name__}; with numbers, slices, None, ... and tensors of integers or bools"],
            )
        if item.dtype == "bool":
            if item.is_traced:
                raise TypeMismatch("a bool without axes is no index here", ["use where or burn.cond"])
            return [bool(item)]
        if item.dtype not in INTEGERS:
            raise TypeMismatch("a tensor is indexed by integers and bools", [f"not by {item.type}"])
        return [item]

    # ---- by name -----------------------------------------------------------------------------------------------------
    def take(self, indices: Any, axis: int | None = 0) -> Tensor:
        """Slices along an axis with the given indices, whose shape replaces the axis; a number removes the axis.
        Without an axis, elements in row-major order."""
        if axis is None:
            return self.ravel().take(indices, 0)
        return made(build.gather(self.value, _indices(indices).value, axis=self._present_axis(axis)))

    def index_select(self, axis: int, indices: Any) -> Tensor:
        """`take`, in torch's order of arguments."""
        return self.take(indices, axis)

    def gather(self, axis: int, indices: Any) -> Tensor:
        """out[i, j, ..] = x[i, indices[i, j, ..], ..] with the index on the axis (torch's gather)."""
        return made(build.gather_elements(self.value, _indices(indices).value, axis=self._present_axis(axis)))

    def take_along_axis(self, indices: Any, axis: int = -1) -> Tensor:
        """`gather` after broadcasting both on the other axes."""
        x, indices, position = made(self.value), _indices(indices), self._present_axis(axis)
        if x.ndim != indices.ndim:
            raise TypeMismatch("the indices need as many axes as the tensor", [f"{indices.type} for {x.type}"])
        rest = [tuple(1 if i == position else d for i, d in enumerate(t.type.shape)) for t in (x, indices)]
        try:
            joint = broadcast_shapes(*rest)
        except ValueError as error:
            raise TypeMismatch("the indices do not fit", [str(error)]) from None
        x, indices = (
            t.broadcast_to(*(t.type.shape[position] if i == position else d for i, d in enumerate(joint)))
            for t in (x, indices)
        )
        return x.gather(position, indices)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """`value` where the mask is true, the elements elsewhere; the mask broadcasts."""
        fill = value.astype(self.dtype) if isinstance(value, Base) else value  # type: ignore[attr-defined]
        return made(lift(mask).value).where(fill, made(self.value))


def _mask(item: Any) -> Tensor | None:
    """The index as a bool tensor with axes, or None."""
    if isinstance(item, (list, np.ndarray)) and (len(item) if isinstance(item, list) else item.ndim):
        item = constant(item) if np.asarray(item).dtype.kind == "b" else item
    return made(item.value) if isinstance(item, Base) and item.dtype == "bool" and item.ndim else None


def _must_cover(mask: Tensor, type_: TensorType, axis: int) -> None:
    """Checks that a mask has the sizes of its axes. Raises OutOfRange; named sizes are checked at run time."""
    for position, (size, dim) in enumerate(zip(mask.type.shape, type_.shape[axis:], strict=False)):
        if size == dim:
            continue
        text = f"a mask of {size} elements on axis {axis + position} of {type_}"
        if isinstance(size, int) and isinstance(dim, int):
            raise OutOfRange("a mask has the size of its axis", [text])
        compose.check_size(size, "==", dim, text)


def _indices(indices: Any) -> Tensor:
    indices = constant(indices, "int64") if isinstance(indices, (int, list, tuple)) else lift(indices, "int64")
    if indices.dtype not in INTEGERS:
        raise TypeMismatch("indices are integers", [f"not {indices.type}"])
    return indices


def _bound(bound: Any) -> Any:
    return bound if bound is None else plain(bound) if isinstance(bound, Expr) else bound.__index__()


def _gathered(x: Tensor, plan: _Plan) -> Tensor:
    """The elements of x at the indices, with the axes in numpy's order."""
    axes, indices = list(plan.indices), list(plan.indices.values())
    try:
        shape = broadcast_shapes(*(p.type.shape for p in indices), *plan.extra)
    except ValueError as error:
        raise TypeMismatch("the tensors of an index do not fit each other", [str(error)]) from None
    at = 0 if plan.front else plan.at
    assert at is not None
    if len(axes) == 1 and (axes[0] == at or not indices[0].ndim) and not plan.extra:
        # a scalar index adds no axis, so nothing moves
        return made(build.gather(x.value, indices[0].value, axis=axes[0]))
    rest = [i for i in range(x.ndim) if i not in axes]
    x = x.permute(*axes, *rest)
    if axes:
        whole = [p.astype("int64").broadcast_to(*shape).unsqueeze(-1) for p in indices]
        joined = build.concat([p.value for p in whole], axis=len(shape)) if len(whole) > 1 else whole[0].value
        result = made(build.gather_nd(x.value, joined))
    else:
        result = x.reshape(*(1,) * len(shape), *x.type.shape).broadcast_to(*shape, *x.type.shape)
    moved = list(range(len(shape)))
    return result.moveaxis(moved, [at + i for i in moved]) if at else result
