"""What is known of small tensors while a model is imported: the shape arithmetic of ONNX graphs, worked out.

Exporters compute sizes with ordinary nodes: Shape, Gather, Mul, Concat, Reshape. `Content` holds the elements of such a small
tensor as numbers and symbolic sizes, and `RULES` says how each operator passes them on. A node whose outputs are known this
way needs no code: its value is written down (`dim_values`, or a constant). Enter at `evaluate`.

A content is an object array, so that moving elements is numpy's own reshape, take, concatenate. An element is an int or a
symbolic size; for floats also a float, or a `Ratio` of sizes, as in `Floor(Div(Cast(height), Cast(stride)))`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect.dims import (
    Dim,
    Expr,
    ceildiv,
    dim_max,
    dim_min,
    exact_div,
    floordiv,
    mod,
    non_negative,
    product,
)
from burn.dialect.types import DTYPES, INTEGERS, numpy_dtype, type_of

if TYPE_CHECKING:
    from burn.importers.onnx.node import Node

MAX_ELEMENTS = 64
"""Larger tensors are data."""

KINDS = ("int", "uint", "bool", "float")  # the element types that contents are kept for


@dataclass(frozen=True)
class Ratio:
    """The quotient of two sizes, in a float tensor."""

    top: Dim
    bottom: Dim


@dataclass(frozen=True, eq=False)
class Content:
    """The elements of a small tensor. `array` has dtype object: ints, bools, floats, symbolic sizes and ratios."""

    dtype: str
    array: np.ndarray

    @staticmethod
    def of(dtype: str, elements: Any, shape: tuple[int, ...] | None = None) -> Content:
        """From a list of elements (rank 1), or one element (rank 0)."""
        flat = list(elements) if isinstance(elements, (list, tuple)) else [elements]
        array = np.empty(len(flat), object)
        array[:] = flat
        if shape is None:
            shape = (len(flat),) if isinstance(elements, (list, tuple)) else ()
        return Content(dtype, array.reshape(shape))

    @staticmethod
    def of_numbers(dtype: str, array: np.ndarray) -> Content:
        kind = DTYPES[dtype].kind
        convert: Callable[[Any], Any] = {"float": float, "bool": bool}.get(kind, int)
        return Content.of(dtype, [convert(v) for v in array.reshape(-1)], array.shape)

    @property
    def is_numbers(self) -> bool:
        return all(isinstance(e, (int, float)) for e in self.array.reshape(-1))

    def numbers(self) -> np.ndarray | None:
        """As an array of the element type, when no element is symbolic."""
        return self.array.astype(numpy_dtype(self.dtype)) if self.is_numbers else None

    def with_array(self, array: Any) -> Content:
        result = np.empty(np.shape(array), object)
        result[...] = array
        return Content(self.dtype, result)


def wanted(dtype: str, size: int) -> bool:
    """Whether contents are kept for a tensor of so many elements."""
    return size <= MAX_ELEMENTS and DTYPES[dtype].kind in KINDS and DTYPES[dtype].bits != 2 and DTYPES[dtype].bits != 4


def evaluate(node: Node) -> list[Content] | None:
    """The contents of a node's outputs where its operands' contents decide them, else None."""
    rule = RULES.get(node.op) if node.domain == "" else None
    if rule is None:
        return None
    try:
        result = rule(node)
    except (Unknown, ZeroDivisionError):
        return None
    results = result if isinstance(result, list) else [result]
    return results if all(r.array.size <= MAX_ELEMENTS for r in results) else None


class Unknown(Exception):
    """An operand's content is not known, or the operation leaves what contents can say."""


RULES: dict[str, Callable[[Node], Content | list[Content]]] = {}


def _rule(*names: str) -> Callable[[Callable[[Node], Any]], Callable[[Node], Any]]:
    def register(rule: Callable[[Node], Any]) -> Callable[[Node], Any]:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _known(node: Node, index: int) -> Content:
    content = node.content(index)
    if content is None:
        raise Unknown
    return content


def _ints(node: Node, index: int) -> list[int]:
    array = node.constant(index)
    if array is None:
        raise Unknown
    return [int(v) for v in array.reshape(-1)]


def _axes(node: Node, index: int, since: int) -> list[int] | None:
    """Axes, an attribute before opset `since` and an operand after it."""
    if node.opset < since:
        found = node.ints("axes", None)
        return None if found is None else list(found)
    return _ints(node, index) if node.has_input(index) else None


# ---- where contents begin ------------------------------------------------------------------------------------------------


@_rule("Shape")
def _shape(node: Node) -> Content:
    return Content.of("int64", list(node.type(0).shape[slice_of_shape(node)]))


def slice_of_shape(node: Node) -> slice:
    """Shape's `start` and `end`, clamped as the standard says."""
    rank = node.type(0).rank
    start, end = node.int("start", 0), node.int("end", rank)

    def clamp(bound: int) -> int:
        return min(max(bound + rank if bound < 0 else bound, 0), rank)

    return slice(clamp(start), clamp(end))


@_rule("Size")
def _size(node: Node) -> Content:
    return Content.of("int64", product(node.type(0).shape))


@_rule("ConstantOfShape")
def _constant_of_shape(node: Node) -> Content:
    shape = _static(node.dims(0))
    value = node.tensor("value", None)
    dtype = "float32" if value is None else value.dtype
    if not wanted(dtype, math.prod(shape)):
        raise Unknown
    element = 0.0 if value is None else Content.of_numbers(dtype, value.array()).array.reshape(-1)[0]
    return Content(dtype, np.full(shape, element, object))


@_rule("Range")
def _range(node: Node) -> Content:
    start, limit, delta = (_known(node, i) for i in range(3))
    bounds = [c.array.reshape(-1)[0] for c in (start, limit, delta)]
    if start.dtype not in INTEGERS or not all(type(b) is int for b in bounds) or bounds[2] == 0:
        raise Unknown
    values = range(*bounds)
    if len(values) > MAX_ELEMENTS:
        raise Unknown
    return Content.of(start.dtype, list(values))


def _static(dims: Sequence[Dim] | None) -> tuple[int, ...]:
    if dims is None or not all(isinstance(d, int) for d in dims):
        raise Unknown
    return tuple(d for d in dims if isinstance(d, int))


# ---- moving elements -----------------------------------------------------------------------------------------------------


@_rule("Identity")
def _identity(node: Node) -> Content:
    return _known(node, 0)


@_rule("Gather")
def _gather(node: Node) -> Content:
    content = _known(node, 0)
    axis = node.axis(node.int("axis", 0), content.array.ndim)
    indices = node.constant(1)
    if indices is None or indices.size > MAX_ELEMENTS:
        raise Unknown
    size = content.array.shape[axis]
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        node.fail(f"an index lies outside of axis {axis}, which has {size} elements: {indices.reshape(-1).tolist()}")
    return content.with_array(np.take(content.array, indices.astype(np.int64), axis=axis))


@_rule("Slice")
def _slice(node: Node) -> Content:
    content = _known(node, 0)
    if node.opset < 10:
        starts, ends = node.ints("starts"), node.ints("ends")
        axes, steps = node.ints("axes", None), None
    else:
        starts, ends = _ints(node, 1), _ints(node, 2)
        axes = _ints(node, 3) if node.has_input(3) else None
        steps = _ints(node, 4) if node.has_input(4) else None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * content.array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = node.axis(axis, content.array.ndim)
        size = content.array.shape[axis]
        if step < 0 and end < -size:
            index[axis] = slice(start, None, step)
        else:
            index[axis] = slice(start, end, step)
    return content.with_array(content.array[tuple(index)])


@_rule("Concat")
def _concat(node: Node) -> Content:
    parts = [_known(node, i) for i in range(len(node.inputs))]
    axis = node.axis(node.int("axis", 1), parts[0].array.ndim)
    if len({p.dtype for p in parts}) > 1 or len({p.array.shape[:axis] + p.array.shape[axis + 1 :] for p in parts}) > 1:
        raise Unknown  # the builder says what is wrong
    return parts[0].with_array(np.concatenate([p.array for p in parts], axis=axis))


@_rule("Split")
def _split(node: Node) -> list[Content]:
    content = _known(node, 0)
    axis = node.axis(node.int("axis", 0), content.array.ndim)
    size = content.array.shape[axis]
    if node.opset < 13 and node.has("split"):
        sizes = list(node.ints("split"))
    elif node.has_input(1):
        sizes = _ints(node, 1)
    else:
        count = len(node.outputs)
        chunk = -(-size // count)
        sizes = [max(0, min(chunk, size - i * chunk)) for i in range(count)]
    if sum(sizes) != size or min(sizes) < 0:
        raise Unknown
    ends = np.cumsum(sizes)[:-1]
    return [content.with_array(part) for part in np.split(content.array, ends, axis=axis)]


@_rule("Reshape")
def _reshape(node: Node) -> Content:
    content = _known(node, 0)
    shape = list(node.ints("shape")) if node.opset < 5 else _ints(node, 1)
    if not node.int("allowzero", 0):
        shape = [content.array.shape[i] if d == 0 and i < content.array.ndim else d for i, d in enumerate(shape)]
    if shape.count(-1) > 1 or any(d < -1 for d in shape):
        raise Unknown
    rest = math.prod(d for d in shape if d != -1)
    if (content.array.size % rest if rest else content.array.size) or (-1 not in shape and rest != content.array.size):
        raise Unknown
    return content.with_array(content.array.reshape(shape))


@_rule("Flatten")
def _flatten(node: Node) -> Content:
    content = _known(node, 0)
    axis = node.int("axis", 1)
    axis = axis + content.array.ndim if axis < 0 else axis
    return content.with_array(content.array.reshape(math.prod(content.array.shape[:axis]), -1))


@_rule("Squeeze")
def _squeeze(node: Node) -> Content:
    content = _known(node, 0)
    axes = _axes(node, 1, 13)
    shape = content.array.shape
    axes = [i for i, d in enumerate(shape) if d == 1] if axes is None else list(node.axes(axes, len(shape)))
    if any(shape[a] != 1 for a in axes):
        raise Unknown
    return content.with_array(content.array.reshape([d for i, d in enumerate(shape) if i not in axes]))


@_rule("Unsqueeze")
def _unsqueeze(node: Node) -> Content:
    content = _known(node, 0)
    axes = _axes(node, 1, 13)
    if axes is None:
        raise Unknown
    rank = content.array.ndim + len(axes)
    at = node.axes(axes, rank)
    rest = iter(content.array.shape)
    return content.with_array(content.array.reshape([1 if i in at else next(rest) for i in range(rank)]))


@_rule("Transpose")
def _transpose(node: Node) -> Content:
    content = _known(node, 0)
    permutation = node.ints("perm", tuple(reversed(range(content.array.ndim))))
    if sorted(permutation) != list(range(content.array.ndim)):
        raise Unknown
    return content.with_array(content.array.transpose(permutation))


@_rule("Expand")
def _expand(node: Node) -> Content:
    content = _known(node, 0)
    try:
        shape = np.broadcast_shapes(content.array.shape, _static(node.dims(1)))
    except ValueError:
        raise Unknown from None
    if math.prod(shape) > MAX_ELEMENTS:
        raise Unknown
    return content.with_array(np.broadcast_to(content.array, shape))


@_rule("Tile")
def _tile(node: Node) -> Content:
    content, repeats = _known(node, 0), _ints(node, 1)
    if len(repeats) != content.array.ndim or content.array.size * math.prod(repeats) > MAX_ELEMENTS:
        raise Unknown
    return content.with_array(np.tile(content.array, repeats))


# ---- arithmetic ----------------------------------------------------------------------------------------------------------


@_rule("Cast")
def _cast(node: Node) -> Content:
    return convert(_known(node, 0), node.dtype("to"))


@_rule("CastLike")
def _cast_like(node: Node) -> Content:
    return convert(_known(node, 0), node.type(1).dtype)


def convert(content: Content, dtype: str) -> Content:
    """Casts known elements. Raises Unknown where a number would change in a way that only the machine's cast decides."""
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

    return Content(dtype, content.with_array([element(e) for e in content.array.reshape(-1)]).array.reshape(content.array.shape))


def _as_dim(value: Any) -> Dim:
    return value


def _rational(e: Any) -> Ratio:
    """An element of a float tensor as a quotient. Constants qualify when they are short, so that no rounding hides in them."""
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
    "Sub": (np.subtract, operator.sub, lambda a, b: _quotient(a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom)),
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


@_rule(*BINARY)
def _binary(node: Node) -> Content:
    operands = [_known(node, i) for i in range(len(node.inputs))]
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
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


def _element(numeric: Callable[[Any], Any], symbolic: Callable[[Any], Any] | None) -> Callable[[Node], Content]:
    def rule(node: Node) -> Content:
        content = _known(node, 0)
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


@_rule("Where")
def _where(node: Node) -> Content:
    condition, a, b = (_known(node, i) for i in range(3))
    if a.dtype != b.dtype or not condition.is_numbers:
        raise Unknown
    try:
        triples = np.broadcast(condition.array, a.array, b.array)
    except ValueError:
        raise Unknown from None
    return Content.of(a.dtype, [x if c else y for c, x, y in triples], triples.shape)


_REDUCE: dict[str, _Binary] = {
    "ReduceProd": operator.mul,
    "ReduceSum": operator.add,
    "ReduceMin": dim_min,
    "ReduceMax": dim_max,
}
REDUCE_AXES_SINCE = {"ReduceSum": 13}  # the others took axes as an operand from opset 18


@_rule(*_REDUCE)
def _reduce(node: Node) -> Content:
    content = _known(node, 0)
    if content.dtype not in ("int32", "int64") or not content.array.size:
        raise Unknown
    axes = _axes(node, 1, REDUCE_AXES_SINCE.get(node.op, 18))
    if not axes:
        if node.int("noop_with_empty_axes", 0):
            return content
        axes = list(range(content.array.ndim))
    at = node.axes(axes, content.array.ndim)
    result = content.array
    for axis in sorted(at, reverse=True):
        parts = [np.take(result, i, axis=axis) for i in range(result.shape[axis])]
        total = parts[0]
        for part in parts[1:]:
            total = content.with_array(np.frompyfunc(_REDUCE[node.op], 2, 1)(total, part)).array
        result = np.asarray(total, object)
    if node.int("keepdims", 1):
        result = result.reshape([1 if i in at else d for i, d in enumerate(content.array.shape)])
    return content.with_array(result)


# ---- writing a content down ----------------------------------------------------------------------------------------------


def materialise(content: Content) -> Any:
    """Builds the tensor of a content. Raises Unknown for floats beside ratios, which no op writes down."""
    from burn.dialect import ops
    from burn.dialect.compose import convert as cast
    from burn.dialect.compose import reshape, signed

    elements, shape = list(content.array.reshape(-1)), content.array.shape
    kind = DTYPES[content.dtype].kind
    if content.is_numbers:
        if kind in ("int", "uint"):
            numbers = tuple(signed(int(e)) for e in elements)
            return ops.constant(values=(), bits=numbers, shape=shape, dtype=content.dtype)
        return ops.constant(values=tuple(float(e) for e in elements), shape=shape, dtype=content.dtype)
    if any(isinstance(e, float) and not e.is_integer() for e in elements):
        raise Unknown
    elements = [int(e) if isinstance(e, float) else e for e in elements]

    def sizes(dims: list[Dim]) -> Any:
        value = ops.dim_values(dims=tuple(dims), scalar=not shape)
        return cast(reshape(value, shape) if type_of(value).shape != shape else value, content.dtype)

    tops = sizes([e.top if isinstance(e, Ratio) else e for e in elements])
    if not any(isinstance(e, Ratio) for e in elements):
        return tops
    return ops.div(tops, sizes([e.bottom if isinstance(e, Ratio) else 1 for e in elements]))


def is_size(element: Any) -> bool:
    """Whether an element may stand for a size."""
    return isinstance(element, Expr) or (isinstance(element, int) and not isinstance(element, bool))
