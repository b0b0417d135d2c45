"""Operators: arithmetic, comparison, logic. Operands broadcast as in numpy and are promoted as in `promotion.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import ops as build
from burn.dialect.types import DTYPES
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.conversions import Conversions
from burn.tensors.promotion import Operand, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

LOGIC = frozenset({"and_", "or_", "xor"})
OF_BOOLS = {"add": "or_", "mul": "and_"}
"""Arithmetic of two bools that is a bool, as in numpy."""
SMALL_OF_BOOLS = frozenset({"floordiv", "mod", "fmod", "pow"})
"""Arithmetic of two bools that is an int8."""


def binary(name: str, left: Any, right: Any, floating: bool = False) -> Tensor:
    """A pointwise op of two operands in the element type they have in common. Raises TypeMismatch."""
    a, b = together(left, right, floating=floating)
    if a.type.dtype == "bool":
        name = OF_BOOLS.get(name, name)
        if name in SMALL_OF_BOOLS:
            a, b = a.astype("int8"), b.astype("int8")
        elif name == "sub":
            raise TypeMismatch("bools are not subtracted", ["write x ^ y, or convert them with .astype"])
    if name == "pow" and DTYPES[a.dtype].kind == "int" and _is_negative(right):
        raise TypeMismatch("integers are not raised to negative powers", ["convert them to floats with .astype"])
    if name in LOGIC and a.dtype.startswith(("float", "bfloat", "complex")):
        raise TypeMismatch(f"{name.rstrip('_')} is of integers and bools", [f"not of {a.type}"])
    return made(getattr(build, name)(a.value, b.value))


def _is_negative(exponent: Any) -> bool:
    """True for a literal exponent below 0; computed exponents are not checked."""
    if isinstance(exponent, (np.ndarray, np.generic)):
        return bool(np.any(np.less(exponent, 0)))
    return isinstance(exponent, int) and exponent < 0


class Operators(Conversions):
    """Python's operators."""

    __slots__ = ()

    # ---- arithmetic --------------------------------------------------------------------------------------------------
    def __add__(self, other: Operand) -> Tensor:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return binary("div", self, other, floating=True)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return binary("div", other, self, floating=True)

    def __floordiv__(self, other: Operand) -> Tensor:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return binary("floordiv", other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return binary("mod", self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return binary("mod", other, self)

    def __divmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return other // self, other % self  # type: ignore[operator,return-value]

    def __pow__(self, other: Operand) -> Tensor:
        return binary("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return binary("pow", other, self)

    def __pos__(self) -> Tensor:
        return self._present()

    def __neg__(self) -> Tensor:
        return made(build.neg(self.value))

    def __abs__(self) -> Tensor:
        return made(build.abs(self.value))

    def __and__(self, other: Operand) -> Tensor:
        return binary("and_", self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return binary("and_", other, self)

    def __or__(self, other: Operand) -> Tensor:
        return binary("or_", self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return binary("or_", other, self)

    def __xor__(self, other: Operand) -> Tensor:
        return binary("xor", self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return binary("xor", other, self)

    def __invert__(self) -> Tensor:
        return made(build.not_(self.value))

    # ---- comparison --------------------------------------------------------------------------------------------------
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        if other is None or isinstance(other, str):
            return NotImplemented  # no tensor equals it: Python says False
        return binary("eq", self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        if other is None or isinstance(other, str):
            return NotImplemented
        return binary("ne", self, other)

    def __lt__(self, other: Operand) -> Tensor:
        return binary("lt", self, other)

    def __le__(self, other: Operand) -> Tensor:
        return binary("le", self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return binary("gt", self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return binary("ge", self, other)
