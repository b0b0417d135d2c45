"""Regions of scalars: what they compute, found from their ops. Enter at `combination`, `extreme`, `comparator`.

If a region only compares its arguments and selects among them, its results for all orders of the arguments determine it. It is
evaluated on a grid of values with every such order (`evaluate`), and compared with burn's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.importers.lax.sort import Key
from burn.importers.stablehlo.syntax.module import Block, Elements, Operation, Ranked

if TYPE_CHECKING:
    from burn.importers.stablehlo.node import Node

NAMED = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}
"""Ops of two operands, and burn's names of the reductions with them."""


def combination(node: Node, count: int) -> list[str] | None:
    """For a region of (a_1 .. a_n, b_1 .. b_n) -> n values, the name of the reduction of each pair: "add" .. "xor", or "none" for
    b itself. None if a value is any other function."""
    block = node.block()
    own = _of_call(node, block)
    arguments = [name for name, _, _ in own.arguments]
    if len(arguments) != 2 * count or not own.ops:
        return None
    made = {op.results[0]: op for op in own.ops[:-1] if len(op.results) == 1}
    if len(made) != len(own.ops) - 1:
        return None
    found = []
    for index, result in enumerate(own.ops[-1].operands):
        pair = {arguments[index], arguments[count + index]}
        op = made.get(result)
        if result == arguments[count + index]:
            found.append("none")
        elif op is not None and op.name in NAMED and set(op.operands) == pair and len(op.operands) == 2:
            found.append(NAMED[op.name])
        else:
            return None
    return found if len(found) == count and len(made) == sum(kind != "none" for kind in found) else None


def _of_call(node: Node, block: Block) -> Block:
    """The body of a function, if the region is one call of it."""
    rest = block.ops[:-1]
    if len(rest) != 1 or rest[0].name != "func.call" or block.ops[-1].operands != rest[0].results:
        return block
    function = node.importer.module.functions.get(str(rest[0].attributes.get("callee", "")).removeprefix("@"))
    if function is None or not function.regions or rest[0].operands != [name for name, _, _ in block.arguments]:
        return block
    return function.regions[0][0]


# ---- regions that compare ----------------------------------------------------------------------------------------------
class NotComparing(Exception):
    """The region does something else than compare its arguments and choose."""


def extreme(node: Node) -> tuple[str, bool] | None:
    """("max" or "min", whether it is the first) for a region of (value, index, value, index) that keeps the extreme and its
    index, as jax's argmax and argmin. NaN counts as the extreme. None for any other region."""
    block = _of_call(node, node.block())
    types = [type_ for _, type_, _ in block.arguments]
    if len(types) != 4 or types[0] != types[2] or types[1] != types[3]:
        return None
    grids = [_values(types[0]), _indices(types[1]), _values(types[2]), _indices(types[3])]
    if any(g is None for g in grids):
        return None
    a, i, b, j = columns = _grid([g for g in grids if g is not None])
    try:
        value, index = evaluate(node, block, columns)
    except (NotComparing, ValueError):
        return None
    for kind in ("max", "min"):
        better = a > b if kind == "max" else a < b
        nan = np.isnan(a.astype("f8")) if a.dtype.kind in "fV" else np.zeros(a.shape, bool)
        both = nan & np.isnan(b.astype("f8")) if a.dtype.kind in "fV" else nan
        first = better | nan
        for lowest in (True, False):
            tied = ((a == b) | both) & ((i < j) if lowest else (i > j))
            keeps = (first & ~both) | tied
            wanted = np.where(keeps, a, b), np.where(keeps, i, j)
            if _same(value, wanted[0]) and _same(index, wanted[1]):
                return kind, lowest
    return None


def comparator(node: Node, count: int) -> list[Key] | None:
    """The keys by which a sort's comparator of `count` operands orders rows; None if it is any other function."""
    block = _of_call(node, node.block())
    types = [type_ for _, type_, _ in block.arguments]
    used = _used(block)
    numbers = [k for k in range(count) if block.arguments[2 * k][0] in used or block.arguments[2 * k + 1][0] in used]
    if len(types) != 2 * count or not numbers or len(numbers) > 3:
        return None
    grids: list[np.ndarray] = []
    for k in range(count):
        values = _values(types[2 * k], few=len(numbers) > 2)
        if values is None:
            return None
        grids += [values, values] if k in numbers else [values[:1], values[:1]]
    columns = _grid(grids)
    try:
        (found,) = evaluate(node, block, columns)
    except (NotComparing, ValueError):
        return None
    for keys in _candidates(types, numbers):
        if _same(found, _before(keys, columns)):
            return keys
    return None


def _used(block: Block) -> set[str]:
    used = {name for op in block.ops for name in op.operands}
    for op in block.ops:
        used |= {name for inner in op.inside() for name in inner.operands}
    return used


def _candidates(types: Sequence[Any], numbers: Sequence[int]) -> Iterator[list[Key]]:
    """Orders of keys, in which a key that comes earlier counts more; the operands' own order first."""
    orders = [tuple(numbers), tuple(reversed(numbers))]
    for order in dict.fromkeys(orders):
        options = []
        for k in order:
            floats = DTYPES[types[2 * k].element].kind in ("float", "small")
            options.append(
                [Key(k, down, total) for down in (False, True) for total in ((False, True) if floats else (False,))]
            )
        for keys in product(*options):
            yield list(keys)


def _before(keys: Sequence[Key], columns: Sequence[np.ndarray]) -> np.ndarray:
    """True where the row of the even columns comes before that of the odd ones."""
    result = np.zeros(columns[0].shape, bool)
    for key in reversed(keys):
        a, b = (_rank(columns[2 * key.operand + side], key.total) for side in (0, 1))
        a, b = (b, a) if key.descending else (a, b)
        result = (a < b) | ((a == b) & result)
    return result


def _rank(x: np.ndarray, total: bool) -> np.ndarray:
    """Numbers in the order of a key: integers for floats."""
    if x.dtype.kind not in "fV":
        return x
    wide = x.astype("f8")
    if not total:
        wide = np.where(wide == 0, 0.0, wide)
        wide = np.where(np.isnan(wide), np.nan, wide)
    bits = np.ascontiguousarray(wide).view("i8")
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


_FLOATS = (-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan, -np.nan)
_FEW = (-np.inf, -0.0, 0.0, 1.0, np.nan, -np.nan)


def _values(type_: Any, few: bool = False) -> np.ndarray | None:
    """Values of an element type with every order and every special case of floats. Numbers are such that each type has them."""
    if (
        not isinstance(type_, Ranked)
        or type_.shape
        or not isinstance(type_.element, str)
        or type_.element not in DTYPES
    ):
        return None
    kind, dtype = DTYPES[type_.element].kind, type_.element
    if kind == "float":
        signs = np.array(_FEW if few else _FLOATS, "f8")
        return signs.astype(numpy_dtype(dtype))
    if kind == "bool":
        return np.array([False, True])
    if kind in ("int", "uint"):
        low = -2 if kind == "int" else 0
        return np.arange(low, 3 if kind == "int" else 4).astype(numpy_dtype(dtype))
    return None


def _indices(type_: Any) -> np.ndarray | None:
    values = _values(type_)
    return values if values is not None and values.dtype.kind in "iu" else None


def _grid(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    grids = np.meshgrid(*(np.arange(len(v)) for v in values), indexing="ij")
    return [v[g.reshape(-1)] for v, g in zip(values, grids, strict=True)]


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal but for signs of zeros and NaN."""
    if a.dtype.kind in "fV":
        return bool(np.array_equal(a.astype("f8"), b.astype("f8"), equal_nan=True))
    return bool(np.array_equal(a, b))


def evaluate(node: Node, block: Block, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a region of comparisons and choices. Constants are zeros and NaN. Raises NotComparing for any other op."""
    known: dict[str, np.ndarray] = {name: v for (name, _, _), v in zip(block.arguments, arguments, strict=True)}
    for op in block.ops:
        if op.name in ("stablehlo.return", "func.return"):
            return [known[name] for name in op.operands]
        if any(name not in known for name in op.operands) or len(op.results) != 1:
            raise NotComparing  # a value from outside
        known[op.results[0]] = np.broadcast_to(_step(op, [known[name] for name in op.operands]), arguments[0].shape)
    raise NotComparing


def _total(x: np.ndarray) -> np.ndarray:
    return _rank(x, True)


_COMPARE: dict[str, Callable[..., np.ndarray]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _step(op: Operation, xs: Sequence[np.ndarray]) -> np.ndarray:
    name = op.name.removeprefix("stablehlo.")
    if name == "compare":
        kind = getattr(op.attributes.get("compare_type"), "word", "")
        xs = [_total(x) for x in xs] if kind == "TOTALORDER" else xs
        xs = [x.astype("f8") if x.dtype.kind == "V" else x for x in xs]
        return _COMPARE[op.attributes["comparison_direction"].word](*xs)
    if name == "select":
        return np.where(xs[0], xs[1], xs[2])
    if name in ("and", "or", "not", "xor") and all(x.dtype == bool for x in xs):
        return {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "xor": np.logical_xor}[name](*xs)
    if name == "constant":
        value = op.attributes.get("value")
        if isinstance(value, Elements) and not value.type.shape:
            element = value.array.reshape(-1)[0]
            if element == 0 or element != element or value.type.element == "bool":
                return np.asarray(element)
    raise NotComparing
