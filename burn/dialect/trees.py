"""Ensembles of decision trees: the leaf that each row of features ends at in each tree.

A node is two integers, which have the width of a feature: the bits of its split, and a word. The lowest bits of the word are the
number of its first child. The second child is the next node. Then come `OUTCOME_BITS` bits. The number of a feature is in the
highest bits below the sign. A row goes to the second child if the outcome of comparing its feature with the split, LESS, EQUAL or
GREATER, is among the bits. NaN has none of these outcomes, so it leads to the first child. First children have even numbers. A
leaf's first child is itself, and its split is NaN, so a row stays there.

A node with the bit IN_SET holds the number of a set of values instead of a split. A value of the set is EQUAL to it, and any
other number is GREATER.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.rules import folded
from burn.dialect.compose import broadcast_to, convert, number, reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, Operand
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, TensorType, type_of

LESS, EQUAL, GREATER, IN_SET = 1, 2, 4, 8
"""Bits of a node's outcomes, above the number of its first child."""

OUTCOME_BITS = 4

COMPARISONS = {"lt": LESS, "eq": EQUAL, "le": LESS | EQUAL, "gt": GREATER, "ge": GREATER | EQUAL}
"""Pointwise functions by the outcomes for which they are true."""

NODE_DTYPES = {"float32": "int32", "float64": "int64"}
"""The type of nodes by that of features."""


def feature_bits(features: int) -> int:
    """The bits of a word that have the number of one of so many features."""
    return max(0, features - 1).bit_length()


def feature_shift(features: int, dtype: str) -> int:
    """The lowest of these bits, in words for features of `dtype`."""
    return 8 * DTYPES[dtype].size - 1 - feature_bits(features)


class TreeLeaves(Op, name="tree_leaves", traits=Trait.WRITES_IN_PLACE, batching=folded(x=0)):
    """The leaf at which each row ends in each tree.

    Shapes: x [n, f] float32 or float64, nodes [2^k, 2] int32 or int64, roots [trees] int32, sets [s, width] of x's type ->
    [n, trees] int32.

    depths: the steps of each tree's longest path. features: one more than the largest feature of any node. comparison: a key of
    `COMPARISONS` if all inner nodes have its outcomes, else ""."""

    x: Operand
    nodes: Operand
    roots: Operand
    sets: Operand | None
    depths: tuple[int, ...]
    features: int
    comparison: str = ""

    @classmethod
    def infer(
        cls,
        x: TensorType,
        nodes: TensorType,
        roots: TensorType,
        sets: TensorType | None,
        depths: tuple[int, ...],
        features: int,
        comparison: str,
    ) -> TensorType:
        if x.dtype not in NODE_DTYPES or x.rank != 2:
            cls.fail(f"x must be float32[n, f] or float64[n, f], not {x}")
        count = nodes.shape[0] if nodes.rank == 2 else 0
        if nodes.dtype != NODE_DTYPES[x.dtype] or nodes.rank != 2 or nodes.shape[1] != 2:
            cls.fail(f"nodes must be {NODE_DTYPES[x.dtype]}[2^k, 2] for features of {x.dtype}, not {nodes}")
        if not isinstance(count, int) or not 2 <= count <= 2**31 or count & (count - 1):
            cls.fail(f"the number of nodes must be a power of two up to 2^31, not {count}")
        if roots.dtype != "int32" or roots.shape != (len(depths),):
            cls.fail(f"roots must be int32[{len(depths)}], as there are so many depths, not {roots}")
        if sets is not None and (sets.dtype != x.dtype or sets.rank != 2):
            cls.fail(f"sets must be {x.dtype}[s, width], not {sets}")
        if 8 * nodes.element_bytes - 1 < count.bit_length() - 1 + OUTCOME_BITS + feature_bits(features):
            cls.fail(f"{count} nodes of {features} features do not fit into {nodes.dtype}", "features")
        if min(depths, default=0) < 0 or features < (1 if any(depths) else 0):
            cls.fail("depths must not be negative, and inner nodes need features", "features")
        if isinstance(x.shape[1], int) and x.shape[1] < features:
            cls.fail(f"feature {features - 1} is used, but there are {x.shape[1]}", "features")
        if comparison not in ("", *COMPARISONS):
            cls.fail(f"'{comparison}' is none of {', '.join(COMPARISONS)}", "comparison")
        return TensorType("int32", (x.shape[0], len(depths)))

    def must_agree(self) -> list[Agreement]:
        return [Agreement(self.features, type_of(self.x).shape[1], "at most")]

    @classmethod
    def decompose(
        cls,
        x: ir.Value,
        nodes: ir.Value,
        roots: ir.Value,
        sets: ir.Value | None,
        depths: tuple[int, ...],
        features: int,
        comparison: str,
    ) -> ir.Value:
        """All rows walk all trees at the same time, one level at a time. A step has three gathers: a node's word, its split and a
        feature."""
        n, trees = type_of(x).shape[0], len(depths)
        at = broadcast_to(reshape(roots, (1, trees)), (n, trees))
        step = _Step(x, nodes, sets, features, comparison)
        for _ in range(max(depths, default=0)):
            at = step(at)
        return convert(at, "int32")


class _Step:
    """The tables of an ensemble, and one step of all walks. Indices are masked, so gathers need no checks."""

    def __init__(self, x: ir.Value, nodes: ir.Value, sets: ir.Value | None, features: int, comparison: str) -> None:
        self.x, self.sets, self.comparison = x, sets, comparison
        self.dtype, count = type_of(nodes).dtype, type_of(nodes).shape[0]
        assert isinstance(count, int)
        self.count, self.bits = count, count.bit_length() - 1
        self.values, self.words = (
            reshape(ops.slice(nodes, starts=(0, i), sizes=(count, 1), steps=(1, 1)), (count,)) for i in (0, 1)
        )
        self.splits = ops.bitcast(self.values, dtype=type_of(x).dtype)
        self.shift = feature_shift(features, type_of(x).dtype)
        present = type_of(x).shape[1]
        self.last = number(max(0, present - 1), self.dtype) if isinstance(present, int) else None

    def __call__(self, at: ir.Value) -> ir.Value:
        word = ops.gather(self.words, at)
        first = ops.and_(word, number(self.count - 1, self.dtype))
        feature = ops.shift_right(word, number(self.shift, self.dtype))
        value = ops.gather_elements(self.x, feature if self.last is None else ops.min(feature, self.last), axis=1)
        split = ops.gather(self.splits, at)
        if self.comparison:
            second = getattr(ops, self.comparison)(value, split)
        else:
            second = self._mixed(word, at, value, split)
        return ops.or_(first, convert(second, self.dtype))

    def _mixed(self, word: ir.Value, at: ir.Value, value: ir.Value, split: ir.Value) -> ir.Value:
        """True if the outcome of the comparison is among those of the node."""

        def has(outcome: int) -> ir.Value:
            bit = number(outcome << self.bits, self.dtype)
            return ops.ne(ops.and_(word, bit), number(0, self.dtype))

        less, equal, greater = ops.lt(value, split), ops.eq(value, split), ops.gt(value, split)
        if self.sets is not None:
            held = has(IN_SET)
            member = ops.and_(held, self._is_member(at, value))
            other = ops.and_(held, ops.and_(ops.not_(member), ops.not_(ops.isnan(value))))
            less = ops.and_(less, ops.not_(held))
            equal, greater = (ops.select(held, m, o) for m, o in ((member, equal), (other, greater)))
        pairs = ((LESS, less), (EQUAL, equal), (GREATER, greater))
        a, b, c = (ops.and_(has(bit), outcome) for bit, outcome in pairs)
        return ops.or_(ops.or_(a, b), c)

    def _is_member(self, at: ir.Value, value: ir.Value) -> ir.Value:
        """True if the value is in the set that the node's first number names; without meaning for a node without a set."""
        assert self.sets is not None
        sets = type_of(self.sets).shape[0]
        assert isinstance(sets, int)
        chosen = ops.max(ops.min(ops.gather(self.values, at), number(sets - 1, self.dtype)), number(0, self.dtype))
        own = ops.gather(self.sets, chosen, axis=0)
        same = ops.eq(reshape(value, (*type_of(value).shape, 1)), own)
        return ops.reduce(same, kind="any", axes=(2,))
