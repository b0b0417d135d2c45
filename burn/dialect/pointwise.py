"""Pointwise primitives: each result element depends on the operands' elements at the same place.

Operands broadcast as in numpy. The functions are a table (name, meaning, which element types, what comes back); one op class
is made from each row. `Cast`, `Select` and `Clamp` have facts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burn.dialect.op import Agreement, DTypeName, Op, Operand, same_type
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, TensorType, broadcast_shapes, type_of


class Pointwise(Op, traits=Trait.REPEATABLE):
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


@dataclass(frozen=True)
class Function:
    """A scalar function: its arity, the kinds of element types it takes, whether it answers with a bool, and whether mixed
    precision computes it in half precision if its operands are."""

    name: str
    arity: int
    doc: str
    kinds: tuple[str, ...] = ("float",)
    predicate: bool = False
    half: bool = False


_NUMBER = ("float", "int", "uint", "complex")
_REAL = ("float", "int", "uint")
_ANY = ("float", "int", "uint", "bool", "complex", "string")
_BITS = ("int", "uint", "bool")

FUNCTIONS: tuple[Function, ...] = (
    Function("add", 2, "a + b", _NUMBER, half=True),
    Function("sub", 2, "a - b", _NUMBER, half=True),
    Function("mul", 2, "a * b", _NUMBER, half=True),
    Function("div", 2, "a / b; integers truncate towards zero, and x / 0 is 0", _NUMBER, half=True),
    Function("floordiv", 2, "floor(a / b)", _REAL),
    Function("fmod", 2, "the remainder with the sign of a (C's fmod and %)", _REAL),
    Function("mod", 2, "the remainder with the sign of b (Python's %)", _REAL),
    Function("pow", 2, "a to the power b, with C pow's edge cases", _REAL),
    Function("min", 2, "the smaller; NaN if either is", (*_REAL, "bool"), half=True),
    Function("max", 2, "the larger; NaN if either is", (*_REAL, "bool"), half=True),
    Function("atan2", 2, "the angle of the point (b, a)"),
    Function("eq", 2, "a == b", _ANY, predicate=True),
    Function("ne", 2, "a != b", _ANY, predicate=True),
    Function("lt", 2, "a < b", (*_REAL, "bool"), predicate=True),
    Function("le", 2, "a <= b", (*_REAL, "bool"), predicate=True),
    Function("gt", 2, "a > b", (*_REAL, "bool"), predicate=True),
    Function("ge", 2, "a >= b", (*_REAL, "bool"), predicate=True),
    Function("and", 2, "bitwise and; logical for bool", _BITS),
    Function("or", 2, "bitwise or; logical for bool", _BITS),
    Function("xor", 2, "bitwise exclusive or", _BITS),
    Function("shift_left", 2, "a shifted left by b bits; 0 when b is the width or more", ("int", "uint")),
    Function("shift_right", 2, "a shifted right by b bits, filled with zeros", ("int", "uint")),
    Function("not", 1, "every bit inverted; logical for bool", _BITS),
    Function("neg", 1, "-a", _NUMBER, half=True),
    Function("abs", 1, "the magnitude", _REAL, half=True),
    Function("sign", 1, "-1, 0 or 1; NaN stays NaN", _REAL),
    Function("floor", 1, "the next integer towards minus infinity"),
    Function("ceil", 1, "the next integer towards infinity"),
    Function("round", 1, "the nearest integer, halves to even"),
    Function("trunc", 1, "the next integer towards zero"),
    Function("sqrt", 1, "the square root"),
    Function("rsqrt", 1, "1 / sqrt(a)"),
    Function("reciprocal", 1, "1 / a"),
    Function("exp", 1, "e to the power a"),
    Function("expm1", 1, "exp(a) - 1 without cancellation"),
    Function("log", 1, "the natural logarithm"),
    Function("log1p", 1, "log(1 + a) without cancellation"),
    Function("sin", 1, "the sine of a in radians"),
    Function("cos", 1, "the cosine of a in radians"),
    Function("tan", 1, "the tangent of a in radians"),
    Function("asin", 1, "the arc sine"),
    Function("acos", 1, "the arc cosine"),
    Function("atan", 1, "the arc tangent"),
    Function("sinh", 1, "the hyperbolic sine"),
    Function("cosh", 1, "the hyperbolic cosine"),
    Function("tanh", 1, "the hyperbolic tangent", half=True),
    Function("asinh", 1, "the inverse hyperbolic sine"),
    Function("acosh", 1, "the inverse hyperbolic cosine"),
    Function("atanh", 1, "the inverse hyperbolic tangent"),
    Function("erf", 1, "the error function 2/sqrt(pi) * integral of exp(-t^2) from 0 to a"),
    Function("sigmoid", 1, "1 / (1 + exp(-a))", half=True),
    Function("isnan", 1, "whether a is NaN", predicate=True),
    Function("isinf", 1, "whether a is an infinity", predicate=True),
)


def _make(row: Function) -> type[Op]:
    def infer(cls: type[Op], *operands: TensorType) -> TensorType:
        same_type(cls, *operands)
        dtype = operands[0].dtype
        if DTYPES[dtype].kind not in row.kinds:
            cls.fail(f"does not take {dtype}; it takes {', '.join(row.kinds)}")
        return TensorType("bool" if row.predicate else dtype, broadcast(cls, *operands))

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
    """Converts elements to another type. Float to integer truncates; to bool tests for non-zero; to a small float rounds to
    nearest even and, with `saturate`, clips at the largest value (ONNX Cast). Shapes: x [...] -> [...]."""

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
