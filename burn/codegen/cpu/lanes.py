"""Arithmetic on SSA values written as Python expressions, lane-wise, the same for a scalar and for a vector.

`Lanes` wraps a `Value` and its `Function`; `x * y + 1` writes `arith` ops for floats or integers, by the type, and
Python numbers become constants of the other operand's type. `==` is not overloaded; `equals` compares lanes. Integers
are signless: `<`, `>>` and `.to_float` are signed, and methods with other names are unsigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.codegen.host.emit import Function, Value, bits, element_of, is_float, lanes_of, vector


@dataclass(frozen=True)
class Lanes:
    code: Function
    value: Value

    # ---- the type --------------------------------------------------------------------------------------------------
    @property
    def type(self) -> str:
        return self.value.type

    @property
    def element(self) -> str:
        return element_of(self.value.type)

    @property
    def lanes(self) -> int:
        return lanes_of(self.value.type)

    @property
    def width(self) -> int:
        return bits(self.value.type)

    @property
    def floating(self) -> bool:
        return is_float(self.value.type)

    # ---- making values ---------------------------------------------------------------------------------------------
    def wrap(self, value: Value) -> Lanes:
        return Lanes(self.code, value)

    def const(self, number: Lanes | int | float, element: str | None = None) -> Lanes:
        """`number` in every lane, in this type or with another element. An int is taken modulo the integer's width."""
        if isinstance(number, Lanes):
            return number
        type_ = vector(self.lanes, element or self.element)
        if not is_float(type_) and element_of(type_) != "i1":
            half = 1 << (bits(type_) - 1)
            number = (int(number) + half) % (2 * half) - half
        return self.wrap(self.code.const(number, type_))

    def op(self, name: str, *others: Lanes | int | float, attr: str = "") -> Lanes:
        return self.wrap(self.code.op(name, self.value, *(self.const(o).value for o in others), attr=attr))

    def call(self, intrinsic: str, *others: Lanes | int | float) -> Lanes:
        """An op of the `llvm` dialect printed as `name(operands) : (types) -> type`, all of this type."""
        operands = [self.value, *(self.const(o).value for o in others)]
        names = ", ".join(o.name for o in operands)
        types = ", ".join(o.type for o in operands)
        return self.wrap(self.code.pure(f"{intrinsic}({names}) : ({types}) -> {self.type}", self.type))

    # ---- arithmetic ------------------------------------------------------------------------------------------------
    def __add__(self, other: Lanes | int | float) -> Lanes:
        return self.op("arith.addf" if self.floating else "arith.addi", other)

    def __radd__(self, other: int | float) -> Lanes:
        return self.const(other) + self

    def __sub__(self, other: Lanes | int | float) -> Lanes:
        return self.op("arith.subf" if self.floating else "arith.subi", other)

    def __rsub__(self, other: int | float) -> Lanes:
        return self.const(other) - self

    def __mul__(self, other: Lanes | int | float) -> Lanes:
        return self.op("arith.mulf" if self.floating else "arith.muli", other)

    def __rmul__(self, other: int | float) -> Lanes:
        return self.const(other) * self

    def __truediv__(self, other: Lanes | int | float) -> Lanes:
        return self.op("arith.divf", other)

    def __rtruediv__(self, other: int | float) -> Lanes:
        return self.const(other) / self

    def __neg__(self) -> Lanes:
        return self.op("arith.negf") if self.floating else self.const(0) - self

    def mad(self, factor: Lanes | int | float, addend: Lanes | int | float) -> Lanes:
        """`self * factor + addend`, fused if the target can: for sums that need not be exact."""
        return self.wrap(self.code.mad(self.value, self.const(factor).value, self.const(addend).value))

    def horner(self, coefficients: Sequence[float]) -> Lanes:
        """The polynomial at this point, lowest power first."""
        result = self.const(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = result.mad(self, coefficient)
        return result

    def abs(self) -> Lanes:
        return self.op("math.absf")

    def sqrt(self) -> Lanes:
        return self.op("math.sqrt")

    def with_sign_of(self, other: Lanes) -> Lanes:
        return self.op("math.copysign", other)

    # ---- bits ------------------------------------------------------------------------------------------------------
    def __and__(self, other: Lanes | int) -> Lanes:
        return self.op("arith.andi", other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self.op("arith.ori", other)

    def __xor__(self, other: Lanes | int) -> Lanes:
        return self.op("arith.xori", other)

    def __invert__(self) -> Lanes:
        return self ^ (1 if self.element == "i1" else -1)

    def __lshift__(self, other: Lanes | int) -> Lanes:
        return self.op("arith.shli", other)

    def __rshift__(self, other: Lanes | int) -> Lanes:
        return self.op("arith.shrsi", other)

    def shift_right_logical(self, other: Lanes | int) -> Lanes:
        return self.op("arith.shrui", other)

    def as_int(self) -> Lanes:
        """The same bits as an integer of the same width."""
        return self.cast("arith.bitcast", f"i{self.width}")

    def as_float(self) -> Lanes:
        return self.cast("arith.bitcast", f"f{self.width}")

    # ---- comparisons and choice ------------------------------------------------------------------------------------
    def compare(self, ordered: str, signed: str, other: Lanes | int | float) -> Lanes:
        """Float predicate and integer predicate, as in `arith.cmpf` and `arith.cmpi`."""
        second = self.const(other).value
        compare = self.code.cmpf if self.floating else self.code.cmp
        return self.wrap(compare(ordered if self.floating else signed, self.value, second))

    def __lt__(self, other: Lanes | int | float) -> Lanes:
        return self.compare("olt", "slt", other)

    def __le__(self, other: Lanes | int | float) -> Lanes:
        return self.compare("ole", "sle", other)

    def __gt__(self, other: Lanes | int | float) -> Lanes:
        return self.compare("ogt", "sgt", other)

    def __ge__(self, other: Lanes | int | float) -> Lanes:
        return self.compare("oge", "sge", other)

    def equals(self, other: Lanes | int | float) -> Lanes:
        return self.compare("oeq", "eq", other)

    def differs(self, other: Lanes | int | float) -> Lanes:
        """True also where either is NaN."""
        return self.compare("une", "ne", other)

    def below(self, other: Lanes | int) -> Lanes:
        """Unsigned `<`."""
        return self.compare("", "ult", other)

    def is_nan(self) -> Lanes:
        return self.compare("uno", "", self)

    def negative(self) -> Lanes:
        """The sign bit: true for -0 and for a NaN that has it."""
        return (self.as_int() if self.floating else self) < 0

    def where(self, yes: Lanes | int | float, no: Lanes | int | float) -> Lanes:
        """Selects lanes by this condition. One of the two operands must be a `Lanes`, which gives the type."""
        like = yes if isinstance(yes, Lanes) else no
        assert isinstance(like, Lanes)
        return self.wrap(self.code.select(self.value, like.const(yes).value, like.const(no).value))

    def any(self) -> Lanes:
        """A scalar i1: true in any lane."""
        if self.lanes == 1:
            return self
        return self.wrap(self.code.pure(f"vector.reduction <or>, {self.value} : {self.type} into i1", "i1"))

    # ---- conversions -----------------------------------------------------------------------------------------------
    def cast(self, op: str, element: str) -> Lanes:
        return self.wrap(self.code.cast(op, self.value, element))

    def widen(self, element: str) -> Lanes:
        """To a float at least as wide."""
        return self.cast("arith.extf", element)

    def narrow(self, element: str) -> Lanes:
        return self.cast("arith.truncf", element)

    def to_float(self, element: str) -> Lanes:
        return self.cast("arith.sitofp", element)

    def to_int(self, element: str) -> Lanes:
        """Truncates towards zero. A lane out of range is undefined: it must not be selected later."""
        return self.cast("arith.fptosi", element)

    def resize(self, element: str, signed: bool = True) -> Lanes:
        """An integer of another width."""
        width = int(element[1:])
        extend = "arith.extsi" if signed else "arith.extui"
        return self if width == self.width else self.cast(extend if width > self.width else "arith.trunci", element)
