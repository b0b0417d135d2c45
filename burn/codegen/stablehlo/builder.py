"""The builder of StableHLO ops that emitters call: `Builder`. Values are its own; emitters only pass them on.

Element types are burn's names; those without arithmetic in StableHLO do not occur, except as operands of `bitcast`
(`elements.carrier`). A size is an int, or what the builder makes of a named size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect.custom import Definition
from burn.dialect.dims import Dim

Value = Any
Size = Any
"""An int, or a symbolic size of the builder."""


@dataclass(frozen=True)
class GatherAxes:
    """Dimension numbers of gather and scatter; the last axis of the indices is the index vector.

    window: the result's (or the updates') axes that come from the slice. collapsed: the operand's axes of slice size 1 that the
    result lacks. indexed: the operand's axis of each entry of an index vector."""

    window: tuple[int, ...]
    collapsed: tuple[int, ...]
    indexed: tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """The attributes of a convolution; pads are (low, high) of each spatial axis. last: the operands are channels-last,
    [N, d.., C] and [k.., C / groups, O]; otherwise [N, C, d..] and [O, C / groups, k..]."""

    strides: tuple[int, ...]
    pads: tuple[tuple[Size, Size], ...]
    dilations: tuple[int, ...]
    groups: int
    last: bool


class Builder(ABC):
    """One method for each StableHLO op that emitters need."""

    # ---- sizes and types -----------------------------------------------------------------------------------------------
    @abstractmethod
    def size(self, dim: Dim) -> Size:
        """The value of a size. Raises KeyError for a symbol that nothing defines."""

    @abstractmethod
    def shape_of(self, x: Value) -> tuple[Size, ...]: ...

    @abstractmethod
    def dtype_of(self, x: Value) -> str: ...

    # ---- constants -----------------------------------------------------------------------------------------------------
    @abstractmethod
    def full(self, value: float | int | bool, shape: Sequence[Size], dtype: str) -> Value:
        """One number repeated."""

    @abstractmethod
    def dense(self, array: np.ndarray, dtype: str) -> Value:
        """A constant with its elements; `array` has the numpy type of `dtype`."""

    @abstractmethod
    def iota(self, shape: Sequence[Size], axis: int, dtype: str) -> Value: ...

    @abstractmethod
    def size_value(self, size: Size, dtype: str = "int64") -> Value:
        """A size as a scalar."""

    # ---- elementwise ---------------------------------------------------------------------------------------------------
    @abstractmethod
    def unary(self, op: str, x: Value) -> Value:
        """`op`: a name of StableHLO ("exponential") or chlo ("chlo.erf")."""

    @abstractmethod
    def binary(self, op: str, x: Value, y: Value) -> Value:
        """Operands of one shape and element type."""

    @abstractmethod
    def compare(self, relation: str, x: Value, y: Value) -> Value:
        """relation: EQ, NE, LT, LE, GT or GE."""

    @abstractmethod
    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """The condition has the operands' shape, or none."""

    @abstractmethod
    def convert(self, x: Value, dtype: str) -> Value:
        """StableHLO's convert."""

    @abstractmethod
    def bitcast(self, x: Value, dtype: str) -> Value:
        """Between types of one width."""

    @abstractmethod
    def parts(self, x: Value) -> tuple[Value, Value]:
        """The real and the imaginary parts of complex numbers."""

    @abstractmethod
    def complex(self, re: Value, im: Value) -> Value:
        """Complex numbers of their parts."""

    # ---- movement ------------------------------------------------------------------------------------------------------
    @abstractmethod
    def broadcast_in_dim(self, x: Value, shape: Sequence[Size], axes: Sequence[int]) -> Value:
        """Axis i of x is axis axes[i] of the result."""

    @abstractmethod
    def reshape(self, x: Value, shape: Sequence[Size]) -> Value: ...

    @abstractmethod
    def transpose(self, x: Value, permutation: Sequence[int]) -> Value: ...

    @abstractmethod
    def slice(self, x: Value, starts: Sequence[Size], limits: Sequence[Size], strides: Sequence[int]) -> Value: ...

    @abstractmethod
    def reverse(self, x: Value, axes: Sequence[int]) -> Value: ...

    @abstractmethod
    def pad(
        self, x: Value, value: Value, low: Sequence[Size], high: Sequence[Size], interior: Sequence[int]
    ) -> Value: ...

    @abstractmethod
    def concat(self, xs: Sequence[Value], axis: int) -> Value: ...

    # ---- contractions and reductions -----------------------------------------------------------------------------------
    @abstractmethod
    def dot_general(
        self,
        x: Value,
        y: Value,
        batch: tuple[Sequence[int], Sequence[int]],
        contract: tuple[Sequence[int], Sequence[int]],
        dtype: str,
    ) -> Value:
        """dtype: of the result, and of the sums."""

    @abstractmethod
    def convolution(self, x: Value, weight: Value, form: Convolution, dtype: str) -> Value: ...

    @abstractmethod
    def reduce(self, op: str, x: Value, initial: float | int | bool, axes: Sequence[int]) -> Value:
        """op: add, multiply, maximum, minimum, and, or."""

    @abstractmethod
    def reduce_window(
        self,
        op: str,
        x: Value,
        initial: float | int | bool,
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[tuple[Size, Size]],
    ) -> Value: ...

    @abstractmethod
    def cumulative(self, op: str, x: Value, initial: float | int | bool, axis: int, reverse: bool) -> Value:
        """Running results along an axis, each including its own element."""

    # ---- indexed -------------------------------------------------------------------------------------------------------
    @abstractmethod
    def gather(self, x: Value, indices: Value, axes: GatherAxes, sizes: Sequence[Size]) -> Value:
        """Slices of x of `sizes` at index vectors; an index out of range is clamped."""

    @abstractmethod
    def scatter(self, op: str, x: Value, indices: Value, updates: Value, axes: GatherAxes) -> Value:
        """op: set (the last update wins) or one of `reduce`. An index out of range is ignored."""

    @abstractmethod
    def update(self, x: Value, piece: Value, index: Value) -> Value:
        """x with `piece` in place of its elements from `index` (int64) on along the first axis."""

    @abstractmethod
    def sort(self, xs: Sequence[Value], axis: int, keys: int = 1) -> list[Value]:
        """Sorts all operands, stably and ascending, by the first `keys` of them. NaN is largest, and -0 equals 0."""

    # ---- control flow --------------------------------------------------------------------------------------------------
    @abstractmethod
    def branch(
        self, condition: Value, on_true: Callable[[], Sequence[Value]], on_false: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """One of two blocks, whose results have equal types. The blocks may use all values around them."""

    @abstractmethod
    def loop(
        self,
        going: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
        carried: Sequence[Value],
        trips: int | None = None,
    ) -> list[Value]:
        """Repeats `body` while `going` holds of the carried values. trips: `going` holds for exactly so many iterations."""

    def custom(self, definition: Definition, settings: str, operands: Sequence[Value]) -> list[Value]:
        """A custom op of the user's, with its attributes as JSON."""
        raise NotImplementedError(f"{definition.name} in StableHLO")  # `emitter.refused` finds it before

    # ---- derived -------------------------------------------------------------------------------------------------------
    def like(self, value: float | int | bool, x: Value) -> Value:
        """A constant of x's type."""
        return self.full(value, self.shape_of(x), self.dtype_of(x))

    def scalar(self, value: float | int | bool, dtype: str) -> Value:
        return self.full(value, (), dtype)

    def spread(self, x: Value, shape: Sequence[Size]) -> Value:
        """Broadcasts as numpy does, aligned at the last axis."""
        shape = tuple(shape)
        have = self.shape_of(x)
        if have == shape:
            return x
        return self.broadcast_in_dim(x, shape, range(len(shape) - len(have), len(shape)))

    def not_(self, x: Value) -> Value:
        return self.unary("not", x)

    def constant(self, x: Value) -> Value:
        """x, as a constant for differentiation."""
        return x

    def and_(self, x: Value, y: Value) -> Value:
        return self.binary("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self.binary("or", x, y)

    def is_nan(self, x: Value) -> Value:
        return self.compare("NE", x, x)
