"""Pointwise primitives: each result element depends on the operands' elements at the same index.

Operands broadcast as in numpy. One op class is made from each row of the table in `functions.py`. `Cast`, `Bitcast` and `Select`
have attributes or types of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.dialect.batching.rules import elementwise
from burn.dialect.functions import FUNCTIONS, Function
from burn.dialect.op import Agreement, DTypeName, Op, Operand, same_type
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, PARTS, TensorType, broadcast_shapes, type_of


class Pointwise(Op, traits=Trait.REPEATABLE, batching=elementwise):
    """Base of the pointwise ops: `FUNCTION` is the scalar function's name for the code generators."""

    FUNCTION = ""

    def must_agree(self) -> list[Agreement]:
        out = type_of(self.operation.results[0]).shape
        found = []
        for operand in self.operation.operands:
            shape = type_of(operand).shape
            found += [
                Agreement(d, t, "broadcast") for d, t in zip(shape, out[len(out) - len(shape) :], strict=True) if d != 1
            ]
        return found


def broadcast(cls: type[Op], *types_: TensorType) -> tuple:
    try:
        return broadcast_shapes(*(t.shape for t in types_))
    except ValueError as error:
        cls.fail(str(error))


def _make(row: Function) -> type[Op]:
    def infer(cls: type[Op], *operands: TensorType) -> TensorType:
        same_type(cls, *operands)
        dtype = operands[0].dtype
        if DTYPES[dtype].kind not in row.kinds:
            cls.fail(f"does not take {dtype}; it takes {', '.join(row.kinds)}")
        result = "bool" if row.predicate else PARTS.get(dtype, dtype) if row.name == "abs" else dtype
        return TensorType(result, broadcast(cls, *operands))

    operands = {1: ("x",), 2: ("lhs", "rhs")}[row.arity]
    shapes = "x [...] -> [...]" if row.arity == 1 else "lhs, rhs broadcast to [...] -> [...]"
    body = {
        "__doc__": f"{row.doc[0].upper()}{row.doc[1:]}. Shapes: {shapes}, element types: {', '.join(row.kinds)}"
        f"{' -> bool' if row.predicate else ''}.",
        "__module__": __name__,
        "__annotations__": dict.fromkeys(operands, Operand),
        "FUNCTION": row.name,
        "infer": classmethod(infer),
    }
    name = "".join(part.capitalize() for part in row.name.split("_"))
    return type(Pointwise)(
        name, (Pointwise,), body, name=row.name, traits=Trait.FOLLOWS_PRECISION if row.half else Trait.NONE
    )


if TYPE_CHECKING:

    def __getattr__(name: str) -> type[Op]:
        """A class of the table: `Mul` for "mul", `ShiftLeft` for "shift_left"."""
        ...


for _row in FUNCTIONS:
    globals()[_made.__name__] = (_made := _make(_row))


class Select(Pointwise, name="select", traits=Trait.FOLLOWS_PRECISION):
    """`condition ? on_true : on_false`. Shapes: the three broadcast to [...] -> [...]; condition is bool."""

    FUNCTION = "select"
    condition: Operand
    on_true: Operand
    on_false: Operand

    @classmethod
    def infer(cls, condition: TensorType, on_true: TensorType, on_false: TensorType) -> TensorType:
        if condition.dtype != "bool":
            cls.fail(f"the condition must be bool, not {condition.dtype}")
        same_type(cls, on_true, on_false)
        return TensorType(on_true.dtype, broadcast(cls, condition, on_true, on_false))


class Cast(Pointwise, name="cast"):
    """Converts elements to another type. Float to integer truncates; to bool tests for non-zero; to a small float
    rounds to nearest even and, with `saturate`, clamps to the largest value (ONNX Cast). Shapes: x [...] -> [...]."""

    FUNCTION = "cast"
    x: Operand
    dtype: DTypeName
    saturate: bool = True

    @classmethod
    def infer(cls, x: TensorType, dtype: str, saturate: bool) -> TensorType:
        if dtype not in DTYPES:
            cls.fail(f"there is no element type '{dtype}'", "dtype")
        return x.with_dtype(dtype)


class Bitcast(Pointwise, name="bitcast"):
    """The same bits read as another element type of the same width. Shapes: x [...] -> [...]."""

    FUNCTION = "bitcast"
    x: Operand
    dtype: DTypeName

    @classmethod
    def infer(cls, x: TensorType, dtype: str) -> TensorType:
        if DTYPES[dtype].size != x.element_bytes:
            cls.fail(f"{dtype} and {x.dtype} differ in width", "dtype")
        return x.with_dtype(dtype)
