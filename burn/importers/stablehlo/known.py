"""Small integer tensors whose elements are known while importing: numbers, and exact sizes.

Programs of jax.export compute the shapes of their tensors (`get_dimension_size`, arithmetic, `concatenate`,
`dynamic_reshape`). Here
the same is computed with burn's dims, so that every size of the imported program is an expression over named sizes. A
comparison of sizes that is not decided is a `Condition`; `shape_assertion` makes a check of it.

Enter at `Known.fold`. Elements are an array of objects: int, bool, Expr or Condition. Sizes are not wrapped to the type's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape, signed
from burn.dialect.dims import Dim, Expr, decide, dim_max, dim_min, floordiv, mod, non_negative, symbols
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, INTEGERS
from burn.importers.stablehlo.syntax.module import Elements, Ranked

if TYPE_CHECKING:
    from burn.importers.stablehlo.node import Node

MOST = 64
"""Elements of a tensor that is computed with while importing."""

OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
RELATIONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


@dataclass(frozen=True)
class Condition:
    """Relations between sizes that all hold."""

    parts: tuple[tuple[Dim, str, Dim], ...]

    def negated(self) -> Condition | None:
        if len(self.parts) != 1:
            return None
        ((a, relation, b),) = self.parts
        return Condition(((a, OPPOSITE[relation], b),))


class Unknown(Exception):
    """An element is not known while importing."""


Fold = Callable[["Node", Sequence[np.ndarray]], Any]
FOLDS: dict[str, Fold] = {}


def fold(*names: str) -> Callable[[Fold], Fold]:
    def register(rule: Fold) -> Fold:
        for name in names:
            FOLDS[f"stablehlo.{name}"] = rule
        return rule

    return register


def folded(node: Node, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The elements of an op's result, if they are known. operands: those of its operands."""
    rule = FOLDS.get(node.op.name)
    if rule is None or len(node.op.results) != 1:
        return None
    type_ = node.op.type.results[0]
    if not isinstance(type_, Ranked) or not (type_.element == "bool" or type_.element in INTEGERS):
        return None
    if node.op.name != "stablehlo.get_dimension_size" and any(o is None for o in operands):
        return None
    reads = set(node.reads)
    try:
        found = np.asarray(rule(node, [o for o in operands if o is not None]), object)
    except (Unknown, ZeroDivisionError):
        node.reads.clear()
        node.reads.update(reads)
        return None
    if found.size > MOST or (type_.shape != found.shape and None not in type_.shape):
        return None
    return _elementwise(lambda e: _wrapped(e, str(type_.element)), found)


def mentions(elements: np.ndarray, names: AbstractSet[str]) -> bool:
    """True if an element depends on one of these symbols."""
    if not names:
        return False
    for element in elements.reshape(-1):
        parts = [d for a, _, b in element.parts for d in (a, b)] if isinstance(element, Condition) else [element]
        if any(isinstance(d, Expr) and not symbols(d).isdisjoint(names) for d in parts):
            return True
    return False


def materialise(elements: np.ndarray, dtype: str) -> ir.Value | None:
    """The tensor of known elements, at the insertion point; None if a Condition is among them."""
    flat = list(elements.reshape(-1))
    if any(isinstance(e, Condition) for e in flat):
        return None
    if not any(isinstance(e, Expr) for e in flat):
        if not elements.ndim:
            return number(flat[0], dtype)
        if dtype == "bool":
            return ops.constant(values=tuple(float(e) for e in flat), shape=elements.shape, dtype=dtype)
        bits = tuple(signed(int(e)) for e in flat)
        return ops.constant(values=(), bits=bits, shape=elements.shape, dtype=dtype)
    value = ops.dim_values(dims=tuple(flat), scalar=not elements.ndim)
    return convert(reshape(value, elements.shape), dtype)


def of_elements(elements: Elements) -> np.ndarray | None:
    """The elements of a constant, if they are few integers or bools."""
    element = elements.type.element
    if not (element == "bool" or element in INTEGERS):
        return None
    count = 1
    for size in elements.type.shape:
        count *= size or 0
    if count > MOST:
        return None
    array = elements.full()
    return _elementwise(lambda e: e.item() if hasattr(e, "item") else e, array.astype(object))


def _elementwise(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    result = np.empty(shape, object)
    spread = [np.broadcast_to(a, shape) for a in arrays]
    for index in np.ndindex(shape):
        result[index] = function(*(a[index] for a in spread))
    return result


def _wrapped(element: Any, dtype: str) -> Any:
    if isinstance(element, (Expr, Condition)):
        return element
    if dtype == "bool":
        return bool(element)
    element, bits = int(element), DTYPES[dtype].bits
    element &= (1 << bits) - 1
    return element - (1 << bits) if DTYPES[dtype].kind == "int" and element >> (bits - 1) else element


# ---- rules -----------------------------------------------------------------------------------------------------------
def _pair(function: Callable[[Any, Any], Any]) -> Fold:
    def rule(node: Node, xs: Sequence[np.ndarray]) -> Any:
        return _elementwise(lambda a, b: function(_sizes(a), _sizes(b)), *xs)

    return rule


def _sizes(element: Any) -> Any:
    if isinstance(element, Condition):
        raise Unknown
    return element


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _divide(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return _truncated(a, b)
    if isinstance(b, int) and b > 0 and non_negative(a):
        return floordiv(a, b)
    raise Unknown


def _remainder(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a - b * _truncated(a, b)
    if isinstance(b, int) and b > 0 and non_negative(a):
        return mod(a, b)
    raise Unknown


def _sign(a: Dim) -> int:
    if isinstance(a, int):
        return (a > 0) - (a < 0)
    for relation, sign in ((">", 1), ("<", -1), ("==", 0)):
        if decide(a, relation, 0) is True:
            return sign
    raise Unknown


def _absolute(a: Dim) -> Dim:
    return abs(a) if isinstance(a, int) else dim_max(a, a * -1)


def _shift(left: bool) -> Callable[[Any, Any], Any]:
    def shift(a: Any, b: Any) -> Any:
        if not isinstance(a, int) or not isinstance(b, int) or not 0 <= b < 64 or a < 0:
            raise Unknown
        return a << b if left else a >> b

    return shift


for _name, _function in {
    "add": lambda a, b: a | b if isinstance(a, bool) else a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a & b if isinstance(a, bool) else a * b,
    "maximum": lambda a, b: dim_max(a, b),
    "minimum": lambda a, b: dim_min(a, b),
    "divide": _divide,
    "remainder": _remainder,
    "shift_left": _shift(True),
    "shift_right_logical": _shift(False),
}.items():
    fold(_name)(_pair(_function))


def _logic(one: bool) -> Callable[[Any, Any], Any]:
    """`and` (one = True) and `or`, also of conditions."""

    def combine(a: Any, b: Any) -> Any:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, bool):
                return y if x is one else x
        if isinstance(a, Condition) and isinstance(b, Condition) and one:
            return Condition(a.parts + b.parts)
        if isinstance(a, int) and isinstance(b, int):
            return a & b if one else a | b
        raise Unknown

    return combine


@fold("and", "or")
def _and_or(node: Node, xs: Sequence[np.ndarray]) -> Any:
    return _elementwise(_logic(node.op.name == "stablehlo.and"), *xs)


@fold("not")
def _not(node: Node, xs: Sequence[np.ndarray]) -> Any:
    def negated(a: Any) -> Any:
        other = a.negated() if isinstance(a, Condition) else not a if isinstance(a, bool) else None
        if other is None:
            if isinstance(a, int):
                return ~a
            raise Unknown
        return other

    return _elementwise(negated, *xs)


@fold("negate", "sign", "abs")
def _unary(node: Node, xs: Sequence[np.ndarray]) -> Any:
    rules: dict[str, Callable[[Any], Any]] = {"negate": lambda a: a * -1, "sign": _sign, "abs": _absolute}
    function = rules[node.op.name.removeprefix("stablehlo.")]
    return _elementwise(lambda a: function(_sizes(a)), *xs)


@fold("compare")
def _compare(node: Node, xs: Sequence[np.ndarray]) -> Any:
    relation = RELATIONS[node.word("comparison_direction")]
    node.word("compare_type", "")

    def compared(a: Any, b: Any) -> Any:
        a, b = _sizes(a), _sizes(b)
        known = decide(int(a) if isinstance(a, bool) else a, relation, int(b) if isinstance(b, bool) else b)
        return Condition(((a, relation, b),)) if known is None else known

    return _elementwise(compared, *xs)


@fold("select")
def _select(node: Node, xs: Sequence[np.ndarray]) -> Any:
    def chosen(condition: Any, a: Any, b: Any) -> Any:
        if not isinstance(condition, bool):
            raise Unknown
        return a if condition else b

    return _elementwise(chosen, *xs)


@fold("clamp")
def _clamp(node: Node, xs: Sequence[np.ndarray]) -> Any:
    return _elementwise(lambda low, x, high: dim_min(dim_max(_sizes(x), _sizes(low)), _sizes(high)), *xs)


@fold("convert")
def _convert(node: Node, xs: Sequence[np.ndarray]) -> Any:
    target = node.op.type.results[0].element

    def converted(a: Any) -> Any:
        if isinstance(a, (Condition, Expr)) and (target == "bool") != isinstance(a, Condition):
            raise Unknown
        return (a != 0) if target == "bool" and isinstance(a, int) else a

    return _elementwise(converted, *xs)


@fold("reshape")
def _reshape(node: Node, xs: Sequence[np.ndarray]) -> Any:
    return xs[0].reshape(_static(node))


@fold("broadcast_in_dim")
def _broadcast(node: Node, xs: Sequence[np.ndarray]) -> Any:
    shape, axes = _static(node), node.ints("broadcast_dimensions")
    between = [1] * len(shape)
    for axis, size in zip(axes, xs[0].shape, strict=True):
        between[axis] = size
    if list(axes) != sorted(axes) or int(np.prod(shape)) > MOST:
        raise Unknown
    return np.broadcast_to(xs[0].reshape(between), shape)


@fold("concatenate")
def _concatenate(node: Node, xs: Sequence[np.ndarray]) -> Any:
    return np.concatenate(list(xs), axis=node.integer("dimension"))


@fold("slice")
def _slice(node: Node, xs: Sequence[np.ndarray]) -> Any:
    starts, limits, steps = (node.ints(k) for k in ("start_indices", "limit_indices", "strides"))
    return xs[0][tuple(slice(*edge) for edge in zip(starts, limits, steps, strict=True))]


@fold("get_dimension_size")
def _size(node: Node, xs: Sequence[np.ndarray]) -> Any:
    size = np.empty((), object)
    size[()] = node.shape(0)[node.integer("dimension")]
    return size


def _static(node: Node) -> tuple[int, ...]:
    shape = node.op.type.results[0].shape
    if None in shape:
        raise Unknown
    return tuple(size or 0 for size in shape)


__all__ = ["FOLDS", "MOST", "Condition", "Unknown", "fold", "folded", "materialise", "of_elements"]
