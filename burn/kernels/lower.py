"""Ops as functions of an index: `Lowering.at(value, index)` is the scalar expression of one element of a value.

`RULES` has one entry for each op whose elements can be computed independently: pointwise ops, constants, views, pad,
concat, gather. Anything else is a leaf (a buffer), or the kernel being built defines it (`define`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.dialect.dims import Dim, Expr, atoms, dim_min, exact_div, floordiv, mod, product
from burn.dialect.dropout import GROUP, Draws, calls_of_row
from burn.dialect.mlir import ir
from burn.dialect.op import Op, full_name
from burn.dialect.pointwise import Bitcast, Cast, Pointwise
from burn.dialect.query import op_of
from burn.dialect.shape import Constant
from burn.dialect.types import DTYPES, TensorType, type_of
from burn.kernels.body import (
    Apply,
    Buffer,
    Const,
    Convert,
    Fetched,
    Index,
    Kept,
    Load,
    Reinterpret,
    Scalar,
    Where,
    own_dims,
    walk,
)
from burn.kernels.bounds import within

Indices = tuple[Dim, ...]


def strides(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def linear(index: Sequence[Dim], shape: Sequence[Dim]) -> Dim:
    offset: Dim = 0
    for i, stride in zip(index, strides(shape), strict=True):
        offset = offset + i * stride
    return offset


def delinear(offset: Dim, shape: Sequence[Dim]) -> Indices:
    """The index of element `offset` in row-major order."""
    result: list[Dim] = []
    steps = strides(shape)
    for axis, (d, stride) in enumerate(zip(shape, steps, strict=True)):
        if d == 1:
            result.append(0)
            continue
        position = floordiv(offset, stride) if stride != 0 else 0
        first = all(s == 1 for s in shape[:axis])
        result.append(position if first or d == 0 else mod(position, d))
    return tuple(result)


def broadcast_index(index: Indices, shape: Sequence[Dim], target: Sequence[Dim]) -> Indices:
    """The index in an operand of `shape` for an index in the result of `target` that it broadcasts to."""
    skip = len(target) - len(shape)
    result: list[Dim] = []
    for i, d, t in zip(index[skip:], shape, target[skip:], strict=True):
        result.append(0 if d == 1 else i if d == t or isinstance(d, int) else dim_min(i, d - 1))
    return tuple(result)


class Lowering:
    """Builds the expressions of one kernel. Values without a rule, or outside `inside`, become buffers in first-use order."""

    def __init__(self, inside: Callable[[ir.Value], bool] = lambda value: True) -> None:
        self.buffers: list[Buffer] = []
        self.leaves: list[ir.Value | None] = []
        self._inside = inside
        self._ids: dict[ir.Value, int] = {}
        self._memo: dict[tuple[ir.Value, Indices], Scalar] = {}
        self._loads: dict[tuple[int, Dim], Load] = {}
        self._defined: dict[ir.Value, Callable[[Indices], Scalar]] = {}
        self._fetched = 0

    def define(self, value: ir.Value, at: Callable[[Indices], Scalar]) -> None:
        """Defines the element of `value` at an index, e.g. a reduction's result."""
        self._defined[value] = at

    def buffer(self, value: ir.Value) -> int:
        """The buffer id of a leaf."""
        if value not in self._ids:
            self._ids[value] = self.new_buffer(Buffer(type_of(value).dtype, "read"), value)
        return self._ids[value]

    def new_buffer(self, buffer: Buffer, value: ir.Value | None = None) -> int:
        self.buffers.append(buffer)
        self.leaves.append(value)
        return len(self.buffers) - 1

    def load(self, buffer: int, offset: Dim) -> Load:
        key = (buffer, offset)
        if key not in self._loads:
            self._loads[key] = Load(self.buffers[buffer].dtype, buffer, offset)
        return self._loads[key]

    def at(self, value: ir.Value, index: Indices) -> Scalar:
        key = (value, index)
        if key not in self._memo:
            self._memo[key] = self._compute(value, index)
        return self._memo[key]

    def _compute(self, value: ir.Value, index: Indices) -> Scalar:
        if value in self._defined:
            return self._defined[value](index)
        op = op_of(value)
        if op is not None and has_rule(op) and self._inside(value):
            return rule_of(op)(self, op, index)
        return self.load(self.buffer(value), linear(index, type_of(value).shape))

    def fetch(self, source: Scalar, extent: Dim, site: str) -> Dim:
        """An index read from data, checked against [-extent, extent)."""
        self._fetched += 1
        wide = source if source.dtype == "int64" else Convert("int64", source)
        return Expr.of(Fetched(f"f{self._fetched}", extent, wide, site, within(source, extent)))

    def position(self, source: Scalar, extent: Dim) -> Dim:
        """An index that a kernel of the program has computed, in range: 0 <= source < extent."""
        self._fetched += 1
        wide = source if source.dtype == "int64" else Convert("int64", source)
        return Expr.of(Fetched(f"f{self._fetched}", extent, wide, "", True))

    def fetched_from(self, value: ir.Value, index: Indices) -> Scalar:
        """`value` at an index with fetched components. These are checked even if no element is read, because all
        elements are one number or repeat along an axis."""
        result = self.at(value, index)
        shape = type_of(value).shape
        read = {atom for node in walk(result) for dim in own_dims(node) for atom in atoms(dim)}
        unread = tuple(
            (position, extent)
            for position, extent in zip(index, shape, strict=True)
            if any(isinstance(atom, Fetched) and atom not in read for atom in atoms(position))
        )
        return Where(result.dtype, unread, result, result) if unread else result


Rule = Callable[[Lowering, Op, Indices], Scalar]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def has_rule(op: Op) -> bool:
    if isinstance(op, Constant):
        return type_of(op.operation.results[0]).elements == 1
    return op.OP_NAME in RULES or isinstance(op, Pointwise)


def rule_of(op: Op) -> Rule:
    return RULES.get(op.OP_NAME, pointwise)


def result_type(op: Op) -> TensorType:
    return type_of(op.operation.results[0])


def pointwise(low: Lowering, op: Op, index: Indices) -> Scalar:
    out = result_type(op)
    args = []
    for operand in op.operation.operands:
        args.append(low.at(operand, broadcast_index(index, type_of(operand).shape, out.shape)))
    if isinstance(op, Cast):
        same = args[0].dtype == op.dtype
        return args[0] if same else Convert(op.dtype, args[0], op.saturate)
    if isinstance(op, Bitcast):
        return Reinterpret(op.dtype, args[0])
    assert isinstance(op, Pointwise)
    return Apply(out.dtype, op.FUNCTION, tuple(args))


def constant(dtype: str, value: float | int) -> Const:
    kind = DTYPES[dtype].kind
    return Const(dtype, bool(value) if kind == "bool" else int(value) if kind in ("int", "uint") else float(value))


@rule("full")
def _full(low: Lowering, op: Op, index: Indices) -> Scalar:
    return constant(op.dtype, op.bits if op.bits is not None else op.value)


@rule("constant")
def _constant(low: Lowering, op: Op, index: Indices) -> Scalar:
    return constant(op.dtype, op.bits[0] if op.bits is not None else op.values[0])


@rule("iota")
def _iota(low: Lowering, op: Op, index: Indices) -> Scalar:
    position = Index("int64", index[op.axis % len(index)])
    return position if op.dtype == "int64" else Convert(op.dtype, position)


@rule("dim_values")
def _dim_values(low: Lowering, op: Op, index: Indices) -> Scalar:
    if op.scalar:
        return Index("int64", op.dims[0])
    if isinstance(index[0], int):
        return Index("int64", op.dims[index[0]])
    result: Scalar = Index("int64", op.dims[-1])
    for k in reversed(range(len(op.dims) - 1)):
        result = Where("int64", ((index[0] - k, 1),), Index("int64", op.dims[k]), result)
    return result


@rule("random_kept")
def _random_kept(low: Lowering, op: Op, index: Indices) -> Scalar:
    """If rows are whole groups, the tensor is one row: an index without a division shows which neighbours share a call."""
    *lead, columns = result_type(op).shape
    row, column, calls = linear(index[:-1], lead), index[-1], calls_of_row(Draws.of(op.rate), columns)
    if exact_div(columns, GROUP) is not None:
        row, column, calls = 0, row * columns + column, 0
    first, second = (low.at(op.key, (word,)) for word in (0, 1))
    return Kept("bool", (first, second), row, column, calls, op.rate)


@rule("broadcast_to")
def _broadcast_to(low: Lowering, op: Op, index: Indices) -> Scalar:
    return low.at(op.x, broadcast_index(index, type_of(op.x).shape, result_type(op).shape))


@rule("reshape")
def _reshape(low: Lowering, op: Op, index: Indices) -> Scalar:
    return low.at(op.x, reshape_index(index, result_type(op).shape, type_of(op.x).shape))


def reshape_index(index: Indices, shape: Sequence[Dim], source: Sequence[Dim]) -> Indices:
    """The index in `source` of the element at `index` of `shape`, block by block of axes that split or merge."""
    result: list[Dim] = []
    for mine, theirs in reshape_blocks(shape, source):
        part = [shape[i] for i in mine]
        if [source[i] for i in theirs] == part:
            result += [index[i] for i in mine]
        else:
            result += delinear(linear([index[i] for i in mine], part), [source[i] for i in theirs])
    return tuple(result)


def reshape_blocks(shape: Sequence[Dim], source: Sequence[Dim]) -> list[tuple[list[int], list[int]]]:
    """Pairs of axis runs of both shapes with equal numbers of elements, as fine as can be proven."""
    blocks: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        mine, theirs = [], []
        a: Dim = 1
        b: Dim = 1
        while True:
            if mine or theirs:
                if a == b:
                    break
                grow_mine = i < len(shape) and (j >= len(source) or _smaller(a, b))
                if not grow_mine and j >= len(source):
                    break
            else:
                grow_mine = i < len(shape)
            if grow_mine:
                mine.append(i)
                a = a * shape[i]
                i += 1
            else:
                theirs.append(j)
                b = b * source[j]
                j += 1
        blocks.append((mine, theirs))
    return blocks


def _smaller(a: Dim, b: Dim) -> bool:
    """True if the run of size a should grow: it divides b, or is the smaller number."""
    from burn.dialect.dims import exact_div

    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return exact_div(b, a) is not None if exact_div(a, b) is None else False


@rule("transpose")
def _transpose(low: Lowering, op: Op, index: Indices) -> Scalar:
    source: list[Dim] = [0] * len(index)
    for axis, p in enumerate(op.permutation):
        source[p] = index[axis]
    return low.at(op.x, tuple(source))


@rule("slice")
def _slice(low: Lowering, op: Op, index: Indices) -> Scalar:
    return low.at(op.x, tuple(a + i * s for i, a, s in zip(index, op.starts, op.steps, strict=True)))


@rule("windows")
def _windows(low: Lowering, op: Op, index: Indices) -> Scalar:
    n = len(op.window)
    before, positions, within, behind = (
        index[a:b]
        for a, b in ((0, op.axis), (op.axis, op.axis + n), (op.axis + n, op.axis + 2 * n), (op.axis + 2 * n, None))
    )
    rows = zip(positions, within, op.strides, op.dilations, strict=True)
    return low.at(op.x, (*before, *(e * s + k * t for e, k, s, t in rows), *behind))


@rule("pad")
def _pad(low: Lowering, op: Op, index: Indices) -> Scalar:
    x = type_of(op.x)
    interior = op.interior or (0,) * x.rank
    ranges: list[tuple[Dim, Dim]] = []
    source: list[Dim] = []
    for i, d, a, b, k in zip(index, x.shape, op.low, op.high, interior, strict=True):
        position = i - a
        if k:
            ranges.append((mod(position, k + 1), 1))
            position = floordiv(position, k + 1)
        if a != 0 or b != 0:
            ranges.append((position, d))
        source.append(position)
    inside = low.at(op.x, tuple(source))
    return Where(inside.dtype, tuple(ranges), inside, low.at(op.value, ())) if ranges else inside


@rule("concat")
def _concat(low: Lowering, op: Op, index: Indices) -> Scalar:
    return joined(low, op.xs, op.axis % len(index), index, result_type(op).dtype)


def joined(low: Lowering, xs: Sequence[ir.Value], axis: int, index: Indices, dtype: str) -> Scalar:
    """The element at an index of a concat of tensors."""
    parts: list[tuple[Dim, ir.Value]] = []
    offset: Dim = 0
    for x in xs:
        if type_of(x).shape[axis] != 0:
            parts.append((offset, x))
        offset = offset + type_of(x).shape[axis]
    if not parts:
        return constant(dtype, 0)

    def part(offset: Dim, x: ir.Value) -> Scalar:
        shape = type_of(x).shape
        return low.at(x, (*index[:axis], index[axis] - offset, *index[axis + 1 :])) if shape else low.at(x, ())

    if len(parts) == 1:
        return part(*parts[0])
    result: Scalar = constant(dtype, 0)  # never taken; it guards the loads of the last operand
    for offset, x in reversed(parts):
        result = Where(result.dtype, ((index[axis] - offset, type_of(x).shape[axis]),), part(offset, x), result)
    return result


@rule("gather")
def _gather(low: Lowering, op: Op, index: Indices) -> Scalar:
    x, indices = type_of(op.x), type_of(op.indices)
    axis = op.axis % x.rank
    where = index[axis : axis + indices.rank]
    position = low.fetch(low.at(op.indices, where), x.shape[axis], full_name(op))
    return low.fetched_from(op.x, (*index[:axis], position, *index[axis + indices.rank :]))


@rule("gather_elements")
def _gather_elements(low: Lowering, op: Op, index: Indices) -> Scalar:
    x = type_of(op.x)
    axis = op.axis % x.rank
    position = low.fetch(low.at(op.indices, index), x.shape[axis], full_name(op))
    return low.fetched_from(op.x, (*index[:axis], position, *index[axis + 1 :]))


@rule("gather_nd")
def _gather_nd(low: Lowering, op: Op, index: Indices) -> Scalar:
    x, indices = type_of(op.x), type_of(op.indices)
    depth, batch = indices.shape[-1], op.batch_dims
    assert isinstance(depth, int)
    head = index[: indices.rank - 1]
    fetched = [low.fetch(low.at(op.indices, (*head, k)), x.shape[batch + k], full_name(op)) for k in range(depth)]
    return low.fetched_from(op.x, (*index[:batch], *fetched, *index[indices.rank - 1 :]))
