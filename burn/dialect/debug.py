"""Ops that look at values while a program runs: `burn.debug`. They have effects and no results. No pass erases or repeats one of
them, and their order stays that of the program (`Trait.ORDERED`): pure ops may move past them. The backward pass, which copies
regions, leaves them out (`Trait.OBSERVES`)."""

from __future__ import annotations

from burn.dialect.batching.rules import observed
from burn.dialect.op import Op, Operand, Variadic  # noqa: F401  annotations are read
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, TensorType

FIELD, CONVERSION, FIELD_END = "\1", "\2", "\3"
"""A field in the text of `debug_print`: FIELD, the operand's number, CONVERSION, a printf conversion or nothing, FIELD_END.
The order of lib_debug.c."""


def _check(cls: type[Op], values: list[TensorType]) -> list[TensorType]:
    for value in values:
        dtype = DTYPES[value.dtype]
        whole = dtype.kind in ("int", "uint") and dtype.bits >= 8
        if not (whole or value.dtype in ("float64", "float32", "float16", "bfloat16", "bool")):
            cls.fail(f"{value.dtype} is not supported: cast it")
    return []


class DebugPrint(
    Op,
    name="debug_print",
    pure=False,
    traits=Trait.OBSERVES | Trait.ORDERED,
    batching="it would show all examples at once; show what vmap returns",
):
    """Prints `text` with the values in its fields. Shapes: values [...]... -> nothing."""

    values: Variadic
    text: str

    @classmethod
    def infer(cls, values: list[TensorType], text: str) -> list[TensorType]:
        return _check(cls, values)


class DebugCall(
    Op,
    name="debug_call",
    pure=False,
    traits=Trait.OBSERVES | Trait.ORDERED,
    batching="it would pass all examples at once; call it with what vmap returns",
):
    """Calls a Python function of this process, by its number, with the values as arrays. Shapes: values [...]... -> nothing."""

    values: Variadic
    function: int

    @classmethod
    def infer(cls, values: list[TensorType], function: int) -> list[TensorType]:
        return _check(cls, values)


class CheckFinite(Op, name="check_finite", pure=False, traits=Trait.ORDERED, batching=observed):
    """Ends the run if one of the first `made` values has a NaN (with `infinite` also an infinity) and none of the others. The
    others are the operands of the op that made the first. Shapes: values [...]... -> nothing."""

    values: Variadic
    made: int
    infinite: bool = False

    @classmethod
    def infer(cls, values: list[TensorType], made: int, infinite: bool) -> list[TensorType]:
        return _check(cls, values)
