"""Comparison, logic and bits by name; the operators are in `operators.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.complexes import Complexes
from burn.tensors.operators import binary
from burn.tensors.promotion import Operand, constant, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Logic(Complexes):
    """Comparisons and logic."""

    __slots__ = ()

    def equal(self, other: Operand) -> Tensor:
        """self == other, element by element."""
        return binary("eq", self, other)

    def not_equal(self, other: Operand) -> Tensor:
        """self != other, element by element."""
        return binary("ne", self, other)

    def less(self, other: Operand) -> Tensor:
        """self < other, element by element."""
        return binary("lt", self, other)

    def less_equal(self, other: Operand) -> Tensor:
        """self <= other, element by element."""
        return binary("le", self, other)

    def greater(self, other: Operand) -> Tensor:
        """self > other, element by element."""
        return binary("gt", self, other)

    def greater_equal(self, other: Operand) -> Tensor:
        """self >= other, element by element."""
        return binary("ge", self, other)

    eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal

    def array_equal(self, other: Any, equal_nan: bool = False) -> Tensor:
        """True if both have one shape and the same elements: a bool scalar. Raises TypeMismatch for sizes that cannot be
        compared before the run."""
        a, b = together(self, constant(other))
        pairs = list(zip(a.type.shape, b.type.shape, strict=False))
        if a.ndim != b.ndim or any(m != n and isinstance(m, int) and isinstance(n, int) for m, n in pairs):
            return constant(False)
        if a.type.shape != b.type.shape:
            raise TypeMismatch("array_equal is of sizes that are known to agree, or not to", [f"{a.type} and {b.type}"])
        same = a == b
        return (same | (a.isnan() & b.isnan()) if equal_nan else same).all()

    # ---- logic: other types count as true where they are not zero ----------------------------------------------------
    def _truth(self) -> Tensor:
        return made(self.value) if self.dtype == "bool" else self != 0

    def logical_and(self, other: Operand) -> Tensor:
        """True where both are true (not zero)."""
        return binary("and_", *_truths(self, other))

    def logical_or(self, other: Operand) -> Tensor:
        """True where either is true (not zero)."""
        return binary("or_", *_truths(self, other))

    def logical_xor(self, other: Operand) -> Tensor:
        """True where exactly one is true (not zero)."""
        return binary("xor", *_truths(self, other))

    def logical_not(self) -> Tensor:
        """True where the element is false (zero)."""
        return ~self._truth()

    # ---- bits --------------------------------------------------------------------------------------------------------
    def bitwise_and(self, other: Operand) -> Tensor:
        """self & other, of integers or bools."""
        return binary("and_", self, other)

    def bitwise_or(self, other: Operand) -> Tensor:
        """self | other, of integers or bools."""
        return binary("or_", self, other)

    def bitwise_xor(self, other: Operand) -> Tensor:
        """self ^ other, of integers or bools."""
        return binary("xor", self, other)

    def bitwise_not(self) -> Tensor:
        """~self, of integers or bools."""
        return made(build.not_(self.value))

    invert = bitwise_not

    def left_shift(self, other: Operand) -> Tensor:
        """self << other, of integers: 0 when the shift is the width or more."""
        return self << other

    def right_shift(self, other: Operand) -> Tensor:
        """self >> other, of integers: signed ones keep their sign."""
        return self >> other

    def __lshift__(self, other: Operand) -> Tensor:
        return _shift(self, other, "shift_left")

    def __rlshift__(self, other: Operand) -> Tensor:
        return _shift(other, self, "shift_left")

    def __rshift__(self, other: Operand) -> Tensor:
        return _shift(self, other, "shift_right")

    def __rrshift__(self, other: Operand) -> Tensor:
        return _shift(other, self, "shift_right")


def _truths(*operands: Any) -> list[Any]:
    return [
        o._truth() if isinstance(o, Logic) else bool(o) if isinstance(o, (int, float)) else o != 0 for o in operands
    ]


def _shift(left: Any, right: Any, name: str) -> Tensor:
    """Arithmetic shift. The dialect's right shift is logical, so a negative number is shifted as its complement."""
    a, b = together(left, right)
    if not a.dtype.startswith(("int", "uint")):
        raise TypeMismatch("shifts are of integers", [f"not of {a.type}"])
    if name == "shift_left" or a.dtype.startswith("uint"):
        return made(getattr(build, name)(a.value, b.value))
    negative = a < 0
    return negative.where(~made(build.shift_right((~a).value, b.value)), made(build.shift_right(a.value, b.value)))
