"""`Dim`: named sizes, as users see them in `tensor.shape`.

The compiler uses `dims.Expr`, whose `==` compares the text of two expressions. A user's `if x.shape[0] == 3:` compares
values, so users see `Dim`. Arithmetic gives `Dim`. A comparison that holds for all sizes or for none is a bool; one that
depends on them raises.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

from burn.dialect import dims
from burn.dialect.dims import Expr, plain
from burn.errors import TypeMismatch

Size: TypeAlias = "int | Expr"


class Dim(Expr):
    """`Dim("batch")`: a named size, for the shape of an input. Arithmetic (`+ - * // % divmod **`), `Dim.min`, `Dim.max` and
    `Dim.broadcast` give expressions over sizes. A size is at least 0 and has no value while a function is
    traced: comparisons that depend on it raise TypeMismatch."""

    __slots__ = ()

    def __new__(cls, name: str) -> Any:
        try:
            return shown(dims.parse(name))
        except ValueError as error:
            raise TypeMismatch(str(error)) from None

    def __init__(self, name: str) -> None:
        pass

    @staticmethod
    def min(*sizes: Size) -> Size:
        """The smallest of sizes."""
        return shown(dims.dim_min(*sizes))

    @staticmethod
    def max(*sizes: Size) -> Size:
        """The largest of sizes."""
        return shown(dims.dim_max(*sizes))

    @staticmethod
    def broadcast(*sizes: Size) -> Size:
        """The size that axes of these sizes, equal or 1, broadcast to."""
        return shown(dims.dim_broadcast(*sizes))

    def __repr__(self) -> str:
        return f'Dim("{self}")'

    # ---- comparing ---------------------------------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        return self._compare("==", other)

    def __ne__(self, other: object) -> bool:
        return self._compare("!=", other)

    def __lt__(self, other: object) -> bool:
        return self._compare("<", other)

    def __le__(self, other: object) -> bool:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> bool:
        return self._compare(">", other)

    def __ge__(self, other: object) -> bool:
        return self._compare(">=", other)

    def __bool__(self) -> bool:
        return self._compare("!=", 0)

    __hash__ = Expr.__hash__

    def _compare(self, relation: str, other: Any) -> Any:
        if not isinstance(other, Expr):
            try:
                if isinstance(other, float) and other.is_integer():
                    other = int(other)
                other = operator.index(other)  # type: ignore[arg-type]
            except TypeError:
                return NotImplemented
        holds = dims.decide(self, relation, other)
        if holds is None:
            raise TypeMismatch(
                f"whether {self} {relation} {other} depends on sizes that are known only when the program runs",
                [
                    f"choose between values with burn.cond(burn.constant(size) {relation} {other}, then, otherwise)",
                    f"or require it with burn.check_size(size, '{relation}', {other})",
                ],
            )
        return holds

    # ---- numbers -----------------------------------------------------------------------------------------------------
    def __pow__(self, power: int) -> Any:
        if not isinstance(power, int) or power < 0:
            return NotImplemented
        return shown(dims.product([plain(self)] * power))

    def __divmod__(self, other: Size) -> tuple[Any, Any]:
        return self // other, self % other

    def _has_no_value(self, use: str) -> NoReturn:
        raise TypeMismatch(
            f"the size {self} has no value while the function is traced, so it cannot be used {use}",
            ["burn.constant(size) is the size as a tensor; // divides sizes; burn.fori_loop and burn.scan repeat"],
        )

    def __int__(self) -> int:
        self._has_no_value("as an int")

    def __index__(self) -> int:
        self._has_no_value("as an index or in range()")

    def __float__(self) -> float:
        self._has_no_value("as a float")

    def __truediv__(self, other: object) -> float:
        self._has_no_value("in a division with /")

    __rtruediv__ = __truediv__


def _shows(name: str) -> Callable[..., Any]:
    """An operator of expressions that returns a `Dim`."""
    plain_operator = getattr(Expr, name)

    def apply(self: Dim, *others: Any) -> Any:
        result = plain_operator(plain(self), *(plain(o) if isinstance(o, Expr) else o for o in others))
        return result if result is NotImplemented else shown(result)

    apply.__name__ = name
    return apply


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "neg"):
    setattr(Dim, f"__{_name}__", _shows(f"__{_name}__"))


def shown(size: Size) -> Any:
    """A size as users see it."""
    if not isinstance(size, Expr) or type(size) is Dim:
        return size
    made = object.__new__(Dim)
    made.terms, made._hash = size.terms, size._hash
    return made


def shown_shape(shape: Iterable[Size]) -> tuple[Any, ...]:
    """A shape as users see it."""
    return tuple(map(shown, shape))
