"""Laws for programs that become source: formulas and views as a person writes them. Enter at `straighten`.

Views of one tensor become the fewest that say the same. Transposes of leading axes move past linear layers, so that those of an
exporter that works on [length, batch, features] cancel. The rotation of queries and keys becomes `rotary_embedding`.

Compilations do not need these laws: their passes choose layouts by cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from burn.dialect import ops
from burn.dialect.compose import reshape, transpose
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import FUNCTIONS
from burn.dialect.program import Program
from burn.dialect.query import erase_dead, is_named, op_of, result_type, splat
from burn.dialect.shape import Reshape, Transpose
from burn.dialect.types import type_of
from burn.passes.algebra.law import Law, Rewriter
from burn.passes.patterns.attention import shared_heads, usual
from burn.passes.patterns.attention_masks import causal_mask

LAWS: dict[str, list[Law]] = {}
LONGEST = 8
"""Views in a row that are looked at together."""

UNARY = tuple(f.name for f in FUNCTIONS if f.arity == 1)
BINARY = tuple(f.name for f in FUNCTIONS if f.arity == 2)


def straighten(program: Program) -> None:
    """Applies the laws until none holds."""
    with context():
        while Rewriter(LAWS, program.weights).sweep(program.block):
            erase_dead(program.block)
        erase_dead(program.block)


def _law(*names: str):
    def register(function: Law) -> Law:
        for name in names:
            LAWS.setdefault(name, []).append(function)
        return function

    return register


# ---- views -------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Atom:
    """A factor of an axis that the views of a chain move as a whole."""

    size: Dim


class Chain:
    """Reshapes and transposes in a row, from `root` on: the atoms of the root's axes, and of the result's axes."""

    def __init__(self, value: ir.Value) -> None:
        views: list[Op] = []
        source = op_of(value)
        while isinstance(source, Reshape | Transpose) and len(views) < LONGEST:
            views.append(source)
            value = source.x
            source = op_of(value)
        self.root, self.views = value, views[::-1]
        self.axes: list[list[Atom]] = []
        self.groups: list[list[Atom]] = []

    def trace(self) -> bool:
        """Follows the atoms; False if a reshape cannot be expressed by factors of axes."""
        self.axes = [[] if d == 1 else [Atom(d)] for d in type_of(self.root).shape]
        self.groups = [list(axis) for axis in self.axes]
        for view in self.views:
            if isinstance(view, Transpose):
                self.groups = [self.groups[p] for p in view.permutation]
            elif not self._reshape(result_type(view).shape):
                return False
        return True

    def _reshape(self, shape: tuple[Dim, ...]) -> bool:
        rest = [atom for group in self.groups for atom in group]
        groups: list[list[Atom]] = []
        for dim in shape:
            group: list[Atom] = []
            need = dim
            while need != 1:
                if not rest:
                    return False
                atom = rest.pop(0)
                left = exact_div(need, atom.size)
                if left is None:
                    over = exact_div(atom.size, need)
                    if over is None:
                        return False
                    outer, inner = Atom(need), Atom(over)
                    axis = next(a for a in self.axes if atom in a)
                    axis[axis.index(atom) : axis.index(atom) + 1] = [outer, inner]
                    rest.insert(0, inner)
                    atom, left = outer, 1
                group.append(atom)
                need = left
            groups.append(group)
        self.groups = groups
        return not rest

    def build(self) -> ir.Value | None:
        """The result by fewer views; None if there are no fewer."""
        shape = tuple(product([a.size for a in group]) for group in self.groups)
        candidates = (self._plain, self._transposed, self._split, self._parted)
        forms = [steps for candidate in candidates if (steps := candidate(shape)) is not None]
        best = min(
            forms, key=lambda steps: (len(steps), steps[-1:] == [("reshape", shape)] and any(not a for a in self.axes))
        )
        if len(best) >= len(self.views):
            return None
        value = self.root
        for kind, argument in best:
            value = reshape(value, argument) if kind == "reshape" else transpose(value, argument)
        return value

    def _plain(self, shape: tuple[Dim, ...]) -> list | None:
        """No axis moves."""
        if [a for axis in self.axes for a in axis] != [a for group in self.groups for a in group]:
            return None
        return [] if shape == type_of(self.root).shape else [("reshape", shape)]

    def _transposed(self, shape: tuple[Dim, ...]) -> list | None:
        """The root's axes move as a whole."""
        ones = [i for i, axis in enumerate(self.axes) if not axis]
        owner = {atom: i for i, axis in enumerate(self.axes) for atom in axis}
        order: list[int] = []
        for group in self.groups:
            if not group and ones:
                order.append(ones.pop(0))
            for atom in group:
                if owner[atom] not in order:
                    order.append(owner[atom])
        order += ones
        moved = [atom for i in order for atom in self.axes[i]]
        if moved != [a for group in self.groups for a in group]:
            return None
        have = type_of(self.root).shape
        after = tuple(have[i] for i in order)
        steps = [] if order == sorted(order) else [("transpose", tuple(order))]
        return steps if after == shape else [*steps, ("reshape", shape)]

    def _split(self, shape: tuple[Dim, ...]) -> list | None:
        """The result's axes are made first, and then move."""
        position = {atom: i for i, atom in enumerate(a for axis in self.axes for a in axis)}
        for group in self.groups:
            if any(position[b] != position[a] + 1 for a, b in pairwise(group)):
                return None
        keys: list[float] = [position[g[0]] if g else -1.0 for g in self.groups]
        for i in range(len(keys) - 1, -1, -1):
            if not self.groups[i]:  # an axis of size 1 stays before the axis that follows it
                keys[i] = keys[i + 1] - 0.5 if i + 1 < len(keys) else math.inf
        order = sorted(range(len(keys)), key=lambda i: keys[i])
        return [
            ("reshape", tuple(shape[i] for i in order)),
            ("transpose", tuple(order.index(i) for i in range(len(order)))),
        ]

    def _parted(self, shape: tuple[Dim, ...]) -> list | None:
        """The atoms are made, move, and are merged."""
        atoms = [a for axis in self.axes for a in axis]
        moved = [a for group in self.groups for a in group]
        return [
            ("reshape", tuple(a.size for a in atoms)),
            ("transpose", tuple(atoms.index(a) for a in moved)),
            ("reshape", shape),
        ]


@_law("reshape", "transpose")
def fewest_views(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """A chain of reshapes and transposes is at most three of them."""
    chain = Chain(op.operation.results[0])
    return chain.build() if len(chain.views) > 1 and chain.trace() else None


@_law("slice")
def slice_before_views(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """slice(views(x)) = views(slice(x)) along an axis that is the outer factor of one of x's axes"""
    shape = type_of(op.x).shape
    axes = [i for i, (have, size) in enumerate(zip(shape, op.sizes, strict=True)) if have != size or op.steps[i] != 1]
    chain = Chain(op.x)
    if len(axes) != 1 or op.steps[axes[0]] != 1 or not chain.views or not chain.trace():
        return None
    group, start, size = chain.groups[axes[0]], op.starts[axes[0]], op.sizes[axes[0]]
    if len(group) != 1 or not isinstance(start, int) or not isinstance(size, int):
        return None
    axis = next(i for i, a in enumerate(chain.axes) if group[0] in a)
    if chain.axes[axis][0] is not group[0] or len(chain.axes[axis]) < 2:
        return None
    inner = product([a.size for a in chain.axes[axis][1:]])
    have = type_of(chain.root).shape
    starts = tuple(start * inner if i == axis else 0 for i in range(len(have)))
    sizes = tuple(size * inner if i == axis else d for i, d in enumerate(have))
    value = ops.slice(chain.root, starts=starts, sizes=sizes, steps=(1,) * len(have))
    count = shape[axes[0]]
    for view in chain.views:  # the axis is cut in every view
        if isinstance(view, Transpose):
            value = transpose(value, view.permutation)
            continue
        cut = _cut_shape(chain, view, group[0], size, count)
        if cut is None:
            return None
        value = reshape(value, cut)
    return value


def _cut_shape(chain: Chain, view: Op, atom: Atom, size: int, count: Dim) -> tuple[Dim, ...] | None:
    """The shape of one view after its operand was cut."""
    part = Chain(view.operation.results[0])
    if part.root != chain.root or not part.trace():
        return None
    shape: list[Dim] = list(result_type(view).shape)
    axis = next(i for i, a in enumerate(chain.axes) if a and a[0] is atom)
    first = part.axes[axis][0]
    holder = next((i for i, g in enumerate(part.groups) if first in g), None)
    if holder is None:
        return None
    each = exact_div(shape[holder], count)
    if each is None:
        return None
    shape[holder] = each * size
    return tuple(shape)


# ---- transposes of leading axes ------------------------------------------------------------------------------------------


def _leading(value: ir.Value) -> Op | None:
    """A transpose that leaves the last axis where it is."""
    op = is_named(value, "transpose")
    rank = type_of(value).rank
    return op if op is not None and rank > 2 and op.permutation[-1] == rank - 1 else None


@_law("dot_general")
def transpose_after_matmul(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """transpose(x) @ w = transpose(x @ w), so that the leading axes are in the order of the tensor that x is a view of"""
    rank, weight = type_of(op.lhs).rank, type_of(op.rhs)
    if op.lhs_batch or weight.rank != 2 or op.lhs_contract != (rank - 1,) or rank < 3:
        return None
    chain = Chain(op.lhs)
    if (source := op_of(chain.root)) is not None and source.OP_NAME in ("lstm", "gru", "rnn"):
        return None  # whose steps come first, whatever the model has
    if not any(isinstance(v, Transpose) for v in chain.views) or not chain.trace():
        return None
    position = {atom: i for i, atom in enumerate(a for axis in chain.axes for a in axis)}
    leading = [min((position[a] for a in group), default=-1) for group in chain.groups[:-1]]
    order = sorted(range(rank - 1), key=lambda i: leading[i])
    if order == list(range(rank - 1)) or -1 in leading:
        return None
    x = transpose(op.lhs, (*order, rank - 1))
    return transpose(type(op).build(x, op.rhs, **op.attrs), (*(order.index(i) for i in range(rank - 1)), rank - 1))


@_law("dot_general")
def features_last(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x with its features in another axis, times a matrix, is transpose(x) @ w: a linear layer on the transpose"""
    rank, weight = type_of(op.lhs).rank, op_of(op.rhs)
    if op.lhs_batch or len(op.lhs_contract) != 1 or op.lhs_contract == (rank - 1,) or type_of(op.rhs).rank != 2:
        return None
    if weight is None or weight.OP_NAME not in ("weight", "constant"):
        return None
    axis = op.lhs_contract[0]
    moved = transpose(op.lhs, (*(a for a in range(rank) if a != axis), axis))
    return type(op).build(moved, op.rhs, **{**op.attrs, "lhs_contract": (rank - 1,)})


@_law(*UNARY)
def transpose_after_function(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """f(transpose(x)) = transpose(f(x))"""
    moved = _leading(op.operation.operands[0])
    return transpose(type(op).build(moved.x, **op.attrs), moved.permutation) if moved is not None else None


@_law(*BINARY)
def transpose_after_operator(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """f(transpose(x), y) = transpose(f(x, y)), if y has one axis at most, or is transposed alike"""
    args = list(op.args)
    moved = [_leading(a) for a in args]
    first = next((m for m in moved if m is not None), None)
    if first is None or type_of(args[0]).dtype != type_of(args[1]).dtype:
        return None
    for i, (arg, own) in enumerate(zip(args, moved, strict=True)):
        if own is not None and own.permutation == first.permutation:
            args[i] = own.x
        elif own is not None or type_of(arg).rank > 1:
            return None
    if result_type(op).shape != type_of(first.operation.results[0]).shape:
        return None
    return transpose(type(op).build(*args, **op.attrs), first.permutation)


# ---- recurrent layers ----------------------------------------------------------------------------------------------------


@_law("lstm", "gru", "rnn")
def no_initial_state(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """Initial states of zeros are the default."""
    names = ("h", "c") if op.OP_NAME == "lstm" else ("h",)
    keys = [key for key, _ in type(op).OPERANDS]
    given = [(keys.index(name), op.args[keys.index(name)]) for name in names]
    if any(value is None or splat(value) != 0 for _, value in given):
        return None
    args = list(op.args)
    for index, _ in given:
        args[index] = None
    made = type(op).build(*args, **op.attrs)
    for old, new in zip(op.operation.results, made, strict=True):
        old.replace_all_uses_with(new)
    return made[0]


# ---- attention -----------------------------------------------------------------------------------------------------------


@_law("attention")
def scale_of_queries(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(view(q * c), scale) = attention(view(q), scale * c)"""
    chain = Chain(op.q)
    scaled = is_named(chain.root, "mul")
    number = splat(scaled.rhs) if scaled is not None else None
    if scaled is None or number is None or not number > 0 or type_of(scaled.lhs) != type_of(chain.root):
        return None
    scale = usual(op.scale * float(number), type_of(op.q).shape[3])
    value = scaled.lhs
    for view in chain.views:
        value = type(view).build(value, **view.attrs)
    return type(op).build(value, *op.args[1:], **{**op.attrs, "scale": scale})


@_law("attention")
def narrow_mask(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(.., select(broadcast(c), a, b)) = attention(.., select(c, a, b)) for numbers a and b: attention broadcasts"""
    choice = is_named(op.mask, "select") if op.mask is not None else None
    spread = is_named(choice.condition, "broadcast_to") if choice is not None else None
    if choice is None or spread is None or type_of(spread.x).rank != type_of(op.mask).rank:
        return None
    if any(type_of(v).rank for v in (choice.on_true, choice.on_false)):
        return None
    mask = ops.select(spread.x, choice.on_true, choice.on_false)
    return type(op).build(op.q, op.k, op.v, mask, *op.args[4:], **op.attrs)


_law("attention")(shared_heads)
_law("attention")(causal_mask)


@_law("add")
def rotary(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * cos + concat([-x2, x1]) * sin, with cos and sin that repeat their first half, rotates the features of x."""
    for straight, crossed in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        first, second = is_named(straight, "mul"), is_named(crossed, "mul")
        if first is None or second is None:
            continue
        for turned, sin in ((second.lhs, second.rhs), (second.rhs, second.lhs)):
            x = _rotated_half(turned)
            if x is None or x not in (first.lhs, first.rhs):
                continue
            cos = first.rhs if first.lhs == x else first.lhs
            tables = _table(cos, x), _table(sin, x)
            if tables[0] is not None and tables[1] is not None and type_of(x) == result_type(op):
                return ops.rotary_embedding(x, tables[0], tables[1])
    return None


def _rotated_half(value: ir.Value) -> ir.Value | None:
    """x of concat([-x[..., h:], x[..., :h]])."""
    joined = is_named(value, "concat")
    if joined is None or len(joined.xs) != 2 or joined.axis % type_of(value).rank != type_of(value).rank - 1:
        return None
    negative, second = is_named(joined.xs[0], "neg"), is_named(joined.xs[1], "slice")
    first = is_named(negative.x, "slice") if negative is not None else None
    if first is None or second is None or first.x != second.x or type_of(first.x).rank != 4:
        return None
    shape = type_of(first.x).shape
    half = exact_div(shape[3], 2)
    wanted = [((0, 0, 0, half), first), ((0, 0, 0, 0), second)]
    if not isinstance(half, int) or any(tuple(o.starts) != s or set(o.steps) != {1} for s, o in wanted):
        return None
    return first.x if all(tuple(o.sizes) == (*shape[:3], half) for _, o in wanted) else None


def _table(value: ir.Value, x: ir.Value) -> ir.Value | None:
    """A table [b or 1, 1, s, d] for x [b, h, s, d] as [b or 1, s, d / 2], if the second half of the features equals the first."""
    shape, have = type_of(value).shape, type_of(x).shape
    if len(shape) != 4 or shape[1] != 1 or shape[0] not in (1, have[0]) or shape[2:] != have[2:]:
        return None
    half = _first_half(value)
    return reshape(half, (shape[0], shape[2], type_of(half).shape[-1])) if half is not None else None


def _first_half(value: ir.Value) -> ir.Value | None:
    """The first half of a tensor along its last axis, if the second is equal to it."""
    op = op_of(value)
    if op is None:
        return None
    if op.OP_NAME == "concat":
        last = op.axis % type_of(value).rank == type_of(value).rank - 1
        return op.xs[0] if last and len(op.xs) == 2 and op.xs[0] == op.xs[1] else None
    if op.OP_NAME in UNARY:
        inner = _first_half(op.operation.operands[0])
        return type(op).build(inner, **op.attrs) if inner is not None else None
    if op.OP_NAME == "mul" and splat(op.rhs) is not None and type_of(op.rhs).rank == 0:
        inner = _first_half(op.lhs)
        return type(op).build(inner, op.rhs, **op.attrs) if inner is not None else None
    if op.OP_NAME == "reshape":
        have, want = type_of(op.x).shape, type_of(value).shape
        if not have or not want or have[-1] != want[-1] or product(have[:-1]) != product(want[:-1]):
            return None
        inner = _first_half(op.x)
        return reshape(inner, (*want[:-1], type_of(inner).shape[-1])) if inner is not None else None
    return None


@_law("concat")
def partly_rotated(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """concat([rotary(x[..., :r]), x[..., r:]]) = rotary(x), which leaves the features from r on as they are"""
    if len(op.xs) != 2 or result_type(op).rank != 4 or op.axis % 4 != 3:
        return None
    turned, rest = is_named(op.xs[0], "rotary_embedding"), is_named(op.xs[1], "slice")
    head = is_named(turned.x, "slice") if turned is not None else None
    if turned is None or head is None or rest is None or head.x != rest.x or turned.interleaved:
        return None
    shape, count = type_of(head.x).shape, type_of(turned.x).shape[3]
    if not isinstance(count, int) or not isinstance(shape[3], int):
        return None
    if tuple(head.starts) != (0, 0, 0, 0) or tuple(rest.starts) != (0, 0, 0, count):
        return None
    if set(head.steps) != {1} or set(rest.steps) != {1} or tuple(rest.sizes) != (*shape[:3], shape[3] - count):
        return None
    return ops.rotary_embedding(head.x, turned.cos, turned.sin) if tuple(head.sizes) == (*shape[:3], count) else None
