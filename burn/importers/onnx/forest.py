"""Decision trees of a file, and their form in `burn.tree_leaves`. Enter at `Forest.walk`.

Pairs of children are numbered in depth-first order, larger subtrees first. A walk that goes on to a node's larger child then
finds its children in the next bytes of the table, and often in the same cache line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, limit
from burn.dialect.mlir import ir
from burn.dialect.trees import (
    COMPARISONS,
    EQUAL,
    GREATER,
    IN_SET,
    LESS,
    NODE_DTYPES,
    OUTCOME_BITS,
    feature_bits,
    feature_shift,
)
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER = MODES.index("BRANCH_MEMBER")
NOT_EQUAL = MODES.index("BRANCH_NEQ")
TRUE_OUTCOMES = np.array([LESS | EQUAL, LESS, GREATER | EQUAL, GREATER, EQUAL, LESS | GREATER, EQUAL])
"""Outcomes of a comparison that lead to the true child, by mode."""

ORDERED = LESS | EQUAL | GREATER
WORD_BITS = 31
"""Bits of a word for float32 features. If more are needed, the walk is in float64."""

MAX_DEPTH = 512
MOST_COPIES = 4
"""Nodes of a forest with copies of shared ones, over those in the file."""


@dataclass
class Forest:
    """Trees as parallel arrays over all nodes. A leaf's children are itself; `votes` holds the leaves' weights."""

    roots: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    mode: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray  # True if NaN goes to the true child
    votes: np.ndarray  # [nodes, targets]
    voted: np.ndarray  # [nodes, targets]: True if the leaf has a weight for the target
    members: dict[int, np.ndarray] = field(default_factory=dict)  # node -> the values it accepts

    def walk(self, node: Node, x: ir.Value) -> Walked:
        """Builds the walk of the rows x [n, features] through all trees, deep ones first."""
        levels = Levels.of(node, self, self.roots)
        levels = Levels.of(node, self, self.roots[np.argsort(-levels.depths, kind="stable")])
        features = type_of(x).shape[1]
        used = int(self.feature[levels.order][levels.is_inner].max(initial=-1)) + 1
        if isinstance(features, int) and used > features:
            node.fail(f"feature {used - 1} is used, but there are {features}", "nodes_featureids")
        table = Table(self, levels, x)
        sets = table.sets()
        leaf = ops.tree_leaves(
            table.read_features(x),
            node.array(table.nodes()),
            node.array(np.arange(len(self.roots), dtype=np.int32)),
            None if sets is None else node.array(sets),
            depths=tuple(levels.depths.tolist()),
            features=table.used,
            comparison=table.comparison,
        )
        return Walked(leaf, table.by_number(self.votes), table.by_number(self.voted), len(self.roots))


@dataclass
class Walked:
    """leaf [n, trees]: where the rows end. votes and voted [numbers, targets] are the leaves' by these numbers."""

    leaf: ir.Value
    votes: np.ndarray
    voted: np.ndarray
    trees: int


@dataclass
class Levels:
    """A forest's nodes level by level, the roots first, with a copy of a node for each of its parents. Children of an inner node
    are neighbours, the true one first.

    order: the nodes by their new numbers. first: the number of the true child; a leaf's own number. starts: the first number of
    each level, and the end. depths: the steps of each tree's longest path."""

    order: np.ndarray
    first: np.ndarray
    starts: list[int]
    depths: np.ndarray

    @staticmethod
    def of(node: Node, forest: Forest, roots: np.ndarray) -> Levels:
        """Fails for a graph that is not a forest."""
        level, orders, firsts, starts = roots, [], [], [0]
        total, tree, depths = len(level), np.arange(len(level)), np.zeros(len(level), np.int64)
        while True:
            own = np.arange(total - len(level), total)
            inner = (forest.true[level] != level) | (forest.false[level] != level)
            orders.append(level)
            firsts.append(np.where(inner, total + 2 * (np.cumsum(inner) - 1), own))
            starts.append(total)
            parents = level[inner]
            if not parents.size:
                return Levels(np.concatenate(orders), np.concatenate(firsts), starts, depths)
            tree = np.repeat(tree[inner], 2)
            depths[tree] = len(orders)
            level = np.stack([forest.true[parents], forest.false[parents]], 1).reshape(-1)
            total += len(level)
            if len(orders) > MAX_DEPTH or total > MOST_COPIES * len(forest.true) + len(roots):
                node.fail(f"the trees are deeper than {MAX_DEPTH} nodes, share most nodes or run in circles")

    @cached_property
    def is_inner(self) -> np.ndarray:
        return self.first != np.arange(len(self.first))

    def inner(self) -> Iterator[np.ndarray]:
        """The numbers of the inner nodes of each level."""
        for start, stop in pairwise(self.starts):
            yield start + np.flatnonzero(self.is_inner[start:stop])


@dataclass
class Tests:
    """The tests of nodes, where NaN leads to the first child.

    outcomes: those of the comparison that lead to the second child. true_is_second: the second child is the true one. lowest: the
    node takes NaN for minus infinity."""

    outcomes: np.ndarray
    true_is_second: np.ndarray
    lowest: np.ndarray

    @staticmethod
    def of(forest: Forest, order: np.ndarray, inner: np.ndarray, doubled: bool) -> Tests:
        """doubled: nodes may differ in `lowest`. Then nodes that send NaN to different children can have the same outcomes, and
        their walk takes half the time."""
        mode, split = forest.mode[order], forest.split[order]
        general = Tests._any(mode, forest.missing[order], split)
        if not doubled or len(set(general.outcomes[inner].tolist())) < 2:
            return general
        for same, opposite in (("BRANCH_LEQ", "BRANCH_GT"), ("BRANCH_LT", "BRANCH_GTE")):
            found = mode == MODES.index(same)
            lowest = forest.missing[order] == found
            strict = same == "BRANCH_LT"  # minus infinity is not less than itself
            exact = (
                (found | (mode == MODES.index(opposite))) & ~np.isnan(split) & ~(strict & lowest & np.isneginf(split))
            )
            if exact[inner].all():
                return Tests(np.full(len(order), LESS if strict else LESS | EQUAL), found, lowest & inner)
        return general

    @staticmethod
    def _any(mode: np.ndarray, missing: np.ndarray, split: np.ndarray) -> Tests:
        """NaN is false for all modes but NEQ, and true where `missing` is set."""
        missing = missing | (mode == NOT_EQUAL)
        outcomes = np.where(missing, ORDERED & ~TRUE_OUTCOMES[mode], TRUE_OUTCOMES[mode])
        # nothing compares with a split that is NaN: every number goes where the comparison is false
        unordered = np.isnan(split) & (mode != MEMBER)
        outcomes = np.where(unordered, np.where(missing & (mode != NOT_EQUAL), ORDERED, 0), outcomes)
        return Tests(outcomes | np.where(mode == MEMBER, IN_SET, 0), ~missing, np.zeros(len(mode), bool))


class Table:
    """The nodes of `burn.tree_leaves` for features `x`, by number. All arrays are in the order of `levels`."""

    def __init__(self, forest: Forest, levels: Levels, x: ir.Value) -> None:
        self.levels, order, inner = levels, levels.order, levels.is_inner
        present = type_of(x).shape[1]
        self.tests = Tests.of(forest, order, inner, doubled=isinstance(present, int))
        self.feature = forest.feature[order]
        self.split = np.where(self.tests.outcomes == ORDERED, 0, forest.split[order])  # any number but NaN
        self.all_lowest = bool(self.tests.lowest[inner].all())
        if isinstance(present, int) and not self.all_lowest:
            self.feature = self.feature + present * self.tests.lowest
        self.used = int(self.feature[inner].max(initial=-1)) + 1
        chosen = sorted(forest.members)
        self.members = [forest.members[old] for old in chosen]
        indices = {old: i for i, old in enumerate(chosen)}
        self.set_of = np.array([indices.get(old, 0) for old in order.tolist()]) if chosen else None
        self.number, self.pair = _numbers(levels, self.tests.true_is_second)
        self.count = int(self.number.max(initial=1)) + 1
        self.bits = (self.count - 1).bit_length()
        is_wide = self.bits + OUTCOME_BITS + feature_bits(self.used) > WORD_BITS
        self.dtype = "float64" if is_wide else type_of(x).dtype

    def read_features(self, x: ir.Value) -> ir.Value:
        """The features as nodes read them."""
        if self.tests.lowest.any():
            lowest = ops.select(ops.isnan(x), limit(type_of(x).dtype, highest=False), x)
            x = lowest if self.all_lowest else ops.concat([x, lowest], axis=1)
        return convert(x, self.dtype)

    @property
    def comparison(self) -> str:
        """The comparison of all inner nodes; "" if they differ."""
        used = set(self.tests.outcomes[self.levels.is_inner].tolist())
        return next((name for name, outcomes in COMPARISONS.items() if used == {outcomes}), "")

    def nodes(self) -> np.ndarray:
        """[2^bits, 2]: the splits, and the words."""
        inner, integers = self.levels.is_inner, np.dtype(NODE_DTYPES[self.dtype])
        split = np.where(inner, self.split, np.nan).astype(self.dtype).view(integers)
        if self.set_of is not None:
            split = np.where(inner & (self.tests.outcomes & IN_SET != 0), self.set_of, split)
        first = np.where(inner, 2 * self.pair, self.number)
        outcomes, feature = (np.where(inner, values, 0) for values in (self.tests.outcomes, self.feature))
        table = np.zeros((1 << self.bits, 2), integers)
        table[self.number, 0] = split
        table[self.number, 1] = first | outcomes << self.bits | feature << feature_shift(self.used, self.dtype)
        return table

    def sets(self) -> np.ndarray | None:
        """The sets of values, padded to one length with members of their own; None if there are none."""
        if not self.members:
            return None
        width = max(map(len, self.members))
        padded = [np.pad(values, (0, width - len(values)), mode="edge") for values in self.members]
        return np.stack(padded).astype(self.dtype)

    def by_number(self, values: np.ndarray) -> np.ndarray:
        """Rows of the file's nodes in the order of their numbers."""
        result = np.zeros((self.count, *values.shape[1:]), values.dtype)
        result[self.number] = values[self.levels.order]
        return result


def _numbers(levels: Levels, true_is_second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each node, and half the number of its first child. Roots come first."""
    first, below = levels.first, np.zeros(len(levels.first), np.int64)
    for inner in reversed(list(levels.inner())):
        below[inner] = 1 + below[first[inner]] + below[first[inner] + 1]
    trees = levels.starts[1]
    number, pair = np.arange(len(first)), np.zeros(len(first), np.int64)
    pair[:trees] = (trees + 1) // 2 + np.cumsum(below[:trees]) - below[:trees]
    for inner in levels.inner():
        true, false, own = first[inner], first[inner] + 1, pair[inner]
        larger = np.where(below[true] >= below[false], true, false)
        pair[larger] = own + 1
        pair[true + false - larger] = own + 1 + below[larger]
        number[true] = 2 * own + true_is_second[inner]
        number[false] = 2 * own + ~true_is_second[inner]
    return number, pair
