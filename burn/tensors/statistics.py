"""Statistics: variance, quantiles, norms, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import dim_max
from burn.dialect.types import PARTS
from burn.errors import TypeMismatch, WrongArgument
from burn.tensors.base import Base, made
from burn.tensors.promotion import constant, lift, together
from burn.tensors.reductions import Axes, Reductions

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Statistics(Reductions):
    """Statistics. Integers and 16-bit floats are computed in float32."""

    __slots__ = ()

    def var(self, axis: Axes = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
        """The mean squared distance from the mean, divided by count - ddof (numpy's default is 0; torch's is 1)."""
        return self._measured(self._variance(axis, ddof, keepdims))

    def std(self, axis: Axes = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
        """The square root of `var`."""
        return self._measured(made(build.root(self._variance(axis, ddof, keepdims).value)))

    def _measured(self, x: Tensor) -> Tensor:
        """A real result of `_wide` in the element type of the magnitudes."""
        return x if self.dtype in PARTS else self._narrow(x)

    def _variance(self, axis: Axes, ddof: float, keepdims: bool) -> Tensor:
        x, axes = self._wide(), self._axes(axis)
        distance = x - x.mean(axes, keepdims=True)
        square = (distance * distance.conj()).real if x.is_complex else distance.square()
        total, count = square.sum(axes, keepdims), compose.count(self.type, axes)
        if float(ddof).is_integer():
            return total / made(compose.dim_value(dim_max(count - int(ddof), 0), square.dtype))
        return total / (made(compose.dim_value(count, square.dtype)) - ddof).maximum(0.0)

    def median(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The middle of the sorted elements, or the mean of the two in the middle; NaN if one is."""
        return self.quantile(0.5, axis, keepdims)

    def quantile(self, q: float | Base | Sequence[float], axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The q-quantile (0 to 1) of the elements, with linear interpolation; NaN
        if an element is. Several q make a new first axis."""
        x: Tensor = self._wide() if axis is not None and self.ndim else self._wide().ravel()
        position = x._axis(axis or 0)
        size = x.type.shape[position]
        x._must_have_some("quantile", (position,))
        at = _fractions(q, x.dtype)
        ordered = made(build.sort(x.value, axis=position)[0])
        way = at * made(compose.dim_value(size - 1, x.dtype))
        low = way.floor()
        first, second = (ordered.take(w.astype("int64"), position) for w in (low, way.ceil()))
        rank = at.ndim
        weight = (way - low).reshape(*at.shape, *(1,) * (x.ndim - 1 - position))
        same = (first == second) & first.isinf()  # inf - inf is NaN; other ties owe to both neighbours, as in PyTorch
        gap = same.where(0, second - first)
        result = first + gap * weight
        bad, total = x.isnan().any(position), x.sum(position)  # the sum carries the NaN, and its derivative is not 0
        if rank:
            bad, total = bad.unsqueeze(position), total.unsqueeze(position)
        result = bad.where(total, result)
        if rank:
            result = result.moveaxis(position, 0)
        if keepdims:
            kept = tuple(1 if axis is None or i == position else d for i, d in enumerate(self.type.shape))
            result = result.reshape(*at.shape, *kept)
        return self._narrow(result)

    def percentile(self, q: float | Base | Sequence[float], axis: int | None = None, keepdims: bool = False) -> Tensor:
        """`quantile` at q hundredths: q is from 0 to 100."""
        way: Any = [number / 100 for number in q] if isinstance(q, (list, tuple)) else q / 100  # type: ignore[operator]
        return self.quantile(way, axis, keepdims)

    def average(self, axis: Axes = None, weights: Any = None, keepdims: bool = False) -> Tensor:
        """The mean, each element counted by its weight: sum(w * x) / sum(w). Weights are of the tensor's own shape, or a
        vector along one axis. Raises TypeMismatch for others."""
        if weights is None:
            return self.mean(axis, keepdims)
        x, w = together(self, constant(weights), floating=True)
        if (
            w.type.shape != x.type.shape
            and w.ndim == 1
            and isinstance(axis, int)
            and w.type.shape[0] == x.type.shape[x._axis(axis)]
        ):
            w = w.reshape(-1, *(1,) * (x.ndim - 1 - x._axis(axis))).broadcast_to(x.type.shape)
        if w.type.shape != x.type.shape:
            raise TypeMismatch(
                "weights are of the tensor's shape, or a vector along one axis", [f"{w.type} for {x.type}"]
            )
        wide, weight = x._wide(), w._wide()
        return x._narrow((wide * weight).sum(axis, keepdims) / weight.sum(axis, keepdims))

    def logsumexp(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """log(sum(exp(x))), without overflow."""
        x, axes = self._wide(), self._axes(axis)
        top = x._reduce("max", axes, True)
        shift = top.isfinite().where(top, 0.0)
        total = ((x - shift).exp().sum(axes, keepdims=True)).log() + shift
        return self._narrow(total if keepdims else total.reshape(*x._reduce("sum", axes, False).shape))

    def norm(self, p: float = 2, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The p-norm of the elements: (sum |x|^p)^(1/p); the largest or smallest magnitude for p = inf or -inf; the number
        of elements that are not zero for p = 0. `burn.linalg.norm` has norms of matrices."""
        x = self._wide().abs()
        if p == math.inf:
            result = x._reduce("max", x._axes(axis), keepdims).maximum(0.0)  # 0 for no elements
        elif p == -math.inf:
            result = x.min(axis, keepdims)
        elif p == 0:
            result = x.count_nonzero(axis, keepdims)
        elif p == 1:
            result = x.sum(axis, keepdims)
        elif p == 2:
            x = self._wide()
            square = (x * x.conj()).real if x.is_complex else x.square()  # not of the magnitude, which has a kink at 0
            result = made(build.root(square.sum(axis, keepdims).value))
        else:
            powers = x ** float(p)
            if p < 1:  # the power has an infinite derivative at 0; multiplied by sign(0) it counts as 0
                powers = (x == 0).where(0.0 if p > 0 else math.inf, (x == 0).where(1.0, x) ** float(p))
            result = made(build.root(powers.sum(axis, keepdims).value, degree=float(p)))
        return self._measured(result)

    def bincount(self, length: Any) -> Tensor:
        """How often each of 0, 1, .. length - 1 occurs among the integers; raises RunError for others."""
        if not self.dtype.startswith(("int", "uint")):
            raise TypeMismatch("bincount is of integers", [f"not of {self.type}"])
        flat = made(build.from_start(self.ravel().value))
        zeros = build.full(shape=(length,), dtype="int64")
        ones = build.full(shape=flat.shape, dtype="int64", value=1.0)
        return made(build.scatter_elements(zeros, flat.value, ones, axis=0, reduction="add"))


def _fractions(q: Any, dtype: str) -> Tensor:
    for number in q if isinstance(q, (list, tuple)) else (q,):
        if isinstance(number, (int, float)) and not 0 <= number <= 1:
            raise TypeMismatch("a quantile is between 0 and 1", [f"not {number}; percentiles are between 0 and 100"])
        if isinstance(number, (str, bytes)):
            raise WrongArgument("a quantile is a number", [f"not {number!r}"])
    at = lift(float(q), dtype) if isinstance(q, (int, float)) else constant(q).astype(dtype)
    if at.ndim > 1:
        raise TypeMismatch("quantiles are one number or a vector", [f"not {at.type}"])
    return at
