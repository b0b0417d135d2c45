"""How each op is written in Python: an operator, a method, an index, or `ops.<name>(...)`. Enter at `spell`.

`RULES` is the table of ops with a special notation. A rule that does not apply to a node returns None. The node is then
written as the function of its name with all of its attributes, which is always right.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from burn.dialect.custom import decoded, version
from burn.dialect.dims import Dim, Expr, decide, dim_min, product, symbol, symbols
from burn.dialect.op import REGISTRY
from burn.dialect.reduction import least_reduced
from burn.dialect.shape import slice_bounds
from burn.dialect.types import DTYPES, FLOATS, broadcast_shapes
from burn.exporters.python.graph import Node, Value
from burn.exporters.python.text import ATOM, BINARY, POWER, UNARY, Text, binary, call, literal, method, number, quoted
from burn.ops import ELEMENTS


class Scope(Protocol):
    """The interface that `spell` needs from the function being written."""

    def value(self, value: Value) -> Text:
        """A value as a tensor."""
        ...

    def operand(self, value: Value) -> Text:
        """A value in a position that accepts a bare number."""
        ...

    def heads(self, node: Node) -> str | None:
        """The attribute that holds the number of heads into which a reshape splits features."""
        ...

    def size(self, dim: Dim) -> Text:
        """A size over the variables that hold sizes."""
        ...


Rule = Callable[[Node, Scope], "Text | None"]
R = TypeVar("R", bound=Rule)


def spell(node: Node, scope: Scope) -> Text:
    rule = RULES.get(node.op)
    written = rule(node, scope) if rule is not None else None
    return written if written is not None else function(node, scope)


def function(node: Node, scope: Scope) -> Text:
    """`ops.name(operands, attributes)`."""
    if node.op == "custom":
        return _custom(node, scope)
    cls = REGISTRY[node.op]
    arguments: list[Text | str] = []
    named: dict[str, Text | str | None] = {}
    like_known = any(isinstance(v, Value) and not is_number(v) for v in node.values)
    for (key, kind), operand in zip(cls.OPERANDS, node.operands, strict=True):
        if operand is None:
            continue
        if kind == "variadic":
            texts = [scope.value(v) for v in operand]
            text = Text(f"[{', '.join(t.code for t in texts)}]", refs=sum((t.refs for t in texts), ()))
        else:
            text = scope.operand(operand) if like_known and _takes_number(node, operand) else scope.value(operand)
        if len(arguments) == [k for k, _ in cls.OPERANDS].index(key):
            arguments.append(text)
        else:
            named[key] = text
    for key, attr in cls.ATTRS.items():
        value = node.attrs[key]
        if attr.required or value != attr.default or (value == 0 and repr(value) != repr(attr.default)):  # -0.0
            named[key] = attribute(node, key, value, scope)
    return call(f"ops.{node.op}{'_' if keyword.iskeyword(node.op) else ''}", *arguments, **named)


def _takes_number(node: Node, operand: Value) -> bool:
    """True if the op accepts a bare number for this operand, in place of the constant."""
    if node.op not in ("select", "clip", "pad", *BINARY, "pow", "fmod", "atan2"):
        return False
    cls = REGISTRY[node.op]
    tensors = [
        v
        for (key, _), v in zip(cls.OPERANDS, node.operands, strict=True)
        if isinstance(v, Value) and not is_number(v) and key != "condition"
    ]
    return bool(tensors) and tensors[0].type.dtype == operand.type.dtype


def attribute(node: Node, name: str, value: Any, scope: Scope) -> str:
    """An attribute's value as a literal."""
    if isinstance(value, float):
        return number(value, _precision(node, name))
    if isinstance(value, Expr):
        return scope.size(value).code
    if isinstance(value, tuple) and any(isinstance(v, Expr) for v in value):
        inner = ", ".join(scope.size(v).code for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return literal(value)


def _precision(node: Node, name: str) -> str:
    return "float32" if name in ELEMENTS.get(node.op, ()) and node.types[0].dtype != "float64" else "float64"


def is_number(value: Value) -> bool:
    """True if a value is a constant of rank 0 (or a size as one), which can be written as a bare number."""
    node = value.node
    if value.type.shape != ():
        return False
    if node.op == "cast":
        return is_size(node.operands[0]) and DTYPES[value.type.dtype].kind != "bool"
    return is_size(value) or (
        node.op == "constant" and DTYPES[value.type.dtype].kind in ("float", "int", "uint", "bool")
    )


def is_size(value: Value) -> bool:
    return value.node.op == "dim_values" and value.node.attrs["scalar"] and value.type.dtype == "int64"


# ---- rules -------------------------------------------------------------------------------------------------------------

RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[R], R]:
    def enter(function: R) -> R:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return enter


@rule(*[op for op in BINARY if op != "matmul"])
def _operator(node: Node, scope: Scope) -> Text | None:
    left, right = node.operands
    if is_number(left) and (is_number(right) or node.op in ("lt", "le", "gt", "ge")):
        return None  # Python would turn the comparison round
    if is_number(left) and left.node.op != "constant":  # a size on the left would take the operator for its own
        if node.op not in ("add", "mul"):
            return None
        left, right = right, left
    if node.op == "add" and (less := _negative_number(right)) is not None:
        return binary("sub", scope.value(left) if not is_number(left) else scope.operand(left), Text(less))
    if node.op == "mul" and (divisor := _divisor(right)) is not None:
        return binary("div", scope.value(left), Text(divisor))
    if node.op == "div" and DTYPES[left.type.dtype].kind not in ("float", "complex"):
        return None
    return binary(node.op, *_beside(left, right, scope))


def _negative_number(value: Value) -> str | None:
    """1 for the number -1: what is added is subtracted."""
    found = value.array
    signed = DTYPES[value.type.dtype].kind in ("int", "float")
    if found is None or value.type.shape != () or not signed or not found < 0 or np.isinf(found):
        return None
    if found.dtype.kind == "i" and found == np.iinfo(found.dtype).min:
        return None  # its negative is no number of the type
    return number(-found.astype(object), value.type.dtype)


def _divisor(value: Value) -> str | None:
    """16.0 for the number 0.0625, which is what simplification makes of a division."""
    number_ = value.array
    if number_ is None or value.type.shape != () or value.type.dtype not in FLOATS or not 0 < number_ < 0.25:
        return None
    inverse = 1 / float(number_)
    return number(inverse, value.type.dtype) if inverse == int(inverse) and int(inverse).bit_count() == 1 else None


def _beside(left: Value, right: Value, scope: Scope) -> tuple[Text, Text]:
    """Two operands; one of them may be a bare number."""
    return (
        scope.value(left) if not is_number(left) else scope.operand(left),
        scope.value(right) if not is_number(right) else scope.operand(right),
    )


@rule("custom")
def _custom(node: Node, scope: Scope) -> Text:
    """A user's op by its name, which the module that defines it has entered."""
    attributes = {name: literal(value) for name, value in decoded(node.attrs["settings"]).items()}
    found = f"burn.custom.find({quoted(node.attrs['called'])})"
    operands = version(node.attrs["called"], node.attrs["key"]).complete(node.operands[0])
    return call(found, *("None" if v is None else scope.value(v) for v in operands), **attributes)


@rule("pow")
def _power(node: Node, scope: Scope) -> Text | None:
    left, right = node.operands
    if is_number(left):
        return None
    exponent = scope.operand(right) if is_number(right) else scope.value(right)
    base = scope.value(left)
    return Text(f"{base.within(ATOM)} ** {exponent.within(ATOM)}", POWER, base.refs + exponent.refs)


@rule("iota")
def _counted(node: Node, scope: Scope) -> Text | None:
    shape, dtype = node.attrs["shape"], node.types[0].dtype
    if len(shape) != 1 or DTYPES[dtype].kind not in ("int", "uint"):
        return None
    return call("burn.arange", scope.size(shape[0]), dtype=None if dtype == "int64" else quoted(dtype))


@rule("select")
def _where(node: Node, scope: Scope) -> Text | None:
    condition, first, second = node.operands
    plain = is_number(first) and is_number(second)
    if plain and (node.types[0].dtype != "float32" or any(v.node.op != "constant" for v in (first, second))):
        return None
    return call("burn.where", scope.value(condition), *_beside(first, second, scope))


@rule("attention")
def _attention(node: Node, scope: Scope) -> Text | None:
    """PyTorch's function, if it has all the options."""
    query, key, value, mask, lengths, drawn = node.operands
    attrs, features = node.attrs, query.type.shape[3]
    if lengths is not None or drawn is not None or any(attrs[k] != v for k, v in PLAIN_ATTENTION.items()):
        return None
    usual = isinstance(features, int) and features > 0 and attrs["scale"] == 1 / math.sqrt(features)
    operands = [query, key, value] if mask is None else [query, key, value, mask]
    return call(
        "burn.scaled_dot_product_attention",
        *map(scope.value, operands),
        is_causal="True" if attrs["causal"] else None,
        scale=None if usual else number(attrs["scale"], "float64"),
    )


PLAIN_ATTENTION = {"offset": 0, "left": -1, "right": -1, "softcap": 0.0, "precision": None}
"""Options of attention that PyTorch's function does not have."""


@rule("random_key")
def _next_key(node: Node, scope: Scope) -> Text | None:
    """A key of the run's random state; that of a seed is computed."""
    return None if node.operands else Text("burn.random.next_key()")


@rule("neg")
def _negative(node: Node, scope: Scope) -> Text | None:
    x = scope.value(node.operands[0])
    return Text(f"-{x.within(UNARY)}", UNARY, x.refs)


@rule("not")
def _inverted(node: Node, scope: Scope) -> Text | None:
    x = scope.value(node.operands[0])
    return Text(f"~{x.within(UNARY)}", UNARY, x.refs)


@rule("reshape")
def _reshape(node: Node, scope: Scope) -> Text:
    x = scope.value(node.operands[0])
    name, axis = reshape_form(node)
    if name != "reshape":
        return method(x, name, *([str(axis)] if name == "unsqueeze" or axis else []))
    sizes = [scope.size(d).code for d in node.attrs["shape"]]
    heads = scope.heads(node)
    if heads is not None:
        sizes[2:] = [f"self.{heads}", "-1"]
    return method(x, "reshape", *sizes)


def reshape_form(node: Node) -> tuple[str, int]:
    """The method that says a reshape best: a new axis of size 1, the last axes as one, or the shape in full."""
    have, shape = node.operands[0].type.shape, node.attrs["shape"]
    if len(shape) == len(have) + 1:
        for axis in range(len(shape)):
            if (*have[:axis], 1, *have[axis:]) == shape:
                return "unsqueeze", axis
    start = len(shape) - 1
    if 0 <= start < len(have) - 1 and (*have[:start], product(have[start:])) == shape:
        return "flatten", start
    return "reshape", 0


@rule("transpose")
def _transpose(node: Node, scope: Scope) -> Text:
    x, order = scope.value(node.operands[0]), node.attrs["permutation"]
    moved = [i for i, p in enumerate(order) if i != p]
    if len(order) == 2:
        return Text(f"{x.within(ATOM)}.T", refs=x.refs)
    if len(moved) == 2:
        return method(x, "transpose", str(moved[0]), str(moved[1]))
    return method(x, "permute", *map(str, order))


@rule("broadcast_to")
def _broadcast(node: Node, scope: Scope) -> Text:
    return method(scope.value(node.operands[0]), "broadcast_to", *(scope.size(d).code for d in node.attrs["shape"]))


@rule("cast")
def _cast(node: Node, scope: Scope) -> Text | None:
    if not node.attrs["saturate"]:
        return None
    return method(scope.value(node.operands[0]), "astype", quoted(node.attrs["dtype"]))


@rule("reduce")
def _reduce(node: Node, scope: Scope) -> Text | None:
    kind, dtype = node.attrs["kind"], node.operands[0].type.dtype
    if kind in ("max", "min") and not _has_some(node, node.attrs["axes"]):
        return None
    if kind in ("sum", "prod") and DTYPES[dtype].kind in ("int", "uint") and DTYPES[dtype].bits < 64:
        return None  # the methods widen integers
    return _over_axes(node, scope, node.attrs["kind"], node.operands[0])


def _has_some(node: Node, axes: Sequence[int]) -> bool:
    """True if it is known that an extreme is of some elements; the methods check it where it is not."""
    reduced, least = least_reduced(node.operands[0].type.shape, axes)
    return decide(reduced, ">=", least) is True


def _over_axes(node: Node, scope: Scope, name: str, x: Value) -> Text:
    axes = tuple(a % x.type.rank for a in node.attrs["axes"]) if x.type.rank else ()
    keep = "True" if node.attrs["keepdims"] else None
    arguments = [] if axes == tuple(range(x.type.rank)) else [str(axes[0]) if len(axes) == 1 else literal(axes)]
    return method(scope.value(x), name, *arguments, keepdims=keep)


@rule("mean")
def _mean(node: Node, scope: Scope) -> Text:
    """Not an op of the dialect: what layers.py makes of a sum and a division."""
    return _over_axes(node, scope, "mean", node.operands[0])


@rule("full")
def _full(node: Node, scope: Scope) -> Text | None:
    attrs, dtype = node.attrs, node.types[0].dtype
    if DTYPES[dtype].kind not in ("float", "int", "bool"):
        return None
    value = attrs["value"] if attrs["bits"] is None else attrs["bits"]
    shape = attribute(node, "shape", attrs["shape"], scope)
    if value == 0 and str(value) != "-0.0":
        kind = None if dtype == "float32" else quoted(dtype)
        return call("burn.zeros", shape, dtype=kind)
    plain = {"float": "float32", "int": "int64", "bool": "bool"}[DTYPES[dtype].kind]
    return call("burn.full", shape, number(value, dtype), dtype=None if dtype == plain else quoted(dtype))


@rule("pick")
def _pick(node: Node, scope: Scope) -> Text:
    """Not an op of the dialect: what layers.py makes of a slice of one, without its axis."""
    x, axis = scope.value(node.operands[0]), node.attrs["axis"]
    return Text(f"{x.within(ATOM)}[{':, ' * axis}{node.attrs['index']}]", refs=x.refs)


@rule("chunk")
def _chunk(node: Node, scope: Scope) -> Text:
    """Not an op of the dialect: what layers.py makes of slices."""
    return method(scope.value(node.operands[0]), "chunk", str(node.attrs["chunks"]), str(node.attrs["axis"]))


@rule("gather")
def _take(node: Node, scope: Scope) -> Text | None:
    x, indices = node.operands
    if not is_number(indices) or indices.type.dtype != "int64":
        return None
    return method(scope.value(x), "take", scope.operand(indices), str(node.attrs["axis"]))


@rule("arg_reduce")
def _arg_reduce(node: Node, scope: Scope) -> Text | None:
    if node.attrs["last"] or not _has_some(node, (node.attrs["axis"],)):
        return None
    keep = "True" if node.attrs["keepdims"] else None
    name = f"arg{node.attrs['kind']}"
    return method(scope.value(node.operands[0]), name, str(node.attrs["axis"]), keepdims=keep)


@rule("dot_general")
def _dot(node: Node, scope: Scope) -> Text | None:
    left, right = node.operands
    a, b, attrs = left.type, right.type, node.attrs
    if attrs["dtype"] is not None or attrs["sums"] is not None:
        return None
    axes = tuple(attrs[k] for k in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"))
    if not b.rank or not a.rank:
        return None
    turned = b.rank > 1 and axes[3] == (b.rank - 1,)
    if b.rank <= 2:
        expected = ((), (), (a.rank - 1,), (b.rank - 1 if turned else max(b.rank - 2, 0),))
    else:
        n = a.rank - 2
        batch = tuple(range(n))
        expected = (batch, batch, (n + 1,), (n + turned,))
        if a.rank != b.rank or a.shape[:-2] != b.shape[:-2] or broadcast_shapes(a.shape[:-2]) != a.shape[:-2]:
            return None
    if axes != expected:
        return None
    if turned and (1 in b.shape[-2:] or right.node.op == "full"):
        return None  # a transpose that moves nothing is a reshape, which matmuls do not absorb
    first, second = scope.value(left), scope.value(right)
    if turned:
        second = Text(f"{second.within(ATOM)}.{'T' if b.rank == 2 else 'mT'}", refs=second.refs)
    return binary("matmul", first, second)


@rule("slice")
def _slice(node: Node, scope: Scope) -> Text | None:
    x, attrs = node.operands[0], node.attrs
    parts = []
    for dim, start, count, step in zip(x.type.shape, attrs["starts"], attrs["sizes"], attrs["steps"], strict=True):
        part = _range(dim, start, count, step, scope)
        if part is None:
            return None
        parts.append(part)
    first = next((i for i, part in enumerate(parts) if part != ":"), len(parts))
    if first == len(parts):
        return None
    if first > 1 and parts[-1] != ":":
        parts = ["...", *parts[first:]]
    while parts[-1] == ":":
        parts.pop()
    receiver = scope.value(x)
    return Text(f"{receiver.within(ATOM)}[{', '.join(parts)}]", refs=receiver.refs)


def _least(last: Dim, dim: Dim) -> list[Dim]:
    """min(dim, n) is where a slice up to n ends."""
    if not isinstance(last, Expr):
        return []
    return [symbol(name) for name in sorted(symbols(last)) if last == dim_min(dim, symbol(name))]


def _range(dim: Dim, start: Dim, count: Dim, step: int, scope: Scope) -> str | None:
    """`start:stop:step`, if that gives back the same first element and count."""
    last = start + count * step
    backwards = step < 0
    ends: list[Dim | None] = [None, *_least(last, dim), last]
    if isinstance(last, int) and last < 0 and backwards:
        ends = [None]
    for begin in (None, start):
        for end in ends:
            if slice_bounds(dim, begin, end, step) == (start, count):
                first = "" if begin is None else scope.size(begin).code
                stop = "" if end is None else scope.size(end).code
                return f"{first}:{stop}" + (f":{step}" if step != 1 else "")
    return None
