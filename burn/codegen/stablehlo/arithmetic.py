"""Values with operators, for emitters that compute with bits: `Lanes(b, x) & 0xFF`."""

from __future__ import annotations

from burn.codegen.stablehlo.builder import Builder, Value
from burn.dialect.types import DTYPES


class Lanes:
    """A value of a builder. Numbers beside it become constants of its type."""

    def __init__(self, b: Builder, value: Value) -> None:
        self.b, self.value = b, value

    @property
    def dtype(self) -> str:
        return self.b.dtype_of(self.value)

    def const(self, number: float, dtype: str = "") -> Lanes:
        return Lanes(self.b, self.b.full(number, self.b.shape_of(self.value), dtype or self.dtype))

    def _operand(self, other: Lanes | float) -> Value:
        return other.value if isinstance(other, Lanes) else self.const(other).value

    def op(self, name: str, other: Lanes | float) -> Lanes:
        return Lanes(self.b, self.b.binary(name, self.value, self._operand(other)))

    def is_(self, relation: str, other: Lanes | float) -> Lanes:
        return Lanes(self.b, self.b.compare(relation, self.value, self._operand(other)))

    def __add__(self, other: Lanes | float) -> Lanes:
        return self.op("add", other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self.op("subtract", other)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self.op("multiply", other)

    def __and__(self, other: Lanes | float) -> Lanes:
        return self.op("and", other)

    def __or__(self, other: Lanes | float) -> Lanes:
        return self.op("or", other)

    def __xor__(self, other: Lanes | float) -> Lanes:
        return self.op("xor", other)

    def __lshift__(self, bits: int) -> Lanes:
        return self.op("shift_left", bits)

    def __rshift__(self, bits: int) -> Lanes:
        """With zeros."""
        return self.op("shift_right_logical", bits)

    def __invert__(self) -> Lanes:
        return Lanes(self.b, self.b.not_(self.value))

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self.is_("LT", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self.is_("GT", other)

    def __ge__(self, other: Lanes | float) -> Lanes:
        return self.is_("GE", other)

    def equals(self, other: Lanes | float) -> Lanes:
        return self.is_("EQ", other)

    def where(self, x: Lanes | float, y: Lanes | float) -> Lanes:
        """x where this is true, elsewhere y; one of the two is not a number."""
        like = x if isinstance(x, Lanes) else y
        assert isinstance(like, Lanes)
        return Lanes(self.b, self.b.select(self.value, like._operand(x), like._operand(y)))

    def abs(self) -> Lanes:
        return Lanes(self.b, self.b.unary("abs", self.value))

    def is_nan(self) -> Lanes:
        return Lanes(self.b, self.b.is_nan(self.value))

    def is_finite(self) -> Lanes:
        return self.abs() < float("inf")

    def to(self, dtype: str) -> Lanes:
        return Lanes(self.b, self.b.convert(self.value, dtype))

    def bits(self) -> Lanes:
        """Of a float, as the signed integer of its width."""
        return Lanes(self.b, self.b.bitcast(self.value, f"int{DTYPES[self.dtype].bits}"))

    def as_(self, dtype: str) -> Lanes:
        return Lanes(self.b, self.b.bitcast(self.value, dtype))
