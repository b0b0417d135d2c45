"""Methods that reduce axes, and those that run along one.

`sum` and `prod` of integers and bools are int64 or uint64, as in numpy; their means are float32. 16-bit floats
accumulate in float32. The sum of no elements is 0, `prod` of none is 1. The largest or smallest of no elements, or its index, is
an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import decide, dim_max
from burn.dialect.reduction import least_reduced
from burn.dialect.types import CONTINUOUS, DTYPES, FLOATS
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.manipulation import Manipulation

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

Axes = int | Sequence[int] | None


class Reductions(Manipulation):
    """Reductions. axis: one, several, or all axes (None); keepdims: reduced axes stay, with size 1."""

    __slots__ = ()

    def _reduce(self, kind: str, axis: Axes, keepdims: bool) -> Tensor:
        if DTYPES[self.dtype].kind not in ("float", "int", "uint", "bool", "complex"):
            raise TypeMismatch(f"reductions are of numbers and bools, not of {self.dtype}", [f"{self.type}"])
        return made(build.reduce(self.value, kind=kind, axes=self._axes(axis), keepdims=keepdims))

    def _must_have_some(self, what: str, axes: Sequence[int]) -> None:
        """Checks that a maximum or minimum has elements. Raises TypeMismatch; named sizes are checked at run time."""
        reduced, least = least_reduced(self.type.shape, axes)
        if decide(reduced, ">=", least) is False:
            raise TypeMismatch(f"there is no {what} of no elements", [f"axes {list(axes)} of {self.type}"])
        compose.check_size(reduced, ">=", least, f"there is no {what} of no elements")

    def _counted(self) -> Tensor:
        """Itself, with bools and integers in the widest type of their sign, so that sums do not wrap early."""
        wide = {"bool": "int64", "int": "int64", "uint": "uint64"}.get(DTYPES[self.dtype].kind, self.dtype)
        return made(self.value if wide == self.dtype else compose.convert(self.value, wide))

    def _wide(self) -> Tensor:
        """Itself in the accumulator's float type."""
        x = self._field()
        return made(compose.convert(x.value, compose.wide(x.dtype)))

    def _narrow(self, x: Tensor) -> Tensor:
        """A result of `_wide` in the result's element type."""
        return made(compose.convert(x.value, self.dtype if self.dtype in CONTINUOUS else "float32"))

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The sum; integers as int64 or uint64, as in numpy; for bools, the number of true elements."""
        return self._counted()._reduce("sum", axis, keepdims)

    def prod(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The product over the axes; integers as int64 or uint64."""
        return self._counted()._reduce("prod", axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The mean; of integers in float32."""
        return self._narrow(made(compose.mean(self._wide().value, self._axes(axis), keepdims)))

    def max(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The largest element; NaN if one is."""
        self._must_have_some("max", self._axes(axis))
        return self._reduce("any" if self.dtype == "bool" else "max", axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The smallest element; NaN if one is."""
        self._must_have_some("min", self._axes(axis))
        return self._reduce("all" if self.dtype == "bool" else "min", axis, keepdims)

    amax, amin = max, min

    def any(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """True if any element is true (not zero)."""
        return self._truth()._reduce("any", axis, keepdims)

    def all(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """True if all elements are true (not zero)."""
        return self._truth()._reduce("all", axis, keepdims)

    def count_nonzero(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The number of elements that are not zero, as int64."""
        return self._truth().sum(axis, keepdims)

    # ---- indices ------------------------------------------------------------------------------------------------------
    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The index (int64) of the first largest element along an axis, or in row-major order. NaN counts as largest."""
        return self._arg_extreme("max", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """The index (int64) of the first smallest element along an axis, or in row-major order. NaN counts as smallest."""
        return self._arg_extreme("min", axis, keepdims)

    def _arg_extreme(self, kind: str, axis: int | None, keepdims: bool) -> Tensor:
        x = made(compose.convert(self.value, "uint8") if self.dtype == "bool" else self.value)
        if axis is None:
            position = x.ravel()._arg_extreme(kind, 0, False)
            return position.reshape(*(1,) * self.ndim) if keepdims else position
        if not self.ndim:
            x = x.reshape(1)
        x._must_have_some(f"arg{kind}", (x._axis(axis),))
        return made(build.arg_reduce(x.value, kind=kind, axis=x._axis(axis), keepdims=keepdims and self.ndim > 0))

    # ---- NaN left out ------------------------------------------------------------------------------------------------
    def nansum(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The sum of the elements that are not NaN."""
        return self._without_nan(0).sum(axis, keepdims)

    def nanprod(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The product of the elements that are not NaN."""
        return self._without_nan(1).prod(axis, keepdims)

    def nanmean(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The mean of the elements that are not NaN."""
        total = self._wide()._without_nan(0).sum(axis, keepdims)
        return self._narrow(total / (~self.isnan()).sum(axis, keepdims).astype(total.dtype))

    def nanmax(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The largest of the elements that are not NaN; NaN where there are none."""
        return self._without_nan(float("-inf"))._reduced_or_nan("max", self, axis, keepdims)

    def nanmin(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The smallest of the elements that are not NaN; NaN where there are none."""
        return self._without_nan(float("inf"))._reduced_or_nan("min", self, axis, keepdims)

    def _reduced_or_nan(self, kind: str, given: Reductions, axis: Axes, keepdims: bool) -> Tensor:
        result = self.max(axis, keepdims) if kind == "max" else self.min(axis, keepdims)
        return given.isnan().all(axis, keepdims).where(float("nan"), result) if self.dtype in FLOATS else result

    def _without_nan(self, instead: float) -> Tensor:
        return self.isnan().where(instead, self) if self.dtype in CONTINUOUS else made(self.value)  # type: ignore[arg-type]

    # ---- running -----------------------------------------------------------------------------------------------------
    def cumsum(self, axis: int | None = None) -> Tensor:
        """The sum of the elements up to each along an axis, or in row-major order; integers as int64 or uint64."""
        return self._counted()._running("sum", axis)

    def cumprod(self, axis: int | None = None) -> Tensor:
        """The product of the elements up to each along an axis, or in row-major order; integers as int64 or uint64."""
        return self._counted()._running("prod", axis)

    def cummax(self, axis: int | None = None) -> Tensor:
        """The largest of the elements up to each along an axis, or in row-major order."""
        return self._running("any" if self.dtype == "bool" else "max", axis)

    def cummin(self, axis: int | None = None) -> Tensor:
        """The smallest of the elements up to each along an axis, or in row-major order."""
        return self._running("all" if self.dtype == "bool" else "min", axis)

    def _running(self, kind: str, axis: int | None) -> Tensor:
        x: Tensor = self.ravel() if axis is None or not self.ndim else made(self.value)
        return made(build.cumulative(x.value, kind=kind, axis=x._axis(axis or 0)))

    def diff(self, n: int = 1, axis: int = -1) -> Tensor:
        """The differences of adjacent elements along an axis, taken n times; for bools, true where they differ. Empty
        on an axis of n or fewer elements, as in numpy."""
        x: Tensor = made(self.value)
        for _ in range(n):
            position = x._present_axis(axis)
            size = x.type.shape[position]
            count = dim_max(size - 1, 0)
            first = size - count  # 1, or 0 on an empty axis
            later, earlier = x._cut(position, first, count), x._cut(position, 0, count)
            x = later ^ earlier if self.dtype == "bool" else later - earlier
        return x
