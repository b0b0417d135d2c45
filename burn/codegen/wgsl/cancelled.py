"""Operands that compilers of shaders would cancel: `hidden` names those to hide from them.

They may assume that there is no NaN, infinity or negative zero, and compute `x - x`, `x * 0`, `(x + y) - y` and `0 - x` as 0, 0,
x and -x. The results for these numbers are then lost. `hidden_f32` gives them a number that they know nothing about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from burn.dialect.types import DTYPES
from burn.kernels.body import Apply, Const, Convert, Scalar, Where

DEEPEST = 8
"""Levels of a tree of sums that are searched for terms that cancel."""


def hidden(node: Apply, text: Callable[[Scalar], str]) -> int | None:
    """The number of the operand to hide, or None. text: equal for operands with equal values."""
    if DTYPES[node.dtype].kind != "float" or len(node.args) < 2:
        return None
    first, second = node.args[:2]
    match node.function:
        case "add" | "sub":
            ours = set(_terms(first, 1, text, 0))
            theirs = _terms(second, -1 if node.function == "add" else 1, text, 0)
            if any(term in ours for term in theirs):
                return 1
            zeros = [isinstance(arg, Const) and arg.value == 0 for arg in node.args]
            return zeros.index(True) if any(zeros) else None  # 0 - 0 and -0 + 0 are 0, not -0
        case "mul" | "fma":
            return 0 if _may_be_zero(first) else 1 if _may_be_zero(second) else None
        case "div":
            return 0 if _may_be_zero(first) else None
    return None


def _terms(node: Scalar, sign: int, text: Callable[[Scalar], str], level: int) -> Iterator[tuple[str, int]]:
    """The terms of a tree of sums with their signs, and the trees below."""
    yield text(node), sign
    if isinstance(node, Apply) and node.function in ("add", "sub", "neg") and level < DEEPEST:
        last = -sign if node.function == "sub" else sign
        signs = (-sign,) if node.function == "neg" else (sign, last)
        for arg, each in zip(node.args, signs, strict=True):
            yield from _terms(arg, each, text, level + 1)


def _may_be_zero(node: Scalar) -> bool:
    """True for a constant zero, and for a choice with one."""
    match node:
        case Const(value=value):
            return value == 0
        case Convert(arg=arg):
            return arg.dtype == "bool" or _may_be_zero(arg)
        case Where(then=then, otherwise=otherwise):
            return _may_be_zero(then) or _may_be_zero(otherwise)
        case Apply(function="select", args=(_, then, otherwise)):
            return _may_be_zero(then) or _may_be_zero(otherwise)
        case Apply(function="neg", args=(arg,)):
            return _may_be_zero(arg)
    return False
