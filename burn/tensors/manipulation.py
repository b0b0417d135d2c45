"""Methods that rearrange elements: reversing, rolling, repeating, padding, splitting, diagonals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import compose, dims
from burn.dialect import ops as build
from burn.dialect.dims import Dim
from burn.errors import TypeMismatch
from burn.tensors.base import Base, made, of_array, sequence
from burn.tensors.promotion import rounded
from burn.tensors.shapes import Shapes

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

PADDINGS = ("constant", "reflect", "edge", "wrap")


class Manipulation(Shapes):
    """Methods that rearrange elements."""

    __slots__ = ()

    def _cut(self, axis: int, start: Dim, size: Dim, step: int = 1) -> Tensor:
        """`size` elements of one axis."""
        starts: list[Dim] = [0] * self.ndim
        sizes: list[Dim] = list(self.type.shape)
        steps = [1] * self.ndim
        starts[axis], sizes[axis], steps[axis] = start, size, step
        return made(build.slice(self.value, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps)))

    def _picked(self, indices: Any, axis: int) -> Tensor:
        """The slices along an axis with these int64 indices."""
        return made(build.gather(self.value, indices, axis=axis))

    def narrow(self, axis: int, start: Dim, length: Dim) -> Tensor:
        """`length` elements of an axis, from `start` on."""
        position = self._present_axis(axis)
        first = self.type.shape[position] + start if isinstance(start, int) and start < 0 else start
        return self._cut(position, first, length)

    # ---- reversing and rolling ---------------------------------------------------------------------------------------
    def flip(self, axis: int | Sequence[int] | None = None) -> Tensor:
        """Axes (all, by default) in reverse order."""
        axes = self._axes(axis)
        starts = tuple(d - 1 if i in axes else 0 for i, d in enumerate(self.type.shape))
        steps = tuple(-1 if i in axes else 1 for i in range(self.ndim))
        return (
            made(build.slice(self.value, starts=starts, sizes=self.type.shape, steps=steps))
            if axes
            else made(self.value)
        )

    def roll(self, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
        """Elements shifted by `shift` along the axes; elements shifted out enter at the beginning. Without axes, the elements
        are one row-major vector."""
        if axis is None:
            if not isinstance(shift, int):
                raise TypeMismatch("several shifts need as many axes", [f"{list(shift)}"])
            return self.ravel().roll(shift, 0).reshape(*self.type.shape)
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
        if len(shifts) != len(axes):
            raise TypeMismatch("roll needs a shift for each axis", [f"{len(shifts)} shifts, {len(axes)} axes"])
        x: Tensor = made(self.value)
        for count, position in zip(shifts, map(self._present_axis, axes), strict=True):
            size = self.type.shape[position]
            steps = build.sub(build.iota(shape=(size,), axis=0), compose.number(count, "int64"))
            x = x._picked(build.mod(steps, compose.dim_value(size)), position)
        return x

    def rot90(self, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
        """Rotated k times by 90 degrees, from the first axis towards the second."""
        a, b = self._axes(axes)
        turned = {
            0: lambda: made(self.value),
            1: lambda: self.transpose(a, b).flip(a),
            2: lambda: self.flip((a, b)),
            3: lambda: self.flip(a).transpose(a, b),
        }
        return turned[k % 4]()

    # ---- repeating and padding ---------------------------------------------------------------------------------------
    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
        """numpy's repeat: each element `repeats` times, consecutively (torch's `repeat` is `tile` here). A sequence
        has a number for each element of the axis. Without an axis, the elements are one row-major vector."""
        x = self.ravel() if axis is None else made(self.value)
        position = x._present_axis(0 if axis is None else axis)
        size = x.type.shape[position]
        if isinstance(repeats, int):
            if repeats < 0:
                raise TypeMismatch("repeats are not negative", [f"{repeats}"])
            wide = x.unsqueeze(position + 1)
            shape = wide.shape
            return wide.broadcast_to(*shape[: position + 1], repeats, *shape[position + 2 :]).flatten(
                position, position + 1
            )
        counts = list(repeats)
        if len(counts) != size or any(c < 0 for c in counts):
            raise TypeMismatch("repeat needs a number for each element", [f"{counts} for {size} elements"])
        indices = [i for i, count in enumerate(counts) for _ in range(count)]
        return x._picked(of_array(np.array(indices, np.int64), anywhere=True).value, position)

    def tile(self, *repeats: Any) -> Tensor:
        """The whole tensor repeated along the last axes, once for each number; more numbers than axes make new ones."""
        counts = tuple(sequence(repeats))
        rank = max(len(counts), self.ndim)
        if any(isinstance(count, int) and count < 0 for count in counts):
            raise TypeMismatch("tile's numbers of repeats are not negative", [f"{list(counts)}"])
        counts = (1,) * (rank - len(counts)) + counts
        x = self.reshape(*(1,) * (rank - self.ndim), *self.type.shape)
        for axis, count in enumerate(counts):
            if count != 1:
                shape = x.type.shape
                wide = x.unsqueeze(axis).broadcast_to(*shape[:axis], count, *shape[axis:])
                x = wide.reshape(*shape[:axis], count * shape[axis], *shape[axis + 1 :])
        return x

    def pad(self, widths: Any, mode: str = "constant", value: Any = 0) -> Tensor:
        """numpy's pad. widths: one number, (before, after), or a pair for each axis. mode: "constant" (with `value`),
        "edge", "reflect" (the edge is not repeated) or "wrap"."""
        pairs = self._widths(widths)
        if mode not in PADDINGS:
            raise TypeMismatch(f"there is no padding '{mode}'", [f"there are {', '.join(PADDINGS)}"])
        if mode == "constant":
            low, high = zip(*pairs, strict=True) if pairs else ((), ())
            fill = value.value if isinstance(value, Base) else compose.number(rounded(value, self.dtype), self.dtype)
            return made(build.pad(self.value, fill, low=tuple(low), high=tuple(high)))
        x: Tensor = made(self.value)
        for axis, (before, after) in enumerate(pairs):
            if before != 0 or after != 0:
                if self.type.shape[axis] == 0:
                    raise TypeMismatch(f"there is nothing to pad with by '{mode}'", [f"axis {axis} of {self.type}"])
                x = x._picked(compose.border_indices(mode, self.type.shape[axis], before, after), axis)
        return x

    def _widths(self, widths: Any) -> list[tuple[Dim, Dim]]:
        given = widths if isinstance(widths, (tuple, list)) else (widths, widths)
        if len(given) == 2 and not any(isinstance(w, (tuple, list)) for w in given):
            given = [given] * self.ndim
        pairs = [tuple(w) if isinstance(w, (tuple, list)) else (w, w) for w in given]
        if len(pairs) == 1:
            pairs *= self.ndim
        wrong = any(len(p) != 2 or any(isinstance(w, int) and w < 0 for w in p) for p in pairs)
        if len(pairs) != self.ndim or wrong:
            raise TypeMismatch("pad needs (before, after) for each axis", [f"{widths}, for {self.type}"])
        return pairs

    def unfold(self, axis: int, size: int, step: int = 1) -> Tensor:
        """Windows of `size` elements, `step` apart, along an axis. The axis then counts windows; a new last axis has their
        elements."""
        position = self._present_axis(axis)
        count = dims.floordiv(self.type.shape[position] - size, step) + 1
        if size < 1 or step < 1 or (isinstance(count, int) and count < 0):
            raise TypeMismatch("no such windows", [f"of {size} elements, {step} apart, on axis {axis} of {self.type}"])
        first = build.mul(build.iota(shape=(count, size), axis=0), compose.number(step, "int64"))
        windows = self._picked(build.add(first, build.iota(shape=(count, size), axis=1)), position)
        return windows.moveaxis(position + 1, -1)

    # ---- cutting -----------------------------------------------------------------------------------------------------
    def split(self, sections: int | Sequence[Dim], axis: int = 0) -> list[Tensor]:
        """numpy's split: into a number of equal parts, or at these indices. (torch's split by sizes is `split_with_sizes`.)"""
        position = self._present_axis(axis)
        size = self.type.shape[position]
        if isinstance(sections, int):
            if sections < 1 or (isinstance(size, int) and size % sections):
                raise TypeMismatch(
                    f"cannot split into {sections} equal parts", [f"axis {axis} of {self.type}; use chunk"]
                )
            compose.check_size(dims.mod(size, sections), "==", 0, f"split into {sections} equal parts")
            part = dims.floordiv(size, sections)
            return [self._cut(position, i * part, part) for i in range(sections)]
        inside = [dims.dim_min(dims.dim_max(size + s if dims.decide(s, "<", 0) else s, 0), size) for s in sections]
        bounds = [0, *inside, size]
        return [self._cut(position, a, dims.dim_max(b - a, 0)) for a, b in itertools.pairwise(bounds)]

    def array_split(self, sections: int | Sequence[Dim], axis: int = 0) -> list[Tensor]:
        """As `split`, but if the parts cannot be equal, the first ones are larger by one."""
        position = self._present_axis(axis)
        if not isinstance(sections, int) or sections < 1:
            return self.split(sections, axis)
        size = self.type.shape[position]
        part, larger = dims.floordiv(size, sections), dims.mod(size, sections)
        starts = [i * part + dims.dim_min(i, larger) for i in range(sections + 1)]
        return [self._cut(position, a, b - a) for a, b in itertools.pairwise(starts)]

    def split_with_sizes(self, sizes: Sequence[Dim], axis: int = 0) -> list[Tensor]:
        """Parts of these sizes, which must make up the axis."""
        position, sizes = self._present_axis(axis), sequence(tuple(sizes))
        whole = self.type.shape[position]
        if dims.decide(sum(sizes), "==", whole) is False:
            raise TypeMismatch("the parts do not make up the axis", [f"{list(sizes)}, axis {axis} of {self.type}"])
        compose.check_size(sum(sizes), "==", whole, "the parts make up the axis")
        starts: list[Dim] = [0]
        for size in sizes:
            starts.append(starts[-1] + size)
        return [self._cut(position, start, size) for start, size in zip(starts, sizes, strict=False)]

    def chunk(self, chunks: int, axis: int = 0) -> list[Tensor]:
        """At most `chunks` parts of equal size, except the last, which may be smaller (torch's chunk)."""
        position = self._present_axis(axis)
        size = self.type.shape[position]
        if not isinstance(size, int):
            return self.split(chunks, axis)
        if chunks < 1:
            raise TypeMismatch("there is at least one chunk", [f"not {chunks}"])
        part = max(-(-size // chunks), 1)
        return [self._cut(position, i, min(part, size - i)) for i in range(0, max(size, 1), part)]

    def unbind(self, axis: int = 0) -> list[Tensor]:
        """The slices along an axis of known size, without it."""
        position = self._present_axis(axis)
        size = self.type.shape[position]
        if not isinstance(size, int):
            raise TypeMismatch("how many slices there are is not known", [f"axis {axis} of {self.type}; see burn.scan"])
        return [self._cut(position, i, 1).squeeze(position) for i in range(size)]

    # ---- diagonals ---------------------------------------------------------------------------------------------------
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements whose indices on the two axes differ by `offset`, as a new last axis."""
        a, b = self._axes((axis1, axis2))
        x = self.moveaxis((a, b), (-2, -1))
        *lead, rows, columns = x.type.shape
        count = dims.dim_max(dims.dim_min(rows + min(offset, 0), columns - max(offset, 0)), 0)
        step = build.mul(build.iota(shape=(count,), axis=0), compose.dim_value(columns + 1))
        first = compose.dim_value(columns * max(-offset, 0) + max(offset, 0))
        return x.reshape(*lead, rows * columns)._picked(build.add(step, first), len(lead))

    def diag(self, offset: int = 0) -> Tensor:
        """A vector as the diagonal of a square matrix, or the diagonal of a matrix."""
        if self.ndim == 2:
            return self.diagonal(offset)
        if self.ndim != 1:
            raise TypeMismatch("diag is of vectors and matrices", [f"not of {self.type}; see diagonal"])
        size = self.type.shape[0] + abs(offset)
        row = build.iota(shape=(size, 1), axis=0)
        column = build.sub(build.iota(shape=(1, size), axis=1), compose.number(offset, "int64"))
        padded = self.pad((max(-offset, 0), max(offset, 0))).unsqueeze(1) if offset else self.unsqueeze(1)
        return made(build.select(build.eq(row, column), padded.value, compose.number(0, self.dtype)))

    def tril(self, k: int = 0) -> Tensor:
        """The elements on and below diagonal k of the last two axes; the others are zero."""
        return self._triangle("le", k)

    def triu(self, k: int = 0) -> Tensor:
        """The elements on and above diagonal k of the last two axes; the others are zero."""
        return self._triangle("ge", k)

    def _triangle(self, relation: str, k: int) -> Tensor:
        if self.ndim < 2:
            raise TypeMismatch("triangles are of matrices", [f"not of {self.type}"])
        rows, columns = self.type.shape[-2:]
        row = build.add(build.iota(shape=(rows, 1), axis=0), compose.number(k, "int64"))
        inside = getattr(build, relation)(build.iota(shape=(1, columns), axis=1), row)
        return made(build.select(inside, self.value, compose.number(0, self.dtype)))
