"""Functions of samples: covariance, histograms, interpolation, convolution, distances, sums by segment."""

from __future__ import annotations

from typing import Any, NamedTuple

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim
from burn.dialect.types import INTEGERS
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.concatenation import where
from burn.tensors.creation import zeros
from burn.tensors.promotion import constant, together
from burn.tensors.reductions import Axes
from burn.tensors.tensor import Tensor

MODES = ("full", "same", "valid")


class VarMean(NamedTuple):
    """Variance and mean."""

    var: Tensor
    mean: Tensor


class Histogram(NamedTuple):
    """Counts (int64) of `bins` intervals, and their bins + 1 edges."""

    counts: Tensor
    edges: Tensor


def var_mean(x: Any, axis: Axes = None, ddof: float = 0, keepdims: bool = False) -> VarMean:
    """`var` and `mean` of the same elements."""
    given = constant(x)
    return VarMean(given.var(axis, ddof, keepdims), given.mean(axis, keepdims))


def cov(x: Any, ddof: float = 1) -> Tensor:
    """The covariance of variables: [variables, samples] -> [variables, variables]; a vector is one variable, with a scalar as
    result. The sums are divided by samples - ddof."""
    given = constant(x)._floating()
    if given.ndim not in (1, 2):
        raise TypeMismatch("cov is of a vector or a matrix", [f"not of {given.type}"])
    rows: Any = given if given.ndim == 2 else given.unsqueeze(0)
    rows = rows._wide()
    distance = rows - rows.mean(1, keepdims=True)
    count = (made(compose.dim_value(rows.type.shape[1], distance.real.dtype)) - ddof).maximum(0.0)
    result = distance.matmul(distance.conj().mT) / count
    return (result if given.ndim == 2 else result.reshape()).astype(given.dtype)


def corrcoef(x: Any) -> Tensor:
    """The correlation coefficients of variables, in [-1, 1]: [variables, samples] -> [variables, variables]."""
    matrix: Any = cov(x)
    if not matrix.ndim:
        return matrix / matrix
    deviation = matrix.diagonal().real.sqrt()
    result = matrix / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    return result if result.is_complex else result.clip(-1.0, 1.0)


def histogram(x: Any, bins: int = 10, low: float | None = None, high: float | None = None) -> Histogram:
    """The number of elements in each of `bins` intervals of equal width from low to high, by default the least and the largest
    element. An interval has its lower edge, and the last one both; elements outside are not counted. The counts have no
    derivative. Raises TypeMismatch for fewer bins than 1."""
    flat: Any = constant(x)._floating().ravel()
    if bins < 1:
        raise TypeMismatch("a histogram has at least one bin", [f"not {bins}"])
    first, last = (flat.min() if low is None else low), (flat.max() if high is None else high)
    first, last = together(first, constant(last, flat.dtype))
    first, last = first.astype("float64"), last.astype("float64")
    same = first == last  # numpy takes half a unit below and above
    first, last = same.where(first - 0.5, first), same.where(last + 0.5, last)
    steps = made(build.iota(shape=(bins + 1,), axis=0, dtype="float64"))
    edges = (steps == bins).where(last, first + steps * ((last - first) / bins)).astype(flat.dtype)
    inside = (flat >= edges[0]) & (flat <= edges[bins])
    above = (flat.unsqueeze(1) >= edges[1:bins]).sum(1) if bins > 1 else (flat != flat).astype("int64")
    counts = zeros(bins, dtype="int64").at[inside.where(above, 0)].add(inside.astype("int64"))
    return Histogram(counts, edges)


def interp(x: Any, xp: Any, fp: Any, left: float | None = None, right: float | None = None) -> Tensor:
    """Values at x (of any shape) on the lines through the points (xp[i], fp[i]), xp rising: [points] each. Outside, `left` and
    `right`, by default the first and the last value. Raises TypeMismatch for other shapes."""
    wanted, at, values = together(constant(x), constant(xp), constant(fp), floating=True)
    if at.ndim != 1 or values.ndim != 1:
        raise TypeMismatch("interp takes points as two vectors", [f"not {at.type} and {values.type}"])
    compose.check_size(at.type.shape[0], "==", values.type.shape[0], "as many xp as fp")
    last = made(compose.dim_value(at.type.shape[0])) - 1
    above = at.searchsorted(wanted, "right").clip(1, None)
    above = above.minimum(last).maximum(0)
    below = (above - 1).maximum(0)
    x0, x1, y0, y1 = at.take(below, 0), at.take(above, 0), values.take(below, 0), values.take(above, 0)
    width = x1 - x0
    inner: Any = y0 + (y1 - y0) * ((wanted - x0) / (width == 0).where(1.0, width))
    first, end = at[0], at.take(last, 0)
    inner = where(wanted == end, values.take(last, 0), inner)
    inner = where(wanted < first, values[0] if left is None else left, inner)
    return where(wanted > end, values.take(last, 0) if right is None else right, inner)


def convolve(x: Any, kernel: Any, mode: str = "full") -> Tensor:
    """The convolution of two vectors: sum over j of x[i - j] kernel[j]. mode: "full" has n + k - 1 elements, "same" the middle
    max(n, k) of them, "valid" the max(n, k) - min(n, k) + 1 for which both overlap. Raises TypeMismatch for empty vectors."""
    a, b = together(constant(x), constant(kernel))
    sizes: list[Any] = [t.type.shape[0] if t.ndim == 1 else 0 for t in (a, b)]
    if mode not in MODES or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise TypeMismatch(
            "convolve takes two vectors with elements", [f"{a.type}, {b.type}, mode {mode!r} of {MODES}"]
        )
    n, k = sizes
    if n < k:
        a, b, n, k = b, a, k, n
    windows = a.pad((k - 1, k - 1)).unfold(0, k)  # [n + k - 1, k]
    whole = windows.matmul(b.flip(0)).astype(a.dtype)
    start, size = {"full": (0, n + k - 1), "same": ((k - 1) // 2, n), "valid": (k - 1, n - k + 1)}[mode]
    return whole[start : start + size]


def cdist(x: Any, y: Any, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of rows: [.., m, d] and [.., n, d] -> [.., m, n]. p = inf is the largest difference. The
    derivative is 0 at a distance of 0."""
    a, b = together(constant(x), constant(y), floating=True)
    if a.ndim < 2 or b.ndim < 2:
        raise TypeMismatch("cdist is of rows", [f"not of {a.type} and {b.type}"])
    return (a.unsqueeze(-2) - b.unsqueeze(-3)).norm(p, -1)


def segment_sum(data: Any, segment_ids: Any, num_segments: Dim) -> Tensor:
    """The sums of the slices of `data` along its first axis that have the same id: [n, ..] and int ids [n] -> [num_segments, ..].
    An id out of range is an error at run time."""
    values, ids = constant(data), constant(segment_ids)
    if ids.ndim != 1 or not values.ndim:
        raise TypeMismatch("segment_sum takes a vector of ids", [f"not {ids.type} for {values.type}"])
    if ids.dtype not in INTEGERS:
        raise TypeMismatch("segment ids are integers", [f"not {ids.type}"])
    compose.check_size(ids.type.shape[0], "==", values.type.shape[0], "an id for each slice")
    return (
        zeros((num_segments, *values.type.shape[1:]), dtype=values.dtype)
        .at[made(build.from_start(ids.value))]
        .add(values)
    )
