"""Operators that compute: on numbers in the element type's arithmetic, on sizes as expressions, on their quotients.

A comparison is answered only where it is proven for all sizes; a cast only where no rounding or overflow decides it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect.dims import Dim, ceildiv, dim_max, dim_min, exact_div, floordiv, mod, non_negative
from burn.dialect.types import DTYPES, INTEGERS, numpy_dtype
from burn.importers.onnx.contents import Content, Ratio, Unknown, wanted
from burn.importers.onnx.folding.rules import RULES, axes_of, known, rule

if TYPE_CHECKING:
    from burn.importers.onnx.node import Node


@rule("Cast")
def _cast(node: Node) -> Content:
    return convert(known(node, 0), node.dtype("to"))


@rule("CastLike")
def _cast_like(node: Node) -> Content:
    return convert(known(node, 0), node.type_only(1).dtype)


def convert(content: Content, dtype: str) -> Content:
    """Casts known elements. Raises Unknown where a number would change in a way that only the machine's cast
    decides."""
    if not wanted(dtype, content.array.size):
        raise Unknown
    kind = DTYPES[dtype].kind

    def element(e: Any) -> Any:
        if kind == "bool":
            if isinstance(e, (int, float)):
                return bool(e)
            raise Unknown
        if kind == "float":
            if isinstance(e, (int, float)):
                return float(np.asarray(e).astype(numpy_dtype(dtype)))
            return e
        if isinstance(e, float):
            if not math.isfinite(e):
                raise Unknown
            e = math.trunc(e)
        if isinstance(e, Ratio):
            if not (non_negative(_as_dim(e.top)) and non_negative(_as_dim(e.bottom))):
                raise Unknown
            return floordiv(e.top, e.bottom)
        if isinstance(e, int):
            info = np.iinfo(numpy_dtype(dtype))
            if not info.min <= int(e) <= info.max:
                raise Unknown
            return int(e)
        return e

    return Content(
        dtype, content.with_array([element(e) for e in content.array.reshape(-1)]).array.reshape(content.array.shape)
    )


def _as_dim(value: Any) -> Dim:
    return value


def _rational(e: Any) -> Ratio:
    """An element of a float tensor as a quotient. Constants qualify when they are short, so that no rounding hides in
    them."""
    if isinstance(e, Ratio):
        return e
    if isinstance(e, float):
        if not math.isfinite(e):
            raise Unknown
        top, bottom = e.as_integer_ratio()
        if bottom > 1024 or abs(top) > 2**24:
            raise Unknown
        return Ratio(top, bottom)
    return Ratio(e, 1)


def _quotient(top: Dim, bottom: Dim) -> Any:
    if bottom == 0:
        raise Unknown
    if isinstance(top, int) and isinstance(bottom, int):
        return top / bottom
    whole = exact_div(top, bottom)
    return whole if whole is not None else Ratio(top, bottom)


_Binary = Callable[[Any, Any], Any]


def _int_div(a: Dim, b: Dim) -> Dim:
    if not (non_negative(a) and non_negative(b - 1)):
        raise Unknown  # truncation and floor differ below zero
    return floordiv(a, b)


def _int_mod(a: Dim, b: Dim) -> Dim:
    if not non_negative(b - 1):
        raise Unknown
    return mod(a, b)


def _decide(test: Callable[[Dim], bool]) -> _Binary:
    """A comparison by the difference a - b, decided only by proof."""

    def compare(a: Any, b: Any) -> bool:
        if isinstance(a, Ratio) or isinstance(b, Ratio) or isinstance(a, float) or isinstance(b, float):
            raise Unknown
        return test(a - b)

    return compare


def _positive(d: Dim) -> bool:
    return non_negative(d - 1)


def _sign_known(yes: Callable[[Dim], bool], no: Callable[[Dim], bool]) -> Callable[[Dim], bool]:
    def test(d: Dim) -> bool:
        if yes(d):
            return True
        if no(d):
            return False
        raise Unknown

    return test


def _equal_zero(d: Dim) -> bool:
    if isinstance(d, int):
        return d == 0
    if _positive(d) or _positive(d * -1):
        return False
    raise Unknown


_greater = _sign_known(_positive, lambda d: non_negative(d * -1))
_less = _sign_known(lambda d: _positive(d * -1), non_negative)

# Operator -> (the same on numbers of the element type, on sizes, on quotients of sizes or None).
BINARY: dict[str, tuple[_Binary, _Binary | None, _Binary | None]] = {
    "Add": (np.add, operator.add, lambda a, b: _quotient(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom)),
    "Sub": (
        np.subtract,
        operator.sub,
        lambda a, b: _quotient(a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom),
    ),
    "Mul": (np.multiply, operator.mul, lambda a, b: _quotient(a.top * b.top, a.bottom * b.bottom)),
    "Div": (np.divide, _int_div, lambda a, b: _quotient(a.top * b.bottom, a.bottom * b.top)),
    "Mod": (np.mod, _int_mod, None),
    "Min": (np.minimum, dim_min, None),
    "Max": (np.maximum, dim_max, None),
    "And": (np.logical_and, None, None),
    "Or": (np.logical_or, None, None),
    "Xor": (np.logical_xor, None, None),
    "Equal": (np.equal, _decide(_equal_zero), None),
    "Greater": (np.greater, _decide(_greater), None),
    "GreaterOrEqual": (np.greater_equal, _decide(lambda d: not _less(d)), None),
    "Less": (np.less, _decide(_less), None),
    "LessOrEqual": (np.less_equal, _decide(lambda d: not _greater(d)), None),
}
PREDICATES = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor")


@rule(*BINARY)
def _binary(node: Node) -> Content:
    operands = [known(node, i) for i in range(len(node.inputs))]
    if len({o.dtype for o in operands}) > 1 or node.int("fmod", 0):
        raise Unknown
    result = operands[0]
    for operand in operands[1:]:
        result = _combine(node.op, result, operand)
    return result


def _combine(name: str, a: Content, b: Content) -> Content:
    numeric, sizes, ratios = BINARY[name]
    dtype = "bool" if name in PREDICATES else a.dtype
    left, right = a.numbers(), b.numbers()
    if left is not None and right is not None:
        if name in ("Div", "Mod") and a.dtype in INTEGERS:
            if not right.all():
                raise Unknown  # what division by zero gives is the program's to say
            numeric = _truncated if name == "Div" else np.mod
        with np.errstate(all="ignore"):
            result = np.asarray(numeric(left, right))
        return Content.of_numbers(dtype, result)
    if DTYPES[a.dtype].kind == "float" and name not in PREDICATES:
        if ratios is None:
            raise Unknown
        function: _Binary = lambda x, y: ratios(_rational(x), _rational(y))  # noqa: E731
    elif sizes is None:
        raise Unknown
    else:
        function = sizes
    try:
        pairs = np.broadcast(a.array, b.array)
    except ValueError:
        raise Unknown from None
    return Content.of(dtype, [function(x, y) for x, y in pairs], pairs.shape)


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient rounded towards zero. The least integer has no magnitude, and its quotient by -1 wraps."""
    floor = a // b
    inexact = floor * b != a
    return (floor + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype)


def _element(numeric: Callable[[Any], Any], symbolic: Callable[[Any], Any] | None) -> Callable[[Node], Content]:
    def rule(node: Node) -> Content:
        content = known(node, 0)
        numbers = content.numbers()
        if numbers is not None:
            with np.errstate(all="ignore"):
                return Content.of_numbers(content.dtype, np.asarray(numeric(numbers)).astype(numbers.dtype))
        if symbolic is None:
            raise Unknown
        elements = [symbolic(e) for e in content.array.reshape(-1)]
        return Content.of(content.dtype, elements, content.array.shape)

    return rule


def _round_ratio(function: Callable[[Dim, Dim], Dim]) -> Callable[[Any], Any]:
    def rounded(e: Any) -> Any:
        ratio = _rational(e)
        return function(ratio.top, ratio.bottom)

    return rounded


def _absolute(e: Any) -> Any:
    if isinstance(e, Ratio) or not non_negative(e):
        raise Unknown
    return e


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    "Neg": (np.negative, lambda e: Ratio(e.top * -1, e.bottom) if isinstance(e, Ratio) else e * -1),
    "Abs": (np.abs, _absolute),
    "Not": (np.logical_not, None),
    "Floor": (np.floor, _round_ratio(floordiv)),
    "Ceil": (np.ceil, _round_ratio(ceildiv)),
    "Sqrt": (np.sqrt, None),
    "Reciprocal": (lambda x: (1 / x).astype(x.dtype), lambda e: _quotient(_rational(e).bottom, _rational(e).top)),
}
for _name, (_numeric, _symbolic) in UNARY.items():
    RULES[_name] = _element(_numeric, _symbolic)


@rule("Where")
def _where(node: Node) -> Content:
    condition, a, b = (known(node, i) for i in range(3))
    if a.dtype != b.dtype or not condition.is_numbers:
        raise Unknown
    try:
        triples = np.broadcast(condition.array, a.array, b.array)
    except ValueError:
        raise Unknown from None
    return Content.of(a.dtype, [x if c else y for c, x, y in triples], triples.shape)


# Operator -> (the same on numbers of the element type, which wrap, on sizes).
_REDUCE: dict[str, tuple[np.ufunc, _Binary]] = {
    "ReduceProd": (np.multiply, operator.mul),
    "ReduceSum": (np.add, operator.add),
    "ReduceMin": (np.minimum, dim_min),
    "ReduceMax": (np.maximum, dim_max),
}
REDUCE_AXES_SINCE = {"ReduceSum": 13}  # the others took axes as an operand from opset 18


@rule(*_REDUCE)
def _reduce(node: Node) -> Content:
    content = known(node, 0)
    if content.dtype not in ("int32", "int64") or not content.array.size:
        raise Unknown
    axes = axes_of(node, 1, REDUCE_AXES_SINCE.get(node.op, 18))
    if not axes:
        if node.int("noop_with_empty_axes", 0):
            return content
        axes = list(range(content.array.ndim))
    at = node.axes(axes, content.array.ndim)
    numbers = content.numbers()
    numeric, sizes = _REDUCE[node.op]
    if numbers is not None:
        total = numeric.reduce(numbers, axis=tuple(at), dtype=numbers.dtype, keepdims=bool(node.int("keepdims", 1)))
        return Content.of_numbers(content.dtype, np.asarray(total))
    result = content.array
    for axis in sorted(at, reverse=True):
        parts = [np.take(result, i, axis=axis) for i in range(result.shape[axis])]
        total = parts[0]
        for part in parts[1:]:
            total = content.with_array(np.frompyfunc(sizes, 2, 1)(total, part)).array
        result = np.asarray(total, object)
    if node.int("keepdims", 1):
        result = result.reshape([1 if i in at else d for i, d in enumerate(content.array.shape)])
    return content.with_array(result)
