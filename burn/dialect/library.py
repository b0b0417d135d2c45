"""Ops that need a sequential algorithm or have a data-dependent size: sorting, selecting, searching.

The runtime's library computes them, with one call per op. On GPUs sorting is kernels (`kernels/builders/ranks.py`).
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.rules import COUNTED, leading
from burn.dialect.compose import part
from burn.dialect.dims import Dim, at_most, dim_min, symbol
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, Operand, normalize_axis
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of


class Sort(Op, name="sort", traits=Trait.WRITES_IN_PLACE, kernel="sort", batching=leading("axis")):
    """Sorts along `axis`, stably; also returns the elements' original indices. NaN sorts last (largest). Shapes: x
    [...] -> values [...], indices [...] int64."""

    x: Operand
    axis: int = -1
    descending: bool = False

    @classmethod
    def infer(cls, x: TensorType, axis: int, descending: bool) -> list[TensorType]:
        normalize_axis(cls, axis, x.rank)
        return [x, x.with_dtype("int64")]


class PartialSort(Op, name="partial_sort", traits=Trait.WRITES_IN_PLACE):
    """The elements at the positions [start, start + size) of x sorted along `axis` as `sort` does, and their original
    indices. Shapes: x [.., d, ..] -> values [.., size, ..], indices [.., size, ..] int64."""

    x: Operand
    start: Dim
    size: Dim
    axis: int = -1
    descending: bool = False

    @classmethod
    def infer(cls, x: TensorType, start: Dim, size: Dim, axis: int, descending: bool) -> list[TensorType]:
        axis = normalize_axis(cls, axis, x.rank)
        if not x.rank:
            cls.fail("a scalar has no axis")
        extent = x.shape[axis]
        if (
            isinstance(start, int)
            and isinstance(size, int)
            and isinstance(extent, int)
            and not (0 <= start <= start + size <= extent)
        ):
            cls.fail(f"axis {axis} of {x} has no positions {start} to {start + size - 1}", "start")
        values = x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))
        return [values, values.with_dtype("int64")]

    @classmethod
    def decompose(cls, x: ir.Value, start: Dim, size: Dim, axis: int, descending: bool) -> list[ir.Value]:
        found = ops.sort(x, axis=axis, descending=descending)
        return [part(each, axis % type_of(x).rank, start, size) for each in found]

    def must_agree(self) -> list[Agreement]:
        """The positions are within the axis, unless there are none."""
        x = type_of(self.x)
        extent, some = x.shape[self.axis % x.rank], dim_min(self.size, 1)
        return [
            Agreement(end * some, limit * some, "at most")
            for end, limit in ((self.start + self.size, extent), (self.start * -1, 0))
            if not at_most(end, limit, self.size)
        ]


class NonZero(Op, name="nonzero", batching=COUNTED):
    """The indices of the non-zero elements in row-major order, one column each. Shapes: x [d1, .., dr] -> [r, count],
    int64; `count` is a new symbol."""

    x: Operand
    count: str

    @classmethod
    def infer(cls, x: TensorType, count: str) -> TensorType:
        return TensorType("int64", (max(x.rank, 1), symbol(count)))


class Unique(Op, name="unique", traits=Trait.WRITES_IN_PLACE, batching=COUNTED):
    """The distinct elements (or slices along `axis`), sorted or in order of first appearance.

    Shapes: x [...] -> values [count] or [.., count, ..], first index of each [count], for every element the index of
    its value [d], the number of occurrences of each [count]; indices int64.
    """

    x: Operand
    count: str
    axis: int | None = None
    sorted: bool = True

    @classmethod
    def infer(cls, x: TensorType, count: str, axis: int | None, sorted: bool) -> list[TensorType]:
        n: Dim = symbol(count)
        total = x.elements
        values = x.with_shape((n,))
        if axis is not None:
            axis = normalize_axis(cls, axis, x.rank)
            total = x.shape[axis]
            values = x.with_shape((*x.shape[:axis], n, *x.shape[axis + 1 :]))
        index = TensorType("int64", (n,))
        return [values, index, TensorType("int64", (total,)), index]


FORMS = ("corners", "center", "ordered")
"""Forms of boxes: two opposite corners in any order; centre and size; the lower corner, then the higher one. In the
order of lib_detect.c."""


class NonMaxSuppression(Op, name="non_max_suppression", batching=COUNTED):
    """Selects boxes by decreasing score and drops those that overlap a better one too much (ONNX NonMaxSuppression,
    torchvision nms).

    Shapes: boxes [batch, n, 4], scores [batch, classes, n], both float32 or float64, maximum [] int64, overlap [] and
    threshold [] float64 -> [count, 3] int64: (batch, class, box).

    overlap: the largest allowed intersection over union. threshold: boxes need a higher score; None accepts all. form:
    "corners", "center" or "ordered"; an ordered box whose corners are exchanged intersects no other. Of equal scores
    the earlier box comes first.
    """

    boxes: Operand
    scores: Operand
    maximum: Operand
    overlap: Operand
    threshold: Operand | None
    count: str
    form: str = "corners"

    @classmethod
    def infer(cls, boxes, scores, maximum, overlap, threshold, count, form) -> TensorType:
        if form not in FORMS:
            cls.fail(f"'{form}' is none of {', '.join(FORMS)}", "form")
        if boxes.rank != 3 or scores.rank != 3 or (isinstance(boxes.shape[2], int) and boxes.shape[2] != 4):
            cls.fail(f"boxes must be [batch, n, 4] and scores [batch, classes, n], not {boxes} and {scores}")
        if boxes.dtype != scores.dtype or boxes.dtype not in ("float32", "float64"):
            cls.fail(f"boxes and scores must be both float32 or both float64, not {boxes} and {scores}")
        for limit in (overlap, threshold):
            if limit is not None and limit.dtype != "float64":
                cls.fail(f"overlap and threshold must be float64, not {limit}")
        return TensorType("int64", (symbol(count), 3))
