"""Decision trees: TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier.

All rows walk all trees at the same time, one level at a time. The state is the current node of each row in each tree. A step
looks up the node's feature, compares, and moves to one of its children. Leaves lead to themselves. A node's children are
neighbours, the one of the true branch first, and one integer has the node's first child and its feature: a step then has three
gathers. Enter at `Forest`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, limit, number, number_like, reshape
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.ml import DOMAIN, best_label, class_labels, post_transform, rows, transform_scores

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
COMPARISONS = ("le", "lt", "ge", "gt", "eq", "ne")
MEMBER = MODES.index("BRANCH_MEMBER")
MAX_DEPTH = 512
MOST_COPIES = 4
"""Nodes of a forest with copies of shared ones, over those in the file."""
LANES = 16
PART = 256
"""Trees of a part are a multiple of LANES; a further part costs as much as so many steps."""
MAX_VOTES = 2**28  # entries of the table of votes, which is dense


@dataclass
class Forest:
    """Trees as parallel arrays over all nodes. A leaf's children are itself; `votes` holds the leaves' weights."""

    roots: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    mode: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray  # whether NaN goes to the true child
    votes: np.ndarray  # [nodes, targets]
    voted: np.ndarray  # [nodes, targets]: whether the leaf says anything of the target
    members: dict[int, np.ndarray] = field(default_factory=dict)  # node -> the values it accepts


@dataclass
class Levels:
    """A forest's nodes level by level, the roots first. Children of an inner node are neighbours, the true one first, at an even
    number. `order`: the nodes by their new numbers. `first`: the number of the true child; a leaf's own number. `depths`: the
    steps of each tree's longest path."""

    order: np.ndarray
    first: np.ndarray
    depths: np.ndarray

    @staticmethod
    def of(node: Node, forest: Forest) -> Levels:
        """Nodes with several parents are copied. Fails for a graph that is not a forest."""
        level, orders, firsts = forest.roots, [], []
        if len(level) % 2:
            level = np.append(level, level[-1])  # no tree starts at the copy
        total, tree, depths = len(level), np.arange(len(level)), np.zeros(len(level), np.int64)
        while True:
            own = np.arange(total - len(level), total)
            inner = (forest.true[level] != level) | (forest.false[level] != level)
            orders.append(level)
            firsts.append(np.where(inner, total + 2 * (np.cumsum(inner) - 1), own))
            parents = level[inner]
            if not parents.size:
                return Levels(np.concatenate(orders), np.concatenate(firsts), depths[: len(forest.roots)])
            tree = np.repeat(tree[inner], 2)
            depths[tree] = len(orders)
            level = np.stack([forest.true[parents], forest.false[parents]], 1).reshape(-1)
            total += len(level)
            if len(orders) > MAX_DEPTH or total > MOST_COPIES * len(forest.true) + len(forest.roots):
                node.fail(f"the trees are deeper than {MAX_DEPTH} nodes, share most nodes or run in circles")

    def arranged(self, forest: Forest) -> Forest:
        """The forest in this order."""
        arrays = ("feature", "split", "mode", "missing", "votes", "voted")
        members = {new: forest.members[old] for new, old in enumerate(self.order.tolist()) if old in forest.members}
        return replace(
            forest,
            roots=np.arange(len(forest.roots)),
            true=self.first,
            false=self.first + (self.first != np.arange(len(self.first))),
            members=members,
            **{name: getattr(forest, name)[self.order] for name in arrays},
        )


def walk(node: Node, forest: Forest, x: ir.Value) -> tuple[Forest, ir.Value]:
    """The forest as it is walked, deep trees first, and the leaf that each row [n, features] ends at in each tree: [n, trees]."""
    features = type_of(x).shape[1]
    if isinstance(features, int) and forest.feature.size and forest.feature.max() >= features:
        node.fail(f"feature {int(forest.feature.max())} is used, but there are {features}", "nodes_featureids")
    depths = Levels.of(node, forest).depths
    forest = replace(forest, roots=forest.roots[np.argsort(-depths, kind="stable")])
    levels = Levels.of(node, forest)
    forest = levels.arranged(forest)
    steps = _Steps(node, forest, x)
    leaves = [steps.walk(slice(start, stop), int(levels.depths[start])) for start, stop in parts(levels.depths)]
    return forest, leaves[0] if len(leaves) == 1 else ops.concat(leaves, axis=1)


def parts(depths: np.ndarray) -> list[tuple[int, int]]:
    """Trees, deep ones first, in parts that are walked as deep as their first tree: those with the fewest steps in all."""
    count = len(depths)
    ends = [*range(0, count, LANES), count]
    best: dict[int, tuple[float, list[tuple[int, int]]]] = {0: (0.0, [])}
    for stop in ends[1:]:
        choices = (
            (best[start][0] + (stop - start) * int(depths[start]) + PART, [*best[start][1], (start, stop)])
            for start in ends
            if start < stop and start in best
        )
        best[stop] = min(choices, key=lambda choice: choice[0])
    return best[count][1]


class _Steps:
    """The tables of a forest in the program. An integer has a node's first child, and its feature in higher bits."""

    def __init__(self, node: Node, forest: Forest, x: ir.Value) -> None:
        self.node, self.forest, self.x = node, forest, x
        features = type_of(x).shape[1]
        self.shift = len(forest.true).bit_length()
        packed = forest.true | forest.feature << self.shift
        self.dtype = "int32" if packed.max(initial=0) < 2**31 else "int64"
        self.table = self.filled(packed.astype(self.dtype))
        self.split = convert(self.filled(forest.split), type_of(x).dtype)
        self.missing = self.filled(forest.missing) if forest.missing.any() else None
        self.last = number(max(0, features - 1), self.dtype) if isinstance(features, int) else None

    def filled(self, table: np.ndarray) -> ir.Value:
        """With zeros behind it: tables of a power of two elements are read without checks, as a mask bounds the indices."""
        return self.node.array(np.concatenate([table, np.zeros((1 << self.shift) - len(table), table.dtype)]))

    def walk(self, trees: slice, depth: int) -> ir.Value:
        """The leaves of the rows in these trees."""
        roots = self.forest.roots[trees].astype(self.dtype)
        at = broadcast_to(reshape(self.node.array(roots), (1, len(roots))), (type_of(self.x).shape[0], len(roots)))
        for _ in range(depth):
            at = self.step(at)
        return at

    def step(self, at: ir.Value) -> ir.Value:
        entry = ops.gather(self.table, at)
        first = ops.and_(entry, number((1 << self.shift) - 1, self.dtype))
        feature = ops.shift_right(entry, number(self.shift, self.dtype))
        value = ops.gather_elements(self.x, feature if self.last is None else ops.min(feature, self.last), axis=1)
        taken = _compare(self.node, self.forest, at, value, ops.gather(self.split, at))
        if self.missing is not None:
            taken = ops.or_(taken, ops.and_(ops.isnan(value), ops.gather(self.missing, at)))
        second = ops.and_(ops.not_(taken), ops.ne(first, at))  # a leaf stays where it is
        return ops.or_(first, convert(second, self.dtype))


def _compare(node: Node, forest: Forest, at: ir.Value, value: ir.Value, split: ir.Value) -> ir.Value:
    """True for each row that goes to its node's true child."""
    inner = forest.true != np.arange(len(forest.true))
    used = sorted(set(forest.mode[inner].tolist()))
    mode = ops.gather(node.array(forest.mode), at) if len(used) > 1 else None
    result = None
    for code in used:
        if code == MEMBER:
            answer = _is_member(node, forest, at, value)
        else:
            answer = getattr(ops, COMPARISONS[code])(value, split)
        if result is None:
            result = answer
        else:
            result = ops.select(ops.eq(mode, number(code, "int64")), answer, result)
    assert result is not None
    return result


def _is_member(node: Node, forest: Forest, at: ir.Value, value: ir.Value) -> ir.Value:
    """True if the value is in its node's set. Sets are padded to one length with a member of their own."""
    width = max(len(values) for values in forest.members.values())
    table = np.full((len(forest.feature), width), np.nan, np.float64)
    for index, values in forest.members.items():
        table[index] = np.concatenate([values, np.full(width - len(values), values[0])])
    own = ops.gather(convert(node.array(table), type_of(value).dtype), at, axis=0)
    same = ops.eq(reshape(value, (*type_of(value).shape, 1)), own)
    return ops.reduce(same, kind="any", axes=(2,))


def gather_votes(node: Node, forest: Forest, leaf: ir.Value, aggregate: str, dtype: str) -> ir.Value:
    """The leaves' weights [n, targets], aggregated over the trees."""
    weights = ops.gather(convert(node.array(forest.votes), dtype), leaf, axis=0)
    if aggregate in ("SUM", "AVERAGE"):
        total = ops.reduce(weights, kind="sum", axes=(1,))
        return ops.div(total, number(len(forest.roots), dtype)) if aggregate == "AVERAGE" else total
    kind = aggregate.lower()
    if kind not in ("min", "max"):
        node.fail(f"'{aggregate}' is none of SUM, AVERAGE, MIN, MAX", "aggregate_function")
    if not forest.voted.all():
        silent = limit(dtype, highest=kind == "min")
        weights = ops.select(ops.gather(node.array(forest.voted), leaf, axis=0), weights, silent)
    return ops.reduce(weights, kind=kind, axes=(1,))


HIT_RATES = "they say how often a node is met, for the order of evaluation"


# ---- the older operators: one list of nodes, by tree and number -----------------------------------------------------
def _floats(node: Node, name: str) -> np.ndarray:
    if node.has(f"{name}_as_tensor"):
        return np.asarray(node.tensor(f"{name}_as_tensor").array()).reshape(-1)
    return np.array(node.floats(name, ()), np.float32)


def listed_forest(node: Node, prefix: str, targets: int) -> Forest:
    """From nodes_*, and target_* or class_*."""
    trees, numbers = node.ints("nodes_treeids"), node.ints("nodes_nodeids")
    node.no_effect("nodes_hitrates", "nodes_hitrates_as_tensor", because=HIT_RATES)
    at = {pair: i for i, pair in enumerate(zip(trees, numbers, strict=True))}
    names = node.strings("nodes_modes")
    count = len(trees)
    if unknown := sorted(set(names) - {*MODES, "LEAF"}):
        node.fail(f"unknown {', '.join(unknown)}", "nodes_modes")
    leaf = np.array([name == "LEAF" for name in names])
    own = np.arange(count)
    children = []
    for attribute in ("nodes_truenodeids", "nodes_falsenodeids"):
        ids = node.ints(attribute)
        if len(ids) != count or len(names) != count:
            node.fail(f"has {len(ids)} entries for {count} nodes", attribute)
        try:
            children_at = [i if leaf[i] else at[trees[i], ids[i]] for i in range(count)]
        except KeyError as error:
            node.fail(f"names node {error.args[0][1]} of tree {error.args[0][0]}, which does not exist", attribute)
        children.append(np.array(children_at, np.int64))
    missing = np.array(node.ints("nodes_missing_value_tracks_true", (0,) * count), bool)
    split = _floats(node, "nodes_values")
    feature = np.array(node.ints("nodes_featureids"), np.int64)
    if not len(missing) == len(split) == len(feature) == count:
        node.fail(f"the lists of nodes differ in length from {count}", "nodes_values")
    seen: dict[int, int] = {}
    is_child = set(children[0][~leaf].tolist()) | set(children[1][~leaf].tolist())
    for index in own:
        if int(index) not in is_child:
            seen.setdefault(trees[index], int(index))
    votes, voted = no_votes(node, count, targets, split.dtype)
    weights = _floats(node, f"{prefix}_weights")
    entries = zip(
        node.ints(f"{prefix}_treeids"), node.ints(f"{prefix}_nodeids"), node.ints(f"{prefix}_ids"), weights, strict=True
    )
    for tree, number_, target, weight in entries:
        if (tree, number_) not in at or not 0 <= target < targets:
            node.fail(f"names node {number_} of tree {tree} or target {target}, which does not exist", f"{prefix}_ids")
        votes[at[tree, number_], target] += weight
        voted[at[tree, number_], target] = True
    codes = np.array([0 if name == "LEAF" else MODES.index(name) for name in names], np.int64)
    roots = np.array(list(seen.values()), np.int64)
    return Forest(roots, np.where(leaf, 0, feature), split, codes, children[0], children[1], missing, votes, voted)


def no_votes(node: Node, nodes: int, targets: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The tables of votes, and of who votes, still empty. Sizes come from the file: they are checked first."""
    if targets < 1 or nodes * targets > MAX_VOTES:
        node.fail(f"{nodes} nodes with votes for {targets} targets are not supported", "n_targets")
    return np.zeros((nodes, targets), dtype), np.zeros((nodes, targets), bool)


def with_base(node: Node, scores: ir.Value) -> ir.Value:
    base = _floats(node, "base_values")
    return ops.add(scores, convert(node.array(base), type_of(scores).dtype)) if base.size else scores


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(node: Node) -> ir.Value:
    forest = listed_forest(node, "target", node.int("n_targets"))
    x = rows(node)
    forest, leaf = walk(node, forest, x)
    scores = gather_votes(node, forest, leaf, node.string("aggregate_function", "SUM"), str(forest.votes.dtype))
    return convert(post_transform(node, with_base(node, scores)), "float32")


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(node: Node) -> list[ir.Value]:
    labels = class_labels(node, "classlabels_int64s")
    forest = listed_forest(node, "class", max(len(labels), 1))
    scores = gather_votes(node, *walk(node, forest, rows(node)), "SUM", str(forest.votes.dtype))
    scores = convert(with_base(node, scores), "float32")
    if len(labels) <= 2 and len(set(node.ints("class_ids"))) == 1:
        return _binary(node, scores, labels)
    final = post_transform(node, scores)
    return [best_label(node, final, labels), final]


def _binary(node: Node, scores: ir.Value, labels: np.ndarray) -> list[ir.Value]:
    """All votes are for one class: its score also tells the other's.

    Where no vote is negative the score is a share of one, and the other class has the rest; else its sign decides."""
    only = node.ints("class_ids")[0]
    shares = bool((_floats(node, "class_weights") >= 0).all())
    positive = ops.slice(scores, starts=(0, only), sizes=(type_of(scores).shape[0], 1), steps=(1, 1))
    other = ops.sub(number_like(1.0, positive), positive) if shares else ops.neg(positive)
    final = ops.concat([other, positive], axis=1)
    kind = node.string("post_transform", "NONE")
    if not shares or kind not in ("NONE", "LOGISTIC"):
        final = transform_scores(node, final, kind)
    if len(labels) < 2:
        first: Any = "" if labels.dtype == object else 0
        labels = np.array([first, labels[0] if len(labels) else 1], labels.dtype)
    return [best_label(node, final, labels), final]


# ---- TreeEnsemble: inner nodes and leaves apart ---------------------------------------------------------------------
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@onnx_op("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(node: Node) -> ir.Value:
    forest = split_forest(node)
    x = rows(node)
    code, transform = node.int("aggregate_function", 1), node.int("post_transform", 0)
    if not 0 <= code < len(AGGREGATES):
        node.fail(f"must be 0 to {len(AGGREGATES) - 1}, not {code}", "aggregate_function")
    if not 0 <= transform < len(TRANSFORMS):
        node.fail(f"must be 0 to {len(TRANSFORMS) - 1}, not {transform}", "post_transform")
    scores = gather_votes(node, *walk(node, forest, x), AGGREGATES[code], type_of(x).dtype)
    return transform_scores(node, scores, TRANSFORMS[transform])


def split_forest(node: Node) -> Forest:
    """Inner nodes first, then leaves, in one numbering."""
    feature = np.array(node.ints("nodes_featureids"), np.int64)
    node.no_effect("nodes_hitrates", because=HIT_RATES)
    split, mode = (np.asarray(node.tensor(f"nodes_{name}").array()).reshape(-1) for name in ("splits", "modes"))
    inner, weights = len(feature), np.asarray(node.tensor("leaf_weights").array()).reshape(-1)
    leaves, targets = len(weights), node.int("n_targets")
    target = np.array(node.ints("leaf_targetids"), np.int64)
    total = inner + leaves
    children: dict[str, np.ndarray] = {}
    for side in ("true", "false"):
        ids, is_leaf = (np.array(node.ints(f"nodes_{side}{kind}"), np.int64) for kind in ("nodeids", "leafs"))
        if not len(ids) == len(is_leaf) == inner:
            node.fail(f"has {len(ids)} entries for {inner} nodes", f"nodes_{side}nodeids")
        children_at = np.where(is_leaf != 0, ids + inner, ids)
        if ((children_at < 0) | (children_at >= total) | ((is_leaf == 0) & (ids >= inner))).any():
            node.fail("names a node that does not exist", f"nodes_{side}nodeids")
        children[side] = np.concatenate([children_at, np.arange(inner, total)])
    missing = np.array(node.ints("nodes_missing_value_tracks_true", (0,) * inner), bool)
    roots = np.array(node.ints("tree_roots"), np.int64)
    if not len(split) == len(mode) == len(missing) == inner or len(target) != leaves:
        node.fail("the lists of nodes, or of leaves, differ in length", "nodes_splits")
    if ((roots < 0) | (roots >= inner)).any() or ((target < 0) | (target >= targets)).any() or (mode > MEMBER).any():
        node.fail("a root, a target or a mode does not exist", "tree_roots")
    votes, voted = no_votes(node, total, targets, weights.dtype)
    votes[np.arange(inner, total), target] = weights
    voted[np.arange(inner, total), target] = True

    def padded(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.zeros(leaves, values.dtype)])

    forest = Forest(
        roots,
        padded(feature),
        padded(split),
        padded(mode.astype(np.int64)),
        children["true"],
        children["false"],
        padded(missing),
        votes,
        voted,
    )
    if (mode == MEMBER).any():
        forest.members = _members(node, np.flatnonzero(mode == MEMBER))
    return forest


def _members(node: Node, nodes: np.ndarray) -> dict[int, np.ndarray]:
    """`membership_values` holds the sets of these nodes one after another, each followed by NaN."""
    values = np.asarray(node.tensor("membership_values").array()).reshape(-1).astype(np.float64)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) != len(nodes):
        node.fail(f"holds {len(ends)} sets for {len(nodes)} nodes", "membership_values")
    starts = np.concatenate([[0], ends[:-1] + 1])
    sets = {int(n): values[a:b] for n, a, b in zip(nodes, starts, ends, strict=True)}
    if any(not len(s) for s in sets.values()):
        node.fail("holds an empty set", "membership_values")
    return sets
