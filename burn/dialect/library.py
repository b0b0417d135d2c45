"""Ops whose result needs a sequential algorithm or has a size that depends on the data: sorting, selecting, searching.

They are computed by the runtime's library, one call an op.
"""

from __future__ import annotations

from burn.dialect.dims import Dim, symbol
from burn.dialect.op import Op, Operand, normalize_axis
from burn.dialect.types import TensorType


class Sort(Op, name="sort"):
    """Sorts along `axis`, stably; also gives the places the elements came from. NaN sorts last (largest).
    Shapes: x [...] -> values [...], indices [...] int64."""

    x: Operand
    axis: int = -1
    descending: bool = False

    @classmethod
    def infer(cls, x: TensorType, axis: int, descending: bool) -> list[TensorType]:
        normalize_axis(cls, axis, x.rank)
        return [x, x.with_dtype("int64")]


class NonZero(Op, name="nonzero"):
    """The places of the non-zero elements in row-major order, one column each. Shapes: x [d1, .., dr] -> [r, count], int64;
    `count` is a new symbol."""

    x: Operand
    count: str

    @classmethod
    def infer(cls, x: TensorType, count: str) -> TensorType:
        return TensorType("int64", (max(x.rank, 1), symbol(count)))


class Unique(Op, name="unique"):
    """The distinct elements (or slices along `axis`), sorted or in order of first appearance.

    Shapes: x [...] -> values [count] or [.., count, ..], first index of each [count], for every element the index of its
    value [d], how often each occurs [count]; indices int64."""

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


class NonMaxSuppression(Op, name="non_max_suppression"):
    """Picks boxes by score, dropping those that overlap a better one too much (ONNX NonMaxSuppression).

    Shapes: boxes [batch, n, 4], scores [batch, classes, n], maximum [] int64, overlap [] and threshold [] float32
    -> [count, 3] int64: (batch, class, box)."""

    boxes: Operand
    scores: Operand
    maximum: Operand
    overlap: Operand
    threshold: Operand
    count: str
    center_point: bool = False

    @classmethod
    def infer(cls, boxes, scores, maximum, overlap, threshold, count, center_point) -> TensorType:
        if boxes.rank != 3 or scores.rank != 3 or (isinstance(boxes.shape[2], int) and boxes.shape[2] != 4):
            cls.fail(f"boxes must be [batch, n, 4] and scores [batch, classes, n], not {boxes} and {scores}")
        return TensorType("int64", (symbol(count), 3))
