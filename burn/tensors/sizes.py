"""`Dim`: sizes with names."""

from __future__ import annotations

from typing import Any, TypeAlias

from burn.dialect import dims
from burn.dialect.dims import Expr
from burn.errors import TypeMismatch

Size: TypeAlias = "int | Expr"


class Dim:
    """`Dim("batch")`: a size with a name, for the shape of an input. Expressions over sizes come of arithmetic on them,
    `Dim.min` and `Dim.max`."""

    def __new__(cls, name: str) -> Any:
        try:
            return dims.parse(name)
        except ValueError as error:
            raise TypeMismatch(str(error)) from None

    @staticmethod
    def min(*sizes: Size) -> Size:
        return dims.dim_min(*sizes)

    @staticmethod
    def max(*sizes: Size) -> Size:
        return dims.dim_max(*sizes)
